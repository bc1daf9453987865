"""`kvformat encode`: rows, lines of JSON, to messages."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import IO, Any, Protocol

import click
import pyarrow as pa

from kvformat.connectors.cli._framing import frame, read_messages
from kvformat.connectors.cli._output import ClosedPipe, errors_option, head, json_option, note, tell, write
from kvformat.connectors.cli._progress import FilesRead, progress
from kvformat.connectors.cli._table import ShownTable, chosen, framing_option, table_options
from kvformat.connectors.cli._values import ValueRefused, python_value, read_json
from kvformat.connectors.cli.decode import files_argument
from kvformat.registry.contract.changelog import RowKind
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.types import FlinkField, FlinkType, arrow_type, nullable
from kvformat.registry.table.metadata import RAW

_KINDS = tuple(kind.value for kind in RowKind)
_Fault = tuple[str, str]
"""Code and reason."""


@click.command()
@files_argument
@table_options
@framing_option
@errors_option("a row that can't be written")
@json_option("Also the counts at the end as JSON, on stderr.")
def encode_command(files: tuple[str, ...], framing: str | None, errors: str, as_json: bool, **of_table: Any) -> None:
    """Turn rows, lines of JSON as `decode` prints them, into messages on stdout.

    Missing members are NULL. Metadata columns are ignored, except raw keys and values. Rows that can't be written are
    reported on stderr, as JSON. The exit status is 1 if there are any, 2 if the command line is wrong.

    echo '{"id": 1, "name": "Anna"}' | kvformat encode -f csv -s 'id INT, name STRING'
    """
    shown_table = chosen(**of_table)
    encoder = Encoder(
        shown_table, _Framed(framing or shown_table.framing, with_key=shown_table.has_key), stop=errors == "stop"
    )
    with contextlib.suppress(ClosedPipe):
        read = FilesRead(files)
        with progress("encoding", read.total, "rows", beside_rows=True) as bar:
            encoder.run(read, lambda count: read.show(bar, count))
    counts = encoder.counts
    if as_json:
        tell(counts)
    elif counts["bad"]:
        note(f"{counts['rows']} rows, {counts['messages']} messages, {counts['bad']} bad")
    raise SystemExit(1 if counts["bad"] else 0)


@dataclass(frozen=True, slots=True)
class EncodedRow:
    """A message: number and text of its line, key, value, and metadata from the row (`about`)."""

    number: int
    line: bytes
    key: bytes | None
    value: bytes | None
    about: Mapping[str, Any]


class Sink(Protocol):
    """Destination of messages."""

    def put(self, message: EncodedRow) -> str:
        """Accept a message; returns an empty text, or why the message can't be written."""

    def flush(self) -> bool:
        """Write the accepted messages, at the end of each batch; returns whether to continue."""


class _Framed:
    """Writes framed messages to stdout."""

    def __init__(self, framing: str, *, with_key: bool) -> None:
        self._framing, self._with_key = framing, with_key
        self._pieces: list[bytes] = []
        self._count = 0

    def put(self, message: EncodedRow) -> str:
        if self._framing == "whole" and self._count:
            return "'whole' allows only one message: choose another --framing"
        framed = frame(message.key, message.value, self._framing, with_key=self._with_key)
        if isinstance(framed, str):
            return framed
        self._pieces.append(framed)
        self._count += 1
        return ""

    def flush(self) -> bool:
        write(b"".join(self._pieces))
        self._pieces = []
        return True


class Encoder:
    """Encodes lines of JSON, gives the messages to a sink, and counts them.

    `about` converts a row's metadata columns to the metadata of its message; other metadata columns are ignored.
    """

    def __init__(
        self,
        table: ShownTable,
        sink: Sink,
        *,
        stop: bool,
        about: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _: {},
    ) -> None:
        self._table, self._sink, self._stop, self._about = table, sink, stop, about
        raw = [FlinkField(column.name, column.type) for column in table.written_raw if column.type is not None]
        self._row = FlinkType("ROW", nullable=False, fields=(*table.physical, *raw))
        written = {field.name for field in self._row.fields}
        self._passed_over = {c.name for c in table.columns if c.name not in written}
        declared = {column.name for column in table.kv.columns if not column.virtual}
        self._requested = [key for key in table.requested if key in RAW and key not in declared]
        table.kv.written_metadata(self._requested)  # raises before a row is read
        self._type = arrow_type(nullable(self._row))
        self._held: list[tuple[int, bytes]] = []  # a -U, the last row of a batch: a following +U may replace it
        self.counts = {"rows": 0, "messages": 0, "bad": 0}

    def run(self, files: Iterable[IO[bytes]], told: Callable[[int], None] = lambda _: None) -> None:
        """Encode all lines of all files; with `stop`, end at the first bad line.

        `told` is called with the number of rows so far.
        """
        for batch in read_messages(files, "lines"):
            lines = [(batch.first + i, line) for i, line in enumerate(batch.values) if line is not None]
            if not self._batch([*self._held, *lines], last=False):
                return
            told(self.counts["rows"])
        self._batch(self._held, last=True)

    def _batch(self, lines: list[tuple[int, bytes]], *, last: bool) -> bool:
        rows, kinds, faults, abouts = [], [], dict[int, _Fault](), dict[int, Mapping[str, Any]]()
        for place, (_, line) in enumerate(lines):
            row, kind = None, "+I"
            if line.strip():
                try:
                    row, kind, abouts[place] = self._read(line)
                except ValueRefused as refused:
                    faults[place] = (refused.code.value, str(refused))
            rows.append(row)
            kinds.append(kind)
            if self._stop and faults:
                lines, last = lines[: place + 1], True  # nothing after it is written
                break
        self._held = []
        good = [place for place, row in enumerate(rows) if row is not None]
        if not last and good and kinds[good[-1]] == "-U":
            place = good.pop()
            self._held = [lines[place]]
            lines[place] = (lines[place][0], b"")  # no row of this batch
        array = pa.array([rows[place] for place in good], self._type)
        encoded = self._table.kv.encode_batch(
            array,
            row_kinds=pa.array([kinds[place] for place in good], pa.string()) if self._table.has_kinds else None,
            metadata=self._requested,
        )
        messages: dict[int, EncodedRow] = {}
        for at, place in enumerate(good):
            if encoded.errors is not None and encoded.errors[at].is_valid:
                assert encoded.codes is not None
                faults[place] = (encoded.codes[at].as_py(), encoded.errors[at].as_py())
            elif encoded.kept is None or encoded.kept[at].as_py():
                key = None if encoded.keys is None else encoded.keys[at].as_py()
                messages[place] = EncodedRow(*lines[place], key, encoded.values[at].as_py(), abouts[place])
        return self._write(lines, messages, faults)

    def _write(
        self, lines: list[tuple[int, bytes]], messages: Mapping[int, EncodedRow], faults: dict[int, _Fault]
    ) -> bool:
        """Give messages to the sink and report errors, in the order of lines; returns whether to continue."""
        for place, (number, line) in enumerate(lines):
            self.counts["rows"] += bool(line.strip())
            if place in messages:
                refused = self._sink.put(messages[place])
                if refused:
                    faults[place] = (ErrorCode.BAD_RECORD.value, refused)
                else:
                    self.counts["messages"] += 1
            if place in faults:
                self.counts["bad"] += 1
                code, reason = faults[place]
                tell({"message": number, "code": code, "reason": reason, "head": head(line)})
                if self._stop:
                    break
        return self._sink.flush() and not (self._stop and faults)

    def _read(self, line: bytes) -> tuple[Any, str, Mapping[str, Any]]:
        """Parse a line; returns the row, its kind, and the metadata of its message."""
        value, kind, about = read_json(line), "+I", dict[str, Any]()
        if self._table.has_kinds:
            if not isinstance(value, dict) or set(value) != {"row_kind", "row"} or value["row_kind"] not in _KINDS:
                raise ValueRefused(
                    ErrorCode.WRONG_TYPE,
                    'rows of this table have kinds: a line must be {"row_kind": "+I", "row": {...}}, with a kind of '
                    f"{', '.join(_KINDS)}",
                )
            value, kind = value["row"], value["row_kind"]
        if isinstance(value, dict):
            about |= self._about(value)
            value = {name: part for name, part in value.items() if name not in self._passed_over}
        if value is None:
            raise ValueRefused(ErrorCode.WRONG_TYPE, "the row is null")
        return python_value(value, self._row), kind, about
