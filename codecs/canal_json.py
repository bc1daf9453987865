r"""`canal-json`: changes of one or more rows per message. Of an old row, a message has only the columns that differ.

    {"database": "shop", "table": "item", "type": "UPDATE", "data": [{"id": "1", "w": "5.18"}], "old": [{"w": "5.15"}],
     "pkNames": ["id"], "sqlType": {"id": 4, "w": 7}, "es": 1589373560000, "ts": 1589373560798, "isDdl": false}

    for each i:  INSERT  +I(data[i])
                 UPDATE  -U(data[i] with the values of old[i] laid over it), +U(data[i])
                 DELETE  -D(data[i])

A CREATE is skipped. Any other statement is an error, unless a filter or `other-messages` skips it. The format writes
only `data` and `type`, and an update as a deletion and an insertion.
Rules: Flink's "Canal Format" page, its `CanalJsonDeserializationSchema` and `CanalJsonSerializationSchema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from kvformat.codecs._conversions import EachValue
from kvformat.codecs.changes.envelope import BatchReader, ChangeSettings, Envelope, Frame, RowImage
from kvformat.codecs.changes.format import CHANGE_OPTIONS
from kvformat.codecs.changes.metadata import TEXTS, Epoch, PlainMember
from kvformat.codecs.changes.mysql import MYSQL_TYPES, MySqlChangeFormat, filter_options
from kvformat.codecs.changes.other_messages import OtherMessage
from kvformat.codecs.changes.reading_only import check_reading_only
from kvformat.codecs.changes.row_plan import PlannedReader, RowPlan
from kvformat.codecs.changes.unchanged import UNCHANGED_OPTION
from kvformat.codecs.discovery.column_types import map_of
from kvformat.registry.contract.look import Looker, LookRequest
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.contract.samples import MessageSample, SchemaProposal
from kvformat.registry.contract.types import STRING, FlinkField, FlinkType

LATIN = "ISO-8859-1"
BYTES_ENCODING = Option(
    name="bytes.encoding",
    type="enum",
    default="base64",
    allowed=("base64", LATIN),
    doc="Ours. How a BYTES column is written in messages: as base64, which Flink reads, or as a text with a character "
    "for each byte, which Canal writes for BLOB, BINARY and VARBINARY. Bytes in arrays and rows are always base64. For "
    "reading only.",
)
_OTHERS = {
    **dict.fromkeys(("ALTER", "RENAME", "CINDEX", "DINDEX", "QUERY"), OtherMessage("a statement (isDdl)")),
    "TRUNCATE": OtherMessage("a TRUNCATE", empties_table=True),
    "ERASE": OtherMessage("a DROP", empties_table=True),
    **dict.fromkeys(("GTID", "XACOMMIT", "XAROLLBACK"), OtherMessage("a transaction mark")),
    "MHEARTBEAT": OtherMessage("a heartbeat"),
    "TIDB_WATERMARK": OtherMessage("a watermark of TiCDC"),
}
"""Operations of Canal's `EventType` without rows, and the one that TiCDC adds."""


class CanalJsonFormat(MySqlChangeFormat):
    """The `canal-json` format."""

    identifier: ClassVar[str] = "canal-json"
    option_specs: ClassVar[tuple[Option, ...]] = (
        *CHANGE_OPTIONS,
        *filter_options(),
        BYTES_ENCODING,
        UNCHANGED_OPTION,
        MYSQL_TYPES,
    )
    envelope: ClassVar[Envelope] = Envelope(
        operation="type",
        rows={
            "INSERT": (RowImage("+I", "data"),),
            "UPDATE": (RowImage("-U", "data", over="old"), RowImage("+U", "data")),
            "DELETE": (RowImage("-D", "data"),),
            "CREATE": (),
        },
        before="old",
        after="data",
        frames=(Frame('{"data":[', '],"type":"INSERT"}'), Frame('{"data":[', '],"type":"DELETE"}')),
        metadata={
            "database": PlainMember("database"),
            "table": PlainMember("table"),
            "sql-type": PlainMember("sqlType", map_of(FlinkType("INT"))),
            "pk-names": PlainMember("pkNames", TEXTS),
            "ingestion-timestamp": Epoch("ts"),
            "event-timestamp": Epoch("es"),
        },
        rows_in_arrays=True,
        other_by_operation=_OTHERS,
        key_metadata="pk-names",
    )
    metadata_types = envelope.metadata_types
    envelope_description = "are JSON objects with type and an array data, as Canal writes them"

    @staticmethod
    def is_envelope(message: Mapping[str, Any]) -> bool:
        has_rows = isinstance(message.get("data", 0), list | None) and str(message.get("type")).isupper()
        return has_rows and ("isDdl" in message or message.keys() <= {"type", "data", "old"})

    def propose_columns(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs.changes.columns import propose_canal

        return propose_canal(sample, self.envelope, self._raw_options, (BYTES_ENCODING.name, LATIN))

    def looker(self, request: LookRequest) -> Looker:
        from kvformat.codecs.changes.canal_discover import canal_looker

        encoding = self._raw_options.get(BYTES_ENCODING.name)
        return canal_looker(self, request, latin=None if encoding == "base64" else encoding == LATIN)

    def validate(self, direction: Direction) -> None:
        super().validate(direction)
        check_reading_only(self, direction, BYTES_ENCODING, "BYTES as base64")

    def reader(self, row: FlinkType, settings: ChangeSettings, metadata: tuple[str, ...]) -> BatchReader:
        if self.options[BYTES_ENCODING.name] == LATIN:
            return PlannedReader(_latin_plan(self.value_types(row)), self.envelope, settings, metadata)
        return super().reader(row, settings, metadata)


def _latin_plan(row: FlinkType) -> RowPlan:
    """A plan that reads each BYTES column as a text, and makes a byte of each character."""
    conversions = {
        field.name: EachValue(field.type, f"text in {LATIN}", lambda text: text.encode(LATIN))
        for field in row.fields
        if field.type.root in ("BINARY", "VARBINARY")
    }
    wire = tuple(FlinkField(field.name, STRING) if field.name in conversions else field for field in row.fields)
    return RowPlan(row, replace(row, fields=wire), [conversions.get(field.name) for field in row.fields])
