"""`kvformat inspect`: guess the formats in a file or a topic, with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvformat.connectors.cli._framing import FRAMINGS, MessageBatch, read_messages
from kvformat.connectors.cli._output import Words, json_option, note, printable, show, styled, write_json
from kvformat.connectors.cli._table import BOOTSTRAP, bootstrap_option, option_option, registry_options, with_bootstrap
from kvformat.connectors.cli._topics import partitions_of, reading
from kvformat.connectors.cli.decode import files_argument, opened

if TYPE_CHECKING:
    from kvformat.connectors.infer import Inspection

_MOST = 1000  # messages: `SAMPLE` of `connectors.infer`, which the command line imports late


@click.command()
@files_argument
@click.option("--topic", metavar="TOPIC", help="A topic to inspect, instead of files.")
@bootstrap_option
@option_option("An option for brokers or registry: `properties.*`, `avro-confluent.*`.")
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

    A registry is asked only if --registry names it. Keys and values of a topic are read; nothing is committed.

    kvformat inspect messages.jsonl

    kvformat inspect --topic orders --bootstrap broker:9092 --registry http://registry:8081
    """
    if topic is not None and files:
        raise click.UsageError("--topic or files, not both")
    if topic is not None:
        given = with_bootstrap(options, bootstrap)
        if BOOTSTRAP not in given:
            raise click.UsageError("a --topic needs its broker: --bootstrap host:9092")
        with reading(given, partitions_of(given, [topic], None), "earliest") as topics:
            values, keys = _sample(topics.batches(most=most, until_end=True), most)
    else:
        values, keys = _sample(read_messages(opened(files), framing), most)
    from kvformat.connectors.infer import inspect_topic

    stem = Path(files[0]).stem if files and files[0] != "-" else "topic"
    found = inspect_topic(
        values,
        keys if any(key is not None for key in keys) else None,
        name=name or topic or stem,
        topic=topic,
        bootstrap=bootstrap,
        registry=None if registry is None else registry_options(options, registry),
    )
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


def _sample(batches: Iterator[MessageBatch], most: int) -> tuple[list[bytes | None], list[bytes | None]]:
    """Return values and keys of the first messages."""
    values: list[bytes | None] = []
    keys: list[bytes | None] = []
    for batch in batches:
        values += batch.values
        keys += batch.keys or [None] * len(batch.values)
        if len(values) >= most:
            break
    return values[:most], keys[:most]


def _in_words(found: Inspection) -> list[Words]:
    words: list[Words] = [", ".join(f"{count} {what}" for what, count in found.counts.items())]
    for part in ("key", "value"):
        guesses = [guess for guess in found.guesses if guess.part == part]
        for guess in guesses:
            options = "".join(f", {name} = {value}" for name, value in guess.options.items())
            title = styled(f"{part}: {guess.format}{options}", bold=True)
            unread = "" if guess.readable else ", which no format reads"
            words += ["\n", title, f" ({guess.confidence:.0%}{unread}): {guess.reason}"]
    words += [f"\nnote: {text}" for text in found.notes]
    if not found.guesses:
        words.append("\nnothing was recognised")
    words += [f"\n\n{statement}" for statement in _statements(found)]
    return words


def _statements(found: Inspection) -> list[str]:
    """Return the proposed tables: one for each type of records, or one for all messages."""
    several = [f"{statement};" for statement in found.tables.values()]
    return several or ([] if found.ddl is None else [found.ddl])


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
        "notes": list(found.notes),
        "ddl": found.ddl,
        "tables": dict(found.tables),
    }
