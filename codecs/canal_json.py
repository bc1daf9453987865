r"""`canal-json`: changes of one or more rows per message; of old rows only the columns that were another value.

    {"database": "shop", "table": "item", "type": "UPDATE", "data": [{"id": "1", "w": "5.18"}], "old": [{"w": "5.15"}],
     "pkNames": ["id"], "sqlType": {"id": 4, "w": 7}, "es": 1589373560000, "ts": 1589373560798, "isDdl": false}

    for every i: INSERT  +I(data[i])     UPDATE  -U(data[i], with what old[i] has), +U(data[i])     DELETE  -D(data[i])

CREATE is passed over, other statements are errors unless a filter or `other-messages` keeps them out. Written are only
`data` and `type`, an update as a deletion and an insertion.
Rules: Flink's "Canal Format" page, its `CanalJsonDeserializationSchema` and `CanalJsonSerializationSchema`.
"""

from __future__ import annotations

from typing import ClassVar

from kvformat.codecs._changes.envelope import Envelope, Frame, RowOf
from kvformat.codecs._changes.format import CHANGE_OPTIONS, MYSQL_TYPES, ChangeFormat
from kvformat.codecs._changes.metadata import TEXTS, Epoch, Plain, map_of
from kvformat.codecs._changes.others import Other
from kvformat.codecs._changes.unchanged import UNCHANGED_OPTION
from kvformat.codecs._java.regex import JavaPattern, RegexError, compile_java
from kvformat.registry.errors import OptionError
from kvformat.registry.options import Direction, Option
from kvformat.registry.types import FlinkType

_WRITES = (Frame('{"data":[', '],"type":"INSERT"}'), Frame('{"data":[', '],"type":"DELETE"}'))
_FILTERED = ("database", "table")
_OTHERS = {
    **dict.fromkeys(("ALTER", "RENAME", "CINDEX", "DINDEX", "QUERY"), Other("a statement (isDdl)")),
    "TRUNCATE": Other("a TRUNCATE", empties=True),
    "ERASE": Other("a DROP", empties=True),
    **dict.fromkeys(("GTID", "XACOMMIT", "XAROLLBACK"), Other("the mark of a transaction")),
    "MHEARTBEAT": Other("a heartbeat"),
    "TIDB_WATERMARK": Other("a watermark of TiCDC"),
}
"""Canal's `EventType`, and what TiCDC adds."""


class CanalJsonFormat(ChangeFormat):
    """The `canal-json` format."""

    identifier: ClassVar[str] = "canal-json"
    option_specs: ClassVar[tuple[Option, ...]] = (
        *CHANGE_OPTIONS,
        Option(
            name="database.include",
            doc="A Java regular expression; messages of databases whose name it does not match as a whole are skipped.",
        ),
        Option(
            name="table.include",
            doc="A Java regular expression; messages of tables whose name it does not match as a whole are skipped.",
        ),
        UNCHANGED_OPTION,
        MYSQL_TYPES,
    )
    envelope: ClassVar[Envelope] = Envelope(
        operation="type",
        rows={
            "INSERT": (RowOf("+I", "data"),),
            "UPDATE": (RowOf("-U", "data", over="old"), RowOf("+U", "data")),
            "DELETE": (RowOf("-D", "data"),),
            "CREATE": (),
        },
        before="old",
        after="data",
        writes=_WRITES,
        writes_without_nulls=_WRITES,
        metadata={
            "database": Plain("database"),
            "table": Plain("table"),
            "sql-type": Plain("sqlType", map_of(FlinkType("INT"))),
            "pk-names": Plain("pkNames", TEXTS),
            "ingestion-timestamp": Epoch("ts"),
            "event-timestamp": Epoch("es"),
        },
        many=True,
        others=_OTHERS,
        key_names="pk-names",
    )
    metadata_types = envelope.metadata_types

    def validate(self, direction: Direction) -> None:
        super().validate(direction)
        if direction == "decode":
            self.filters()

    def filters(self) -> tuple[tuple[str, JavaPattern], ...]:
        given = ((member, self.options[f"{member}.include"]) for member in _FILTERED)
        return tuple((member, self._pattern(member, text)) for member, text in given if text is not None)

    def _pattern(self, member: str, text: str) -> JavaPattern:
        option = f"{member}.include"
        try:
            return compile_java(text)
        except RegexError as cause:
            raise OptionError(
                f"invalid value {text!r} for option '{option}' of format '{self.identifier}': {cause}. "
                f"It must be a Java regular expression that matches the whole name of the {member}, such as 'shop_.*'",
                format=self.identifier,
                option=option,
                reason=str(cause),
            ) from None
