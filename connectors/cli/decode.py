"""`kvformat decode`: messages to rows, as lines of JSON."""

from __future__ import annotations

import contextlib
from typing import Any

import click

from kvformat.connectors.cli._decoding import Decoder
from kvformat.connectors.cli._framing import FRAMINGS, read_messages
from kvformat.connectors.cli._output import ClosedPipe, errors_option, json_option, note, tell
from kvformat.connectors.cli._progress import FilesRead, progress
from kvformat.connectors.cli._table import chosen, framing_option, skip_computed_option, table_options

files_argument = click.argument(
    "files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True), metavar="[FILE|-]..."
)


@click.command()
@files_argument
@table_options
@click.option("-m", "--metadata", multiple=True, metavar="KEY", help="A metadata key, as a column. Repeatable.")
@skip_computed_option
@framing_option
@errors_option("a bad message")
@json_option("Also the counts at the end as JSON, on stderr.")
def decode_command(
    files: tuple[str, ...],
    metadata: tuple[str, ...],
    skip_computed: tuple[str, ...],
    framing: str | None,
    errors: str,
    as_json: bool,
    **of_table: Any,
) -> None:
    """Turn messages into rows: lines of JSON on stdout, bad messages as JSON on stderr.

    A row is an object of its columns, or {"row_kind": "+U", "row": {...}} for changes.
    The exit status is 1 if messages are bad, 2 if the command line is wrong.

    kvformat decode -f csv -s 'id INT, name STRING' names.csv

    kcat -C -b broker -t orders -J -e | kvformat decode --ddl orders.sql
    """
    shown_table = chosen(**of_table, metadata=metadata, skip_computed=skip_computed)
    decoder = Decoder(shown_table, stop=errors == "stop")
    how = framing or shown_table.framing
    read = FilesRead(files)
    with contextlib.suppress(ClosedPipe), progress("decoding", read.total, "messages", beside_rows=True) as bar:
        for batch in read_messages(read, how):
            if not decoder.batch(batch):
                break
            read.show(bar, decoder.counts["messages"])
    counts = decoder.counts
    if as_json:
        tell(counts)
    elif counts["bad"] or counts["skipped"]:
        note(
            f"{counts['messages']} messages, {counts['rows']} rows, {counts['bad']} bad, "
            f"{counts['skipped']} without a row (null, or skipped by the format)"
        )
    if framing is None and decoder.may_have_other_framing:
        note(f"messages were read as {how}: perhaps another --framing is right, one of {', '.join(FRAMINGS)}")
    raise SystemExit(1 if counts["bad"] else 0)
