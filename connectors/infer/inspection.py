"""`inspect_topic`: guess the formats of a topic's keys and values from some of its records, and propose a table."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kvformat.codecs.avro_confluent import AvroConfluentFormat
from kvformat.codecs.avro_glue import AvroGlueFormat
from kvformat.codecs.discovery.column_types import Notes
from kvformat.codecs.discovery.message_kinds import JSON, TOMBSTONE, indices_of, message_kinds
from kvformat.codecs.registries.confluent_frames import CONFLUENT
from kvformat.codecs.registries.glue_client import REGION
from kvformat.codecs.registries.known import FRAMINGS
from kvformat.codecs.registry_formats.recognize import confluent_frames
from kvformat.codecs.registry_formats.record_options import RECORD_NAME
from kvformat.codecs.registry_formats.record_samples import options_for_type
from kvformat.connectors.infer.infer import proposal_of
from kvformat.connectors.infer.inferred import InferredSchema, shown_options
from kvformat.connectors.infer.proposal import Deletes, propose, start_options
from kvformat.connectors.infer.sample import SAMPLE, sample_of
from kvformat.connectors.infer.schema_uses import SchemaUse, schema_uses
from kvformat.connectors.infer.unreadable import unreadable_messages
from kvformat.registry.contract.discovery import available_formats, format_class
from kvformat.registry.contract.errors import ConfigurationError, PluginError, SchemaRegistryError, listed
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.samples import MessageSample, Recognition

_MOST = 100_000  # records


@dataclass(frozen=True, slots=True)
class FormatGuess:
    """A guess about some of the keys or values.

    part: 'key' or 'value'.
    format: the format that reads the messages. If no format does (`readable` is False), a name for the messages.
    confidence: from 0 to 1, the share of the messages times the certainty of the guess.
    reason: what the messages are, with counts.
    options: options that the format needs, without a prefix; secrets are masked.
    """

    part: Part
    format: str
    confidence: float
    reason: str
    options: Mapping[str, str] = field(default_factory=dict)
    readable: bool = True


@dataclass(frozen=True, slots=True)
class Inspection:
    """The guesses about a topic.

    guesses: first those of values, then those of keys; of each the most frequent first.
    ddl: a CREATE TABLE for `KeyValueFormat.from_ddl` that reads the records of the first guess; None without a table.
    notes: sentences about the guesses and the table.
    schemas: the schemas in a registry that messages have, those of values first, the oldest first.
    tables: a CREATE TABLE for each type of records, by its full name, if the values have several types in a schema
        registry; the first one is `ddl`. Each table skips messages of other types.
    counts: numbers of `messages`, `nulls` (tombstones) and `empty` messages; with keys, of `keys` and `null keys`; of
        `nulls as JSON` if there are any (tombstones in the form that Kafka Connect's JsonConverter writes).
    """

    guesses: tuple[FormatGuess, ...]
    ddl: str | None
    notes: tuple[str, ...]
    counts: Mapping[str, int]
    schemas: tuple[SchemaUse, ...] = ()
    tables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Group:
    """Messages of a sample that go to one format, or that no format reads; then there is a `remedy`."""

    indices: tuple[int, ...]
    recognition: Recognition
    format: str
    readable: bool = True
    remedy: str = ""

    def reason(self, part: Part, total: int) -> str:
        """Return the description of the messages, with counts."""
        of = f"{len(self.indices)} of {total} {'keys' if part == 'key' else 'messages'}"
        return f"{of} {self.recognition.description}"

    def schema(self, sample: MessageSample) -> InferredSchema:
        """The columns that the format proposes for the messages."""
        known = self.recognition
        proposal = proposal_of(replace(sample.only(self.indices), cut=""), self.format, known.options)
        return InferredSchema.of(self.format, known.options, proposal if known.adapt is None else known.adapt(proposal))


def inspect_topic(
    values: Any,
    keys: Any = None,
    *,
    headers: Any = None,
    timestamps: Any = None,
    name: str = "topic",
    topic: str | None = None,
    bootstrap: str | None = None,
    registry: str | Mapping[str, Any] | None = None,
) -> Inspection:
    """Guess the formats of the records of a topic, and propose a table that reads them.

    `values` and `keys` are iterables or Arrow arrays of messages (bytes, or None for null). At most 64 MiB of them are
    read. `headers` are those of the records, a list of `{"key": ..., "value": ...}` for each, and `timestamps` numbers
    of milliseconds since 1970. `values` may be a batch DataFrame of Kafka's records; then a job collects 1,000 records
    with all of these. `name` is the table's name, `topic` and `bootstrap` are values for its options. `registry` is the
    URL of a schema registry, or options of `avro-confluent` with the URL or of `avro-glue` with the region. It is asked
    for the schemas of the ids in messages. Secrets are masked in the result.

    No message raises an error. Raises `ConfigurationError` for an unsupported source and for bad options.
    """
    most = SAMPLE if hasattr(values, "isStreaming") else _MOST
    whole = sample_of(values, keys, most, headers=headers, timestamps=timestamps)
    sample = whole.with_header_ids()
    options = {"url": registry} if isinstance(registry, str) else dict(registry or {})
    notes = Notes()
    if sample.cut:
        notes.add(sample.cut)
    if REGION in options:
        AvroGlueFormat(options)  # raises `OptionError` for bad options
    elif options.get("url"):
        AvroConfluentFormat(options)
    elif options:
        raise ConfigurationError(
            f"registry has the options {listed(options)}, but neither 'url', the URL of a schema registry, nor "
            f"'{REGION}', the region of AWS Glue's. Add one of them"
        )
    samples: dict[Part, MessageSample] = {
        "value": replace(sample, cut="", registry=options),
        "key": replace(whole.keys(), registry=options),
    }
    groups = {part: _groups(of_part, notes) for part, of_part in samples.items()}
    tombstones = len(_tombstones(samples["value"]))
    chosen = {part: _schema(groups[part], samples[part], notes) for part in groups}
    guesses = [guess for part in groups for guess in _guesses(part, groups[part])]
    tables: dict[str, str] = {}
    ddl = None
    if chosen["value"] is not None:
        tables = _tables_of_types(samples, groups["value"], notes, topic or name, bootstrap)
        ddl = next(iter(tables.values()), None)
    if chosen["value"] is not None and ddl is None:
        deletes = Deletes(
            tombstones=None in sample.values or tombstones > 0, marked=groups["value"][0].recognition.marks_deletes
        )
        start = start_options(name, topic, bootstrap)
        ddl = propose(sample, chosen["value"], chosen["key"], deletes, notes, name=name, start=start)
    if ddl is not None and (topic is None or bootstrap is None):
        notes.add("set topic and properties.bootstrap.servers in the table")
    for part, schema in chosen.items():
        if schema is not None:
            at = next(i for i, guess in enumerate(guesses) if guess.part == part and guess.readable)
            guesses[at] = replace(guesses[at], options=schema.prefixed(""))
    _note_headers(samples["value"], notes)
    uses = [use for part in groups for use in _schema_uses(groups[part], samples[part], whole.timestamps)]
    counts = _counts(sample) | ({"nulls as JSON": tombstones} if tombstones else {})
    return Inspection(tuple(guesses), ddl, notes.texts(), counts, tuple(uses), tables)


def _tables_of_types(
    samples: Mapping[Part, MessageSample], groups: Sequence[_Group], notes: Notes, topic: str, bootstrap: str | None
) -> dict[str, str]:
    """Return a statement for each type of records, the most frequent first; none if there are not several types.

    Null messages belong to every type. A table reads all records of the sample without the errors of other types.
    """
    sample = samples["value"]
    of_types = {str(group.recognition.options.get(RECORD_NAME, "")): group for group in groups}
    of_types.pop("", None)
    short = [name.rpartition(".")[2] for name in of_types]
    tables = {}
    for name, group in of_types.items() if len(of_types) > 1 else ():
        key = _key_of_type(samples["key"], group.indices)
        unique = name.rpartition(".")[2] if short.count(name.rpartition(".")[2]) == 1 else name
        start = start_options(unique, topic, bootstrap)
        try:
            value = group.schema(sample)
        except (ConfigurationError, SchemaRegistryError) as error:
            notes.add(f"no columns of the type {name}: {error}")
            continue
        text = propose(sample, value, key, Deletes(tombstones=None in sample.values), notes, name=unique, start=start)
        if text is not None:
            tables[name] = text
    return tables


def _key_of_type(keys: MessageSample, indices: tuple[int, ...]) -> InferredSchema | None:
    """Return the columns of the keys at these indices; keys of other types are skipped if these have one type."""
    if not keys.values:
        return None
    of_type = keys.only(indices)
    schema = _schema(_groups(of_type, Notes()), of_type, Notes())
    if schema is None:
        return None
    more = options_for_type(keys, indices, schema.format, schema.options)
    return replace(schema, options={**schema.options, **more})


def _schema_uses(
    groups: Sequence[_Group], sample: MessageSample, timestamps: Sequence[int | None] | None
) -> list[SchemaUse]:
    """Return the schemas of the messages that have the id of one, whether a format reads them or not."""
    indices = {index for of_kind in sample.computed(confluent_frames).indices.values() for index in of_kind}
    kinds = {kind for framing in FRAMINGS for kind in framing.kinds} - {CONFLUENT}
    indices.update(index for index, kind in sample.computed(message_kinds).items() if kind in kinds)
    for group in groups:
        if group.readable and format_class(group.format).record_headers:
            indices |= set(group.indices)
    if not indices:
        return []
    framed = tuple(value if index in indices else None for index, value in enumerate(sample.values))
    return schema_uses(replace(sample, values=framed), timestamps)


def _note_headers(sample: MessageSample, notes: Notes) -> None:
    """Note the headers of values with the ids of schemas."""
    for framing in FRAMINGS:
        count = sum(bool(framing.kind_of(sample.values[at] or b"", in_header=True)) for at in sample.framed)
        if count and framing.headers:
            headers = "' or '".join(framing.id_headers("value"))
            notes.add(f"the schema's id is in the header '{headers}' of {count} records")


def _counts(sample: MessageSample) -> dict[str, int]:
    counts = {
        "messages": len(sample.values),
        "nulls": sum(value is None for value in sample.values),
        "empty": sum(value is not None and not value.strip() for value in sample.values),
    }
    if sample.keys is not None:
        nulls = sum(key is None for key in sample.keys)
        counts |= {"keys": len(sample.keys) - nulls, "null keys": nulls}
    return counts


def _guesses(part: Part, groups: Sequence[_Group]) -> Iterator[FormatGuess]:
    total = sum(len(group.indices) for group in groups)
    for group in groups:
        known = group.recognition
        confidence = round(known.confidence * len(group.indices) / total, 3)
        options = shown_options(group.format, known.options) if group.readable else {}
        yield FormatGuess(part, group.format, confidence, group.reason(part, total), options, group.readable)


def _schema(groups: list[_Group], sample: MessageSample, notes: Notes) -> InferredSchema | None:
    """The columns of the most frequent messages, if a format reads them."""
    if not groups:
        return None
    group, part = groups[0], sample.part
    if not group.readable:
        notes.add(f"no table is proposed for the {part}: it is not a format of Flink's. {group.remedy}")
        return None
    try:
        schema = group.schema(sample)
        other = group.recognition.without_key
        if other is not None and not schema.primary_key:
            groups[0] = replace(group, recognition=other, format=other.format or group.format)
            schema = groups[0].schema(sample)
            notes.add(
                "it is unknown which row an update or delete changes, because the keys of the records name no columns: "
                "the table reads each message as a new row"
            )
    except (ConfigurationError, SchemaRegistryError) as error:
        notes.add(f"no columns of the {part}: {error}")
        return None
    for note in schema.notes:
        notes.add(f"{part}: {note}")
    return schema


def _groups(sample: MessageSample, notes: Notes) -> list[_Group]:
    """Give each message to the format that is most confident of it; returns the largest group first.

    Null and blank messages are in no group, nor are tombstones that are null as JSON.
    """
    _note_encodings(sample, notes)
    claims = [_Group(known.messages, known, known.format or name) for name, known in _recognitions(sample, notes)]
    claims += [
        _Group(known.messages, known, known.format, readable=False, remedy=remedy)
        for known, remedy in unreadable_messages(sample)
    ]
    claims.sort(key=lambda claim: (-claim.recognition.confidence, -claim.recognition.specificity, not claim.readable))
    taken: set[int] = set()
    groups = []
    for claim in claims:
        indices = tuple(index for index in claim.indices if index not in taken)
        taken.update(indices)
        if indices:
            groups.append(replace(claim, indices=indices))
            for note in claim.recognition.notes:
                notes.add(note)
    return sorted(groups, key=lambda group: (-len(group.indices), -group.recognition.confidence, group.indices[0]))


def _recognitions(sample: MessageSample, notes: Notes) -> Iterator[tuple[str, Recognition]]:
    """Ask each format to recognize the sample. Errors of a format, or from broken messages, are isolated."""
    for name in available_formats():
        try:
            for recognition in format_class(name).recognize(sample):
                yield name, recognition
        except PluginError:
            continue
        except Exception as error:
            text = "(its text is not shown, because it may have secrets of the registry)" if sample.registry else error
            notes.add(f"format '{name}' can't recognize messages: {type(error).__name__} {text}")


def _tombstones(sample: MessageSample) -> tuple[int, ...]:
    """The indices of values that are null as JSON, if other values are JSON."""
    return indices_of(sample, TOMBSTONE) if indices_of(sample, JSON) else ()


def _note_encodings(sample: MessageSample, notes: Notes) -> None:
    for index, kind in sample.computed(message_kinds).items():
        message = sample.values[index] or b""
        if message.startswith(codecs.BOM_UTF8):
            notes.add(f"{sample.part}: some begin with UTF-8's byte order mark: JSON is read without it, text with it")
        elif kind == JSON and 0 in message[:2] + message[-2:]:
            notes.add(f"{sample.part}: some are JSON in UTF-16 or UTF-32, which is read, but by few others than Flink")
