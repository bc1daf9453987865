r"""`maxwell-json`: one change of a row per message; of an old row only the columns that were another value.

    {"database": "shop", "table": "item", "type": "update", "ts": 1477053217, "primary_key_columns": ["id"],
     "data": {"id": 1, "w": 5.15}, "old": {"w": 5.18}}

    insert  +I(data)     update  -U(data, with what `old` has), +U(data)     delete  -D(data)

Bootstraps and statements on tables are errors, or what the option `other-messages` makes of them.

Written are only `data` and `type`, an update as a deletion and an insertion.
Rules: Flink's "Maxwell Format" page, its `MaxwellJsonDeserializationSchema` and `MaxwellJsonSerializationSchema`.
"""

from __future__ import annotations

from typing import ClassVar

from kvformat.codecs._changes.envelope import Envelope, Frame, RowImage
from kvformat.codecs._changes.format import CHANGE_OPTIONS
from kvformat.codecs._changes.metadata import TEXTS, Epoch, PlainMember
from kvformat.codecs._changes.mysql import MYSQL_TYPES, MySqlChangeFormat, filter_options
from kvformat.codecs._changes.other_messages import OtherMessage
from kvformat.codecs._changes.unchanged import UNCHANGED_OPTION
from kvformat.registry.contract.options import Option

_OTHERS = {
    **dict.fromkeys(("bootstrap-start", "bootstrap-complete"), OtherMessage("the begin or end of a bootstrap")),
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
        filters_pass_missing=True,  # a statement on a database is of no table
        key_metadata="primary-key-columns",
    )
    metadata_types = envelope.metadata_types
