"""A pipeline: the description of an ingestion, as Flink CDC and Ververica write it in YAML, or Ververica in SQL.

    Pipeline.from_yaml("pipeline.yaml", set={"kafka.topic": "shop"}).explain()
    Pipeline.from_sql("CREATE TABLE orders ...; CREATE TABLE lake.orders ... AS TABLE orders").explain()

It is made of checked blocks. Only `start` asks brokers and a session.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from kvformat.ingestion.behaviors import SchemaChangeBehavior, accepted_tags
from kvformat.ingestion.pipeline.explain import explain
from kvformat.ingestion.pipeline.from_sql import sql_documents
from kvformat.ingestion.pipeline.options import Refusal, texts
from kvformat.ingestion.pipeline.routes import Route, pattern_warning
from kvformat.ingestion.pipeline.settings import PipelineSettings, parse_settings
from kvformat.ingestion.pipeline.sink import PipelineSink, parse_sink
from kvformat.ingestion.pipeline.source import PipelineSource, parse_source
from kvformat.ingestion.pipeline.transform import TransformRule, parse_routes, parse_transforms
from kvformat.ingestion.pipeline.yaml import MASK, Document, Secret, parse_document, read_text
from kvformat.ingestion.targets.discovery import target_class
from kvformat.ingestion.targets.target import Target
from kvformat.registry.contract.errors import ConfigurationError, did_you_mean
from kvformat.registry.sql.connector_options import masked

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kvformat.registry.streams.dead_letters import DeadLetterTarget

_MAPPING = "sink.tableId-to-topic.mapping"
_SEPARATORS = re.compile(r"[;,:]\s*")
_SHORTEST_ENTRY = 3  # characters; shorter entries of a secret are in many words


class Pipeline:
    """A checked pipeline: immutable, comparable, picklable; `repr` shows no secret.

    The arguments are the blocks of a YAML text: `source` and `sink` are options, `transform` and `route` lists of
    rules, `pipeline` the settings. `sink` may also be a target. A source may have the type `records`, whose stream
    `start` gets. Raises `ConfigurationError` for anything malformed. What Flink CDC can do and Spark can't is in
    `refused`: such a pipeline can be explained, but not started.

    source, sink, settings: the checked blocks. `transforms` and `routes` are the rules, in order.
    behavior, schema_changes: what a change of a schema does, and the kinds of changes that the sink takes.
    refused: reasons why the pipeline can't be started; `refused_for_records` are those for a stream of given records.
    `notes`: what has no effect, or another one than in Flink.
    """

    def __init__(
        self,
        source: Mapping[str, Any],
        sink: Mapping[str, Any] | Target,
        *,
        transform: Sequence[Mapping[str, Any]] = (),
        route: Sequence[Mapping[str, Any]] = (),
        pipeline: Mapping[str, Any] | None = None,
    ) -> None:
        self._set({"source": source, "sink": sink, "transform": transform, "route": route, "pipeline": pipeline or {}})

    @classmethod
    def from_yaml(cls, text_or_path: str | PathLike[str], *, set: Mapping[str, Any] | None = None) -> Pipeline:
        """Make the pipeline of a YAML text, or of the file at a path.

        `set` has the values of `${name}`; a name that is not there is looked up in the environment, in upper case and
        with `_` instead of `.` and `-`. Values of `${secret_values.name}` are shown as `******` only.
        Raises `ConfigurationError`, and `MissingExtraError` without PyYAML.
        """
        document = parse_document(read_text(text_or_path), set)
        return cls._from_document(document.blocks, document)

    @classmethod
    def from_sql(
        cls, text: str | PathLike[str], *, source: str | None = None, set: Mapping[str, Any] | None = None
    ) -> Pipeline:
        """Make the pipeline of a text of Flink SQL with CREATE TABLE ... AS TABLE, or of the file at a `Path`.

        A text whose statements follow several Kafka tables has a pipeline for each: `source` names the table whose
        pipeline is returned. `set` has the values of `${name}` in options, as in `from_yaml`. Raises
        `ConfigurationError` with line and column.
        """
        pipelines = cls.all_from_sql(text, set=set)
        if source is None and len(pipelines) > 1:
            raise ConfigurationError(
                f"the text has {len(pipelines)} pipelines, one for each table that it follows: {', '.join(pipelines)}. "
                f"Choose one, from_sql(text, source={next(iter(pipelines))!r}), or start each one of "
                "Pipeline.all_from_sql(text) with its own checkpoint"
            )
        if source is not None and source not in pipelines:
            raise ConfigurationError(
                f"the text follows no table {source!r}.{did_you_mean(source, pipelines)} It follows "
                f"{', '.join(pipelines)}"
            )
        return next(iter(pipelines.values())) if source is None else pipelines[source]

    @classmethod
    def all_from_sql(cls, text: str | PathLike[str], *, set: Mapping[str, Any] | None = None) -> dict[str, Pipeline]:
        """Make the pipelines of a text of Flink SQL, by the name of the Kafka table that each follows."""
        sql = text if isinstance(text, str) else read_text(text)
        documents = sql_documents(sql, set)
        return {name: cls._from_document(document.blocks, document) for name, document in documents.items()}

    @classmethod
    def _from_document(cls, blocks: Mapping[str, Any], document: Document) -> Pipeline:
        """Make a pipeline of blocks, also again after pickling."""
        pipeline = cls.__new__(cls)
        pipeline._set(blocks, document)
        return pipeline

    def _set(self, blocks: Mapping[str, Any], document: Document | None = None) -> None:
        self._secrets = _secrets(blocks)
        self._document = Document({}) if document is None else document
        block: str = ""
        try:
            self._check(blocks)
        except _BlockError as block_error:
            failed, block = block_error.error, block_error.block
        except ConfigurationError as error:
            failed = error
        else:
            return
        # outside of the block, so that the error has no context with a secret
        raise self._without_secrets(failed, self._document.place(block, failed.option))

    def _check(self, blocks: Mapping[str, Any]) -> None:
        for name in ("source", "sink"):
            if blocks.get(name, "") == "":
                raise ConfigurationError(f"the pipeline needs the block '{name}'")
        maps = {"source": _map("source", blocks["source"])}
        maps["pipeline"] = _map("pipeline", blocks.get("pipeline") or {})
        notes = list(self._document.notes)
        sink = blocks["sink"] if isinstance(blocks["sink"], Target) else _map("sink", blocks["sink"])
        self._blocks = {
            "transform": blocks.get("transform", ()),
            "route": blocks.get("route", ()),
            "sink": sink,
            **maps,
        }
        source = dict(maps["source"])
        if isinstance(sink, Mapping) and _MAPPING in source and _MAPPING not in sink:
            sink = {**sink, _MAPPING: source.pop(_MAPPING)}
            notes.append(f"source: '{_MAPPING}' is read as an option of the sink: write it there")
        with _in_block("source"):
            self.source: PipelineSource = parse_source(texts("source", source))
        with _in_block("sink"):
            self.sink: PipelineSink = parse_sink(sink)
        with _in_block("transform"):
            types = self.source.column_types()
            self.transforms: tuple[TransformRule, ...] = parse_transforms(self._blocks["transform"], types)
        with _in_block("route"):
            self.routes: tuple[Route, ...] = parse_routes(self._blocks["route"])
        with _in_block("pipeline"):
            self.settings: PipelineSettings = parse_settings(maps["pipeline"])
        self.behavior = SchemaChangeBehavior(self.settings.values["schema.change.behavior"])
        self.schema_changes = accepted_tags(self.sink.include, self.sink.exclude, self.behavior)
        refusals = [*self._refusals()]
        self.refused: tuple[str, ...] = tuple(why for _, why in refusals)
        self.refused_for_records = tuple(why for option, why in refusals if not option.startswith("scan."))
        notes += [*self.source.notes, *self.sink.notes, *self.settings.notes]
        notes += [note for rule in self.transforms for note in rule.notes]
        if not self._has_catalog() and any(r.partition_keys or r.table_options for r in self.transforms):
            notes.append(
                f"transform: no effect: 'partition-keys' and 'table-options', because '{self.sink.type}' creates no "
                "tables of a catalog"
            )
        if self.sink.values.get("path") and any(rule.partition_keys for rule in self.transforms):
            notes.append("transform: no effect: 'partition-keys', because tables at a path have no partitions")
        patterns = {f"route {number}: ": pattern_warning(route.source) for number, route in enumerate(self.routes, 1)}
        notes += [f"{where}{warning}" for where, warning in patterns.items() if warning]
        if self.routes and self.sink.type == "kafka":
            notes.append(
                "route: a message has the table's name from its route. To change the topic only, use the sink's "
                f"'{_MAPPING}'"
            )
        self.notes: tuple[str, ...] = tuple(map(self._masked, notes))

    def _has_catalog(self) -> bool:
        """Whether created tables have partition keys and properties; a sink that is not known here has none."""
        if self.sink.target is not None:
            return self.sink.target.has_catalog
        return not self.sink.values or target_class(self.sink.type).has_catalog

    def _refusals(self) -> Iterator[tuple[str, str]]:
        """Yield the reasons why the pipeline can't be started, each with its option: of the document, of the blocks."""
        for (_, option), why in self._document.refused.items():
            yield option, self._masked(why)
        of_blocks: dict[str, Sequence[str]] = {
            "source": self.source.refused,
            "sink": self.sink.refused,
            "pipeline": self.settings.refused,
            "transform": [why for rule in self.transforms for why in rule.refused],
        }
        for block, refused in of_blocks.items():
            for why in refused:
                option = why.option if isinstance(why, Refusal) else ""
                if (block, option) not in self._document.refused:
                    yield option, self._masked(why) + self._document.place(block, option)

    def explain(self) -> str:
        """Describe what the pipeline does, what is refused and why, and what has no effect. Shows no secret."""
        return self._masked(
            explain(
                self.source,
                self.sink,
                self.transforms,
                self.routes,
                self.settings,
                self.schema_changes,
                self.refused,
                self.notes,
            )
        )

    def start(
        self,
        spark: SparkSession,
        *,
        checkpoint_location: str | PathLike[str] | None = None,
        records: DataFrame | None = None,
        target: Target | None = None,
        dead_letters: DeadLetterTarget | None = None,
        trigger: Mapping[str, Any] | None = None,
        query_name: str | None = None,
        on_table_error: Literal["stop", "quarantine"] = "stop",
        take_over: bool = False,
        probe: bool = True,
        spark_options: Mapping[str, Any] | None = None,
    ) -> StreamingQuery:
        """Start the query.

        `checkpoint_location` is the folder of Spark's offsets and of the known schemas; by default that of the block
        `pipeline`. `records` is a stream with the columns of Spark's Kafka source that is read instead of the topics,
        and `target` a target that is written instead of the sink. `dead_letters` is where bad records go: a topic, a
        path, or a function of them and the batch's number; by default `dirty-data.collector`. `trigger` has the
        arguments of Spark's trigger, `spark_options` those of its Kafka source (`maxOffsetsPerTrigger`).
        With `on_table_error="quarantine"`, a table that fails no longer stops the query: its records become dead
        letters. `take_over` writes tables that belong to another query, `probe=False` leaves out the check of the
        target's versions. Raises `ConfigurationError` with the reasons for a pipeline that Spark can't run,
        `BrokerError`, `MissingExtraError`.
        """
        from kvformat.ingestion.start import start_query

        return start_query(
            self,
            spark,
            checkpoint_location=checkpoint_location,
            records=records,
            target=target,
            dead_letters=dead_letters,
            trigger=trigger,
            query_name=query_name,
            on_table_error=on_table_error,
            take_over=take_over,
            probe=probe,
            spark_options=spark_options,
        )

    def _masked(self, text: str) -> str:
        """Return a text with each secret replaced, also in the form of `repr`, and each entry of a secret list."""
        secrets = [secret for _, secret in self._secrets]
        entries = {piece for secret in secrets for piece in _SEPARATORS.split(secret) if len(piece) >= _SHORTEST_ENTRY}
        forms = {form for text in (*secrets, *entries) for form in (text, repr(text)[1:-1]) if form}
        for form in sorted(forms, key=len, reverse=True):
            text = text.replace(form, MASK)
        return text

    def _without_secrets(self, error: ConfigurationError, place: str) -> ConfigurationError:
        """Return the error without secrets. If the value of its option is a secret, it does not quote the value.

        `place` says where the option is in the text of the pipeline, and is added.
        """
        key = next((key for key, _ in self._secrets if error.option and f".{key}".endswith(f".{error.option}")), None)
        text = f"the value of the option '{key}', which is a secret, is not valid" if key else self._masked(str(error))
        return type(error)(f"{text}{place}", format=error.format, option=error.option)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_shown('', value)!r}" for name, value in self._arguments().items())
        return f"Pipeline({shown})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pipeline) and self._arguments() == other._arguments()

    __hash__ = None  # type: ignore[assignment]  # its blocks are dicts

    def __reduce__(self) -> tuple[Callable[..., Pipeline], tuple[Any, ...]]:
        return Pipeline._from_document, (self._blocks, self._document)

    def _arguments(self) -> dict[str, Any]:
        """Return the blocks, in the order of the arguments, without empty ones."""
        names = ("source", "sink", "transform", "route", "pipeline")
        return {name: self._blocks[name] for name in names if self._blocks[name]}


def _secrets(blocks: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the options of source and sink that are secrets, as plain texts. Both may have an option of one name."""
    parts = [block for name in ("source", "sink") if isinstance(block := blocks.get(name), Mapping)]
    return [(key, value.reveal()) for part in parts for key, value in part.items() if isinstance(value, Secret)]


class _BlockError(Exception):
    """An error in a block."""

    def __init__(self, block: str, error: ConfigurationError) -> None:
        super().__init__(block)
        self.block, self.error = block, error


@contextlib.contextmanager
def _in_block(block: str) -> Iterator[None]:
    """Raise `_BlockError` for a `ConfigurationError`."""
    try:
        yield
    except ConfigurationError as error:
        raise _BlockError(block, error) from None


def _map(name: str, block: Any) -> dict[str, Any]:
    if not isinstance(block, Mapping):
        raise ConfigurationError(f"{name}: must be a map, such as 'type: kafka'")
    return dict(block)


def _shown(key: str, value: Any) -> Any:
    """Return a block with its secrets masked."""
    if isinstance(value, Mapping):
        return {name: _shown(str(name), inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(key, inner) for inner in value]
    return MASK if isinstance(value, Secret) else masked(key, value)
