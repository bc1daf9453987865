r"""`canal-json`: changes of one or more rows per message; of old rows only the columns that were another value.

    {"database": "shop", "table": "item", "type": "UPDATE", "data": [{"id": "1", "w": "5.18"}], "old": [{"w": "5.15"}],
     "pkNames": ["id"], "sqlType": {"id": 4, "w": 7}, "es": 1589373560000, "ts": 1589373560798, "isDdl": false}

    for every i: INSERT  +I(data[i])     UPDATE  -U(data[i], with what old[i] has), +U(data[i])     DELETE  -D(data[i])

CREATE is passed over, other statements are errors unless a filter or `other-messages` keeps them out. Written are only
`data` and `type`, an update as a deletion and an insertion.
Rules: Flink's "Canal Format" page, its `CanalJsonDeserializationSchema` and `CanalJsonSerializationSchema`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from kvformat.codecs._changes.conversions import EachValue
from kvformat.codecs._changes.envelope import BatchReader, ChangeSettings, Envelope, Frame, RowImage
from kvformat.codecs._changes.format import CHANGE_OPTIONS
from kvformat.codecs._changes.metadata import TEXT, TEXTS, Epoch, PlainMember, map_of
from kvformat.codecs._changes.mysql import MYSQL_TYPES, MySqlChangeFormat, filter_options
from kvformat.codecs._changes.other_messages import OtherMessage
from kvformat.codecs._changes.reading_only import check_reading_only
from kvformat.codecs._changes.row_plan import PlannedReader, RowPlan
from kvformat.codecs._changes.unchanged import UNCHANGED_OPTION
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.contract.types import FlinkField, FlinkType

LATIN = "ISO-8859-1"
BYTES_ENCODING = Option(
    name="bytes.encoding",
    type="enum",
    default="base64",
    allowed=("base64", LATIN),
    doc="Ours. What a BYTES column is on the wire: base64, as Flink reads it, or a text with a character for each "
    "byte, as Canal writes BLOB, BINARY and VARBINARY. Bytes in arrays and rows stay base64. For reading only.",
)
_OTHERS = {
    **dict.fromkeys(("ALTER", "RENAME", "CINDEX", "DINDEX", "QUERY"), OtherMessage("a statement (isDdl)")),
    "TRUNCATE": OtherMessage("a TRUNCATE", empties_table=True),
    "ERASE": OtherMessage("a DROP", empties_table=True),
    **dict.fromkeys(("GTID", "XACOMMIT", "XAROLLBACK"), OtherMessage("the mark of a transaction")),
    "MHEARTBEAT": OtherMessage("a heartbeat"),
    "TIDB_WATERMARK": OtherMessage("a watermark of TiCDC"),
}
"""Canal's `EventType`, and what TiCDC adds."""


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

    def validate(self, direction: Direction) -> None:
        super().validate(direction)
        check_reading_only(self, direction, BYTES_ENCODING, "BYTES as base64")

    def reader(self, row: FlinkType, settings: ChangeSettings, metadata: tuple[str, ...]) -> BatchReader:
        if self.options[BYTES_ENCODING.name] == LATIN:
            return PlannedReader(_latin_plan(self.value_types(row)), self.envelope, settings, metadata)
        return super().reader(row, settings, metadata)


def _latin_plan(row: FlinkType) -> RowPlan:
    """Read each column of bytes as a text, and take a byte for each of its characters."""
    conversions = {
        field.name: EachValue(field.type, f"text in {LATIN}", lambda text: text.encode(LATIN))
        for field in row.fields
        if field.type.root in ("BINARY", "VARBINARY")
    }
    wire = tuple(FlinkField(field.name, TEXT) if field.name in conversions else field for field in row.fields)
    return RowPlan(row, replace(row, fields=wire), [conversions.get(field.name) for field in row.fields])
