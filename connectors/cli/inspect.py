"""`kvformat inspect`: guess the formats in a file or a topic, with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvformat.connectors.cli._framing import FRAMINGS, MessageBatch, read_messages
from kvformat.connectors.cli._output import Words, json_option, note, printable, show, styled, write_json
from kvformat.connectors.cli._progress import FilesRead, shown_batches
from kvformat.connectors.cli._table import (
    BOOTSTRAP,
    OF_REGISTRIES,
    bootstrap_option,
    option_option,
    options_of,
    registry_options,
    with_bootstrap,
)
from kvformat.connectors.cli._topics import Topics, partitions_of, reading
from kvformat.connectors.cli.decode import files_argument

if TYPE_CHECKING:
    from kvformat.connectors.infer import Inspection, SchemaUse

_GLUE = "avro-glue"
_PREFIXES = ("properties.", f"{OF_REGISTRIES}.", f"{_GLUE}.")
_PLACES, _EACH = 40, 25  # of a topic whose messages have the ids of schemas, and records that are read there
_MOST = 1000  # messages: `SAMPLE` of `connectors.infer`, which the command line imports late


@click.command()
@files_argument
@click.option("--topic", metavar="TOPIC", help="A topic to inspect, instead of files.")
@bootstrap_option
@option_option("An option for brokers or registry: `properties.*`, `avro-confluent.*`, `avro-glue.*`.")
@click.option("--registry", metavar="URL", help="The schema registry with the schemas of the messages.")
@click.option("--name", metavar="NAME", help="The name of the proposed table. Default: the topic's or file's.")
@click.option(
    "--framing", type=click.Choice(FRAMINGS), default="lines", help="How messages are separated. Default: lines."
)
@click.option(
    "--max",
    "most",
    type=click.IntRange(min=1),
    default=_MOST,
    metavar="N",
    help=f"Messages to read, from the beginning. Default: {_MOST}.",
)
@click.option("--sql", is_flag=True, help="Only the CREATE TABLE, for a file or for `explain -`.")
@json_option("One JSON object with guesses, notes, counts and the DDL.")
def inspect_command(
    files: tuple[str, ...],
    topic: str | None,
    bootstrap: str | None,
    options: Mapping[str, str],
    registry: str | None,
    name: str | None,
    framing: str,
    most: int,
    sql: bool,
    as_json: bool,
) -> None:
    """Guess the formats in a file or a topic, with reasons, and propose a CREATE TABLE.

    A registry is asked only if --registry or -o avro-glue.* names it. Keys and values of a topic are read; nothing is
    committed. If messages have the ids of schemas, records from all parts of the topic show which ids it has had over
    time.

    kvformat inspect messages.jsonl

    kvformat inspect --topic orders --bootstrap broker:9092 --registry http://registry:8081

    kvformat inspect --topic orders --bootstrap broker:9092 -o avro-glue.aws.region=eu-west-1
    """
    if topic is not None and files:
        raise click.UsageError("--topic or files, not both")
    if topic is None and bootstrap is not None:
        raise click.UsageError("--bootstrap needs the topic to inspect: --topic orders")
    known = _registry(options, registry)
    if topic is not None:
        given = with_bootstrap(options, bootstrap)
        if BOOTSTRAP not in given:
            raise click.UsageError("a --topic needs its broker: --bootstrap host:9092")
        partitions = partitions_of(given, [topic], None)
        with reading(given, partitions, "earliest") as topics:
            sample = _sample(shown_batches(topics.batches(most=most, until_end=True), "reading", most), most)
    else:
        sample = _sample(read_messages(FilesRead(files), framing), most)
    from kvformat.connectors.infer import inspect_topic

    stem = Path(files[0]).stem if files and files[0] != "-" else "topic"
    found = inspect_topic(
        sample.values,
        sample.keys if any(key is not None for key in sample.keys or ()) else None,
        headers=_headers(sample),
        timestamps=_timestamps(sample),
        name=name or topic or stem,
        topic=topic,
        bootstrap=bootstrap,
        registry=known,
    )
    if topic is not None and found.schemas:
        with reading(given, partitions, "earliest") as topics:
            found = _with_schemas_over_time(found, topics)
    if sql and found.ddl is None:
        raise click.ClickException("no table can be proposed; run without --sql to see the reasons")
    if sql:
        ddl = "\n\n".join(_statements(found))
        show(ddl)
        if ddl != printable(ddl, lines=True):
            note("names have control or format characters, which are shown escaped; --json shows them unchanged")
    elif as_json:
        write_json([_as_json(found)])
    else:
        show(*_in_words(found))


def _registry(options: Mapping[str, str], url: str | None) -> dict[str, str] | None:
    """Return the options of the schema registry that has a URL, or of AWS Glue's; None without one."""
    from kvformat.codecs.registries.glue_client import REGION

    glue = options_of(_GLUE, options)
    for key in options:
        if not key.startswith(_PREFIXES):
            raise click.UsageError(f"-o {key}: the options here begin with {', '.join(_PREFIXES)}")
    if options_of(OF_REGISTRIES, options) and url is None:
        raise click.UsageError(f"-o {OF_REGISTRIES}.* needs --registry with the URL of the schema registry")
    if glue and REGION not in glue and url is None:
        raise click.UsageError(
            f"-o {_GLUE}.* needs {_GLUE}.{REGION}, the region of AWS Glue's registry. "
            "For a folder of schemas: --registry file:<folder>"
        )
    if glue and url is not None:
        raise click.UsageError(f"--registry or -o {_GLUE}.*, not both: the schemas of a topic are in one registry")
    return glue or (None if url is None else registry_options(options, url))


def _sample(batches: Iterator[MessageBatch], most: int) -> MessageBatch:
    """Return the first messages, with their keys and metadata."""
    values: list[bytes | None] = []
    keys: list[bytes | None] = []
    about: list[Mapping[str, Any]] = []
    for batch in batches:
        values += batch.values
        keys += batch.keys or [None] * len(batch.values)
        about += batch.about or [{}] * len(batch.values)
        if len(values) >= most:
            break
    return MessageBatch(1, values[:most], keys[:most], about[:most])


def _headers(sample: MessageBatch) -> list[list[dict[str, Any]]]:
    return [[{"key": name, "value": data} for name, data in about.get("headers") or ()] for about in sample.about or ()]


def _timestamps(sample: MessageBatch) -> list[int | None]:
    return [about.get("timestamp") for about in sample.about or ()]


def _with_schemas_over_time(found: Inspection, topics: Topics) -> Inspection:
    """Return the inspection with the schemas of records from all parts of the topic, not only of its first records."""
    from kvformat.connectors.infer.sample import sample_of
    from kvformat.connectors.infer.schema_uses import schema_uses

    batches = list(shown_batches(topics.spread(_PLACES, _EACH), "reading other parts", _PLACES * _EACH))
    sample = _sample(iter(batches), sum(len(batch.values) for batch in batches))
    read = sample_of(sample.values, sample.keys, len(sample.values), headers=_headers(sample))
    of = {"value": read.with_header_ids(), "key": read.keys()}
    parts = dict.fromkeys(use.part for use in found.schemas)
    uses = [use for part in parts for use in schema_uses(of[part], _timestamps(sample))]
    return replace(found, schemas=tuple(uses))


def _in_words(found: Inspection) -> list[Words]:
    words: list[Words] = [", ".join(f"{count} {what}" for what, count in found.counts.items())]
    for part in ("key", "value"):
        guesses = [guess for guess in found.guesses if guess.part == part]
        for guess in guesses:
            options = "".join(f", {name} = {value}" for name, value in guess.options.items())
            title = styled(f"{part}: {guess.format}{options}", bold=True)
            unread = "" if guess.readable else ", which no format reads"
            words += ["\n", title, f" ({guess.confidence:.0%}{unread}): {guess.reason}"]
    if found.schemas:
        words += ["\n", styled("schemas:", bold=True), *map(_schema_in_words, found.schemas)]
    words += [f"\nnote: {text}" for text in found.notes]
    if not found.guesses:
        words.append("\nnothing was recognised")
    words += [f"\n\n{statement}" for statement in _statements(found)]
    return words


def _statements(found: Inspection) -> list[str]:
    """Return the proposed tables: one for each type of records, or one for all messages."""
    several = [f"{statement};" for statement in found.tables.values()]
    return several or ([] if found.ddl is None else [found.ddl])


def _schema_in_words(use: SchemaUse) -> str:
    times = "" if use.first is None or use.last is None else f", {use.first:%F %T} to {use.last:%F %T} UTC"
    return f"\n  {use.part} {use.schema}: {use.messages} messages{times}"


def _as_json(found: Inspection) -> dict[str, Any]:
    return {
        "counts": dict(found.counts),
        "guesses": [
            {
                "part": guess.part,
                "format": guess.format,
                "confidence": guess.confidence,
                "readable": guess.readable,
                "reason": guess.reason,
                "options": dict(guess.options),
            }
            for guess in found.guesses
        ],
        "schemas": [
            {
                "part": use.part,
                "schema": use.schema,
                "messages": use.messages,
                "first": None if use.first is None else use.first.isoformat(),
                "last": None if use.last is None else use.last.isoformat(),
            }
            for use in found.schemas
        ],
        "notes": list(found.notes),
        "ddl": found.ddl,
        "tables": dict(found.tables),
    }
