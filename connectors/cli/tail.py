"""`kvformat tail`: a table's topic, decoded as its records arrive."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from kvformat.connectors.cli._decoding import Decoder
from kvformat.connectors.cli._framing import MessageBatch, record_of
from kvformat.connectors.cli._output import (
    ClosedPipe,
    Words,
    complain,
    json_line,
    json_option,
    note,
    printable,
    show,
    status,
    styled,
    tell,
    write_json,
)
from kvformat.connectors.cli._row_filter import Conditions
from kvformat.connectors.cli._table import (
    BOOTSTRAP,
    FILE,
    ShownTable,
    bootstrap_option,
    format_options,
    of_ddl,
    of_format,
    option_option,
    skip_computed_option,
    with_bootstrap,
)
from kvformat.connectors.cli._topics import partitions_of, reading
from kvformat.connectors.properties import PREFIX

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_COLOURS = {"+I": "green", "+U": "yellow", "-U": "yellow", "-D": "red"}


def _start(ctx: click.Context, param: click.Parameter, text: str) -> str | int:
    """`earliest`, `latest`, or milliseconds since 1970."""
    if text in ("earliest", "latest"):
        return text
    if text.isascii() and text.isdigit():
        if len(text) > 18:  # Kafka's times have 64 bits
            raise _no_start(text)
        return int(text)
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        raise _no_start(text) from None
    # whole numbers: a float of seconds loses the last digit of some times
    return ((time if time.tzinfo else time.replace(tzinfo=dt.UTC)) - _EPOCH) // dt.timedelta(milliseconds=1)


def _no_start(text: str) -> click.BadParameter:
    return click.BadParameter(
        f"{text!r} is not earliest, latest, milliseconds since 1970, or a time such as 2024-02-29T12:00:00Z"
    )


@click.command()
@click.argument("ddl", type=FILE, required=False, metavar="[FILE.sql]")
@click.option("--table", metavar="NAME", help="The table, if the file creates several.")
@click.option("--topic", metavar="TOPIC", help="A topic, instead of a table; --format and --schema describe it.")
@format_options
@bootstrap_option
@option_option("An option of the table, instead of its own; with --topic `properties.*`, or an option of the format.")
@click.option(
    "--from",
    "start",
    callback=_start,
    default="latest",
    metavar="earliest|latest|TIME",
    help="Where to start: TIME is milliseconds since 1970 or ISO text, UTC without a zone. Default: latest.",
)
@click.option("--max", "most", type=click.IntRange(min=1), metavar="N", help="End after N records.")
@click.option("--until-end", is_flag=True, help="End at the end of the topic, instead of waiting for more.")
@click.option("-m", "--metadata", multiple=True, metavar="KEY", help="A metadata key, as a column. Repeatable.")
@skip_computed_option
@click.option(
    "--where",
    multiple=True,
    metavar="CONDITION",
    help="Show only rows that meet the condition: COLUMN OP VALUE, as in 'amount > 10'; OP is = != < <= > >= or ~, a "
    "regular expression. Repeatable: rows must meet all.",
)
@json_option("Lines of JSON on a terminal too, and the counts at the end.")
def tail_command(
    ddl: Path | None,
    table: str | None,
    topic: str | None,
    format_name: str | None,
    schema: str | None,
    bootstrap: str | None,
    options: Mapping[str, str],
    start: str | int,
    most: int | None,
    until_end: bool,
    metadata: tuple[str, ...],
    skip_computed: tuple[str, ...],
    where: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show a table's topic as its records arrive: rows as lines of JSON, with bad records on stderr.

    Records are read with confluent-kafka, without Spark. No group is joined and nothing is committed. In a terminal
    each row follows its topic, partition and offset. Ctrl-C ends the command; the exit status is 1 if records are bad.

    With --topic and without --format, records are shown undecoded, in the form that `decode --framing records` reads.

    kvformat tail users.sql --from earliest --where "name ~ ^A"

    kvformat tail --topic users --bootstrap broker:9092 -f json -s 'id INT, name STRING'
    """
    decoder: Decoder | _Records
    table_options = with_bootstrap(options, bootstrap)
    if topic is not None:
        if skip_computed:
            raise click.UsageError("--skip-computed names columns of a FILE.sql with a table")
        shown_table = _of_topic(topic, ddl, table, format_name, schema, table_options, metadata)
        settings, wanted, pattern = table_options, (topic,), None
    elif ddl is None or format_name is not None or schema is not None:
        raise click.UsageError("give a FILE.sql, or a --topic, perhaps with --format and --schema")
    else:
        of_file = shown_table = of_ddl(ddl, table, table_options, metadata, skip_computed=skip_computed)
        values = of_file.kv.connector_options("decode")
        settings, wanted, pattern = dict(of_file.kv.options), values["topic"], values["topic-pattern"]
    printer = _Printer(has_kinds=shown_table is not None and shown_table.has_kinds, as_json=as_json)
    if shown_table is not None:
        decoder = Decoder(
            shown_table, print_rows=printer.rows, print_error=printer.bad, wants=Conditions(where, shown_table).hold
        )
    elif where:
        raise click.UsageError("--where needs the columns of rows: --format and --schema")
    else:
        decoder = _Records(printer)
    partitions = partitions_of(settings, wanted, pattern)
    try:
        with reading(settings, partitions, start, say=printer.note) as topics:
            for batch in topics.batches(most=most, until_end=until_end):
                if batch.values:
                    printer.clear()
                    decoder.batch(batch)
                printer.progress(decoder.counts, waits=topics.at_end)
    except (ClosedPipe, KeyboardInterrupt):
        pass
    printer.clear()
    if as_json:
        tell(decoder.counts)
    raise SystemExit(1 if decoder.counts["bad"] else 0)


def _of_topic(
    topic: str,
    ddl: Path | None,
    table: str | None,
    format_name: str | None,
    schema: str | None,
    options: Mapping[str, str],
    metadata: tuple[str, ...],
) -> ShownTable | None:
    """Return the values of a topic as a table; None without a format."""
    if ddl is not None or table is not None:
        raise click.UsageError("give --topic or a FILE.sql with a table, not both")
    if BOOTSTRAP not in options:
        raise click.UsageError(f"--topic {topic} needs its broker: --bootstrap host:9092")
    if format_name is not None:
        of_format_alone = {name: text for name, text in options.items() if not name.startswith(PREFIX)}
        return of_format(format_name, schema, of_format_alone, metadata)
    if schema is not None or metadata:
        raise click.UsageError("--schema and --metadata need a --format; without one records are shown as they are")
    return None


class _Records:
    """Shows undecoded records as lines of JSON, in the form that `kcat -J` prints."""

    def __init__(self, printer: _Printer) -> None:
        self._printer = printer
        self.counts = {"messages": 0, "rows": 0, "skipped": 0, "bad": 0}

    def batch(self, batch: MessageBatch) -> bool:
        """Show the records of a batch; returns whether to continue."""
        keys, abouts = batch.keys or [None] * len(batch.values), batch.about or [{}] * len(batch.values)
        shown = [
            (about, record_of(key, value, about)) for key, value, about in zip(keys, batch.values, abouts, strict=True)
        ]
        self.counts["messages"] += len(shown)
        self.counts["rows"] += len(shown)
        self._printer.rows(shown)
        return True


class _Printer:
    """Prints rows to stdout, bad records and progress to stderr: as JSON, or as text in a terminal."""

    def __init__(self, *, has_kinds: bool, as_json: bool) -> None:
        self._has_kinds = has_kinds
        self._rows_for_people = sys.stdout.isatty() and not as_json
        self._faults_for_people = sys.stderr.isatty() and not as_json
        self._shown = ""

    def rows(self, rows: list[tuple[Mapping[str, Any], Any]]) -> None:
        if not self._rows_for_people:
            write_json(row for _, row in rows)
            return
        for about, row in rows:
            kind = ""
            if self._has_kinds:
                kind, row = row["row_kind"], row["row"]
            kinds: list[Words] = [" ", styled(kind, fg=_COLOURS[kind])] if kind else []
            show(styled(_place(about), dim=True), *kinds, f" {json_line(row)}")

    def bad(self, fault: dict[str, Any]) -> None:
        if not self._faults_for_people:
            tell(fault)
            return
        mark = styled(f"{fault['code']} ({fault['part']})", fg="red")
        reason, first = printable(fault["reason"]), printable(str(fault["head"]))
        complain(f"{_place(fault)} ", mark, f" {reason}: {first}")

    def note(self, text: str) -> None:
        """Print an error of the client's connection."""
        self.clear()
        note(text)

    def progress(self, counts: Mapping[str, int], *, waits: bool) -> None:
        """Show the line at the bottom of a terminal."""
        if self._faults_for_people:
            text = f"{counts['messages']} records, {counts['rows']} rows, {counts['bad']} bad"
            text += ", at the end, waiting (Ctrl-C ends)" if waits else ""
            if text != self._shown:
                status(text)
                self._shown = text

    def clear(self) -> None:
        """Remove the line at the bottom of a terminal."""
        if self._shown:
            status("")
            self._shown = ""


def _place(about: Mapping[str, Any]) -> str:
    return f"{about.get('topic')}[{about.get('partition')}]@{about.get('offset')}"
