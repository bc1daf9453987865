r"""`maxwell-json`: one change of a row per message. Of the old row, a message has only the columns that differ.

    {"database": "shop", "table": "item", "type": "update", "ts": 1477053217, "primary_key_columns": ["id"],
     "data": {"id": 1, "w": 5.15}, "old": {"w": 5.18}}

    insert  +I(data)
    update  -U(data with the values of old laid over it), +U(data)
    delete  -D(data)

Messages of bootstraps and statements are errors, unless `other-messages` skips them. The format writes only `data` and
`type`, and an update as a deletion and an insertion.
Rules: Flink's "Maxwell Format" page, its `MaxwellJsonDeserializationSchema` and `MaxwellJsonSerializationSchema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kvformat.codecs.changes.envelope import Envelope, Frame, RowImage
from kvformat.codecs.changes.format import CHANGE_OPTIONS
from kvformat.codecs.changes.metadata import TEXTS, Epoch, PlainMember
from kvformat.codecs.changes.mysql import MYSQL_TYPES, MySqlChangeFormat, filter_options
from kvformat.codecs.changes.other_messages import OtherMessage
from kvformat.codecs.changes.record_keys import MaxwellKeyFormat
from kvformat.codecs.changes.unchanged import UNCHANGED_OPTION
from kvformat.registry.contract.look import Looker, LookRequest
from kvformat.registry.contract.options import Option
from kvformat.registry.format import Format

_OTHERS = {
    **dict.fromkeys(("bootstrap-start", "bootstrap-complete"), OtherMessage("the start or end of a bootstrap")),
    **dict.fromkeys(("table-create", "table-alter"), OtherMessage("a statement on a table")),
    **dict.fromkeys(("database-create", "database-alter"), OtherMessage("a statement on a database")),
    "table-drop": OtherMessage("a DROP TABLE", empties_table=True),
    "database-drop": OtherMessage("a DROP DATABASE", empties_table=True),
}


class MaxwellJsonFormat(MySqlChangeFormat):
    """The `maxwell-json` format."""

    identifier: ClassVar[str] = "maxwell-json"
    option_specs: ClassVar[tuple[Option, ...]] = (
        *CHANGE_OPTIONS,
        *filter_options(ours=True),
        UNCHANGED_OPTION,
        MYSQL_TYPES,
    )
    filters_are_ours: ClassVar[bool] = True
    envelope: ClassVar[Envelope] = Envelope(
        operation="type",
        rows={
            "insert": (RowImage("+I", "data"),),
            "update": (RowImage("-U", "data", over="old"), RowImage("+U", "data")),
            "delete": (RowImage("-D", "data"),),
        },
        before="old",
        after="data",
        frames=(Frame('{"data":', ',"type":"insert"}'), Frame('{"data":', ',"type":"delete"}')),
        metadata={
            "database": PlainMember("database"),
            "table": PlainMember("table"),
            "primary-key-columns": PlainMember("primary_key_columns", TEXTS),
            "ingestion-timestamp": Epoch("ts", micros=1_000_000),
        },
        other_by_operation=_OTHERS,
        extra_rows={"bootstrap-insert": (RowImage("+I", "data"),)},
        filters_pass_missing=True,  # a statement on a database does not name a table
        key_metadata="primary-key-columns",
    )
    metadata_types = envelope.metadata_types
    envelope_description = "are JSON objects with type and an object data, as Maxwell writes them"

    @staticmethod
    def is_envelope(message: Mapping[str, Any]) -> bool:
        types = ("insert", "update", "delete", "bootstrap-insert", "bootstrap-start", "bootstrap-complete")
        has_row = isinstance(message.get("data"), dict) and message.get("type") in types
        return has_row and ("database" in message or message.keys() <= {"type", "data", "old"})

    def for_key(self, key: Format) -> Format:
        return MaxwellKeyFormat(key._raw_options) if key.identifier == "json" else key

    def looker(self, request: LookRequest) -> Looker:
        from kvformat.codecs.changes.discover import ChangeLayout, ChangeLooker, KernelShape, named_members, value_rules

        drops = frozenset(("table-drop",))
        names = ("database", "table")
        layout = ChangeLayout(
            table=named_members(*names),
            values=value_rules(self, request),
            drops=drops,
            shape=KernelShape(
                names, others=("ts", "xid", "xoffset", "commit", "position", "gtid", "server_id", "thread_id")
            ),
        )
        return ChangeLooker(self, self.envelope, request, layout)
