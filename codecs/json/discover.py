"""Looks at messages of format json: an object, or an array of objects of one table.

The table is the topic, as one part, or the values of the members that `decode.parser-table-id.fields` names. A member
of flattened rows may be named by its path.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._json_documents import JsonDocuments
from kvformat.codecs._kernel import COMPILED, count_messages
from kvformat.codecs._kernel.look import LookBatch, LookTable
from kvformat.codecs._kernel.tree import Node
from kvformat.codecs.discovery.column_types import is_name
from kvformat.codecs.discovery.findings import Contribution, Findings, TableFindings
from kvformat.codecs.json.discover_row import DottedNameError, Row, RowRules
from kvformat.codecs.json.known_tables import prepared_table
from kvformat.codecs.json.nulls import is_null
from kvformat.codecs.json.settings import ReadSettings
from kvformat.codecs.json.value_types import ValueRules
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.look import KnownTable, Looked, LookRequest, TableName
from kvformat.registry.format import Format

FLATTEN = "infer-schema.flatten-nested-columns.enable"
TABLE_FIELDS = "decode.parser-table-id.fields"
AS_STRINGS = "infer-schema.primitive-as-string"


class TableIdError(ValueError):
    """The members of a message do not name its table."""


class JsonLooker:
    """Looks at messages of format json; see `Looker`."""

    def __init__(self, format: Format, request: LookRequest) -> None:
        self._format, self._request = format, request
        options = request.options
        settings = ReadSettings.of(format.options)
        values = ValueRules(
            iso=settings.iso,
            as_written=settings.streaming,
            as_strings=request.part == "value" and bool(options.get(AS_STRINGS)),
        )
        self._flatten = bool(options.get(FLATTEN)) and request.part == "value"
        self._rows = RowRules(values, request.fixed, flatten=self._flatten, static=request.static)
        fields = options.get(TABLE_FIELDS) if request.part == "value" else None
        self._members = [name.strip() for name in fields.split(",")] if fields else []
        self._documents = JsonDocuments()
        self._values = values
        self._prepared: dict[str, LookTable | None] = {}

    def look(self, messages: pa.BinaryArray, topics: pa.StringArray) -> Looked:
        """Return what the messages contribute."""
        count_messages(len(messages))
        findings = Findings(len(messages), self._request)
        if COMPILED and not self._flatten and not self._members:
            self._look_by_kernel(messages, topics, findings)
        else:
            for index, (message, topic) in enumerate(zip(messages.to_pylist(), topics.to_pylist(), strict=True)):
                self._look_at(index, message, topic, findings)
        findings.decide(self._format, messages)
        return findings.looked()

    def _look_by_kernel(self, messages: pa.BinaryArray, topics: pa.StringArray, findings: Findings) -> None:
        """Look at messages that the kernel can't tell to fit."""
        names, numbers = _numbered(topics)

        def closer(index: int) -> None:
            number = int(numbers[index])
            table = findings.table((names[number],))
            before = table.additions
            self._look_at(index, messages[index].as_py(), names[number], findings)
            if table.additions != before:
                batch.tables[number] = self._table(names[number], table.effective(), number, table.fresh)

        batch = LookBatch()
        batch.topics = numbers.data
        for number, name in enumerate(names):
            if name not in self._prepared:
                known = self._request.known.get((name,))
                self._prepared[name] = None if known is None else self._table(name, known, number)
            table = self._prepared[name]
            if table is not None:
                table.number = number
            batch.tables.append(table)
        answers = batch.look(messages, closer)
        findings.set_tables(answers, [(name,) for name in names])

    def _table(
        self, name: str, known: KnownTable, number: int, fresh: frozenset[str] = frozenset()
    ) -> LookTable | None:
        request = self._request
        nulls = request.nulls((name,))
        table = prepared_table(known, self._values, request.fixed, static=request.static, fresh=fresh, nulls=nulls)
        if table is not None:
            table.number = number
        return table

    def _look_at(self, index: int, message: bytes | None, topic: str, findings: Findings) -> None:
        if message is None or is_null(message):
            return
        tree = self._documents.parse_valid(message)
        rows = [row for row in (tree if isinstance(tree, list) else [tree]) if isinstance(row, dict)]
        try:
            names = {self._table_name(row) for row in rows} if self._members else {(topic,)}
        except TableIdError as error:
            findings.fail(index, Reason(ErrorCode.TABLE_ID, str(error)))
            return
        if len(names) > 1:
            reason = "the rows of a message must be of one table; send one row per message"
            findings.fail(index, Reason(ErrorCode.TABLE_ID, reason))
            return
        if not names:
            findings.leave_to_decoding(index)
            return
        table = findings.table(names.pop())
        findings.set_table(index, table)
        seen: list[Contribution] = []
        try:
            place = 0
            for row in rows:
                seen.extend(self._rows.contributions(row, table, place))
                place += len(row)
        except DottedNameError as dotted:
            reason = f"the member {ascii(str(dotted))[:60]} has a dot, which '{FLATTEN}' puts between names"
            findings.fail(index, Reason(ErrorCode.UNEXPECTED_FIELD, reason))
            return
        takes_columns = self._request.part == "value" and not self._request.static
        refusal = (_clash(seen, table) if takes_columns else None) or table.add(index, seen)
        if refusal is not None:
            findings.fail(index, refusal)

    def _table_name(self, row: Row) -> TableName:
        return tuple(self._part(row, member) for member in self._members)

    def _part(self, row: Row, member: str) -> str:
        """Return the text of a member. Raises `TableIdError` if it can't name a table."""
        value: Node = row.get(member)
        if value is None and self._flatten and "." in member:
            value = dict(row)
            for name in member.split("."):
                value = value.get(name) if isinstance(value, dict) else None
        if value is None or isinstance(value, dict | list):
            kind = "is missing or null" if value is None else "is an object or an array"
            raise TableIdError(
                f"the member {member!r} {kind}; '{TABLE_FIELDS}' needs a text, a number or a boolean as the "
                "table's name"
            )
        name = ("true" if value else "false") if isinstance(value, bool) else str(value)
        if not is_name(name):
            raise TableIdError(f"the member {member!r} is blank or not valid Unicode, and it names the table")
        return name


def _clash(seen: Iterable[Contribution], table: TableFindings) -> Reason | None:
    """Return the error of a message with a new member that Spark does not tell from a known column."""
    for name, *_ in seen:
        other = table.other_case(name)
        if other is not None:
            return Reason(
                ErrorCode.UNEXPECTED_FIELD,
                f"the member {name!a} and the column {other!a} differ in upper and lower case only, which Spark does "
                "not tell apart",
            )
    return None


def _numbered(topics: pa.StringArray) -> tuple[list[str], npt.NDArray[np.int32]]:
    """Return the different topics, and the index of each message's topic among them."""
    if len(topics) and pc.all(pc.equal(topics, topics[0])).as_py():
        return [topics[0].as_py()], np.zeros(len(topics), np.int32)
    encoded = topics.dictionary_encode()
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices).astype(np.int32)
