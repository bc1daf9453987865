r"""`ogg-json`: one change of a row per message of Oracle GoldenGate, with the row before and after it.

    {"table": "SHOP.ITEM", "op_type": "U", "op_ts": "2020-05-13 15:40:06.123456",
     "current_ts": "2020-05-13T15:40:07.327000", "primary_keys": ["id"],
     "before": {"id": 1, "w": 5.18}, "after": {"id": 1, "w": 5.15}}

    I  +I(after)     U  -U(before), +U(after)     D  -D(before)     a null or empty message  nothing

Written are only `before`, `after` and `op_type`, an update as a deletion and an insertion.
Rules: Flink's "Ogg Format" page, its `OggJsonDeserializationSchema` and `OggJsonSerializationSchema`.
"""

from __future__ import annotations

from typing import ClassVar

from kvformat.codecs._changes.envelope import Envelope, Frame, RowOf
from kvformat.codecs._changes.format import CHANGE_OPTIONS, ChangeFormat
from kvformat.codecs._changes.metadata import TEXTS, OggTime, Plain
from kvformat.codecs._changes.others import Other
from kvformat.codecs._changes.unchanged import UNCHANGED_OPTION
from kvformat.codecs._changes.upsert import OR_UPSERT
from kvformat.registry.contract.options import Option


class OggJsonFormat(ChangeFormat):
    """The `ogg-json` format."""

    identifier: ClassVar[str] = "ogg-json"
    option_specs: ClassVar[tuple[Option, ...]] = (*CHANGE_OPTIONS, UNCHANGED_OPTION)
    envelope: ClassVar[Envelope] = Envelope(
        operation="op_type",
        rows={
            "I": (RowOf("+I", "after"),),
            "U": (RowOf("-U", "before"), RowOf("+U", "after")),
            "D": (RowOf("-D", "before"),),
        },
        before="before",
        after="after",
        writes=(
            Frame('{"before":null,"after":', ',"op_type":"I"}'),
            Frame('{"before":', ',"after":null,"op_type":"D"}'),
        ),
        writes_without_nulls=(Frame('{"after":', ',"op_type":"I"}'), Frame('{"before":', ',"op_type":"D"}')),
        metadata={
            "table": Plain("table"),
            "primary-keys": Plain("primary_keys", TEXTS),
            "ingestion-timestamp": OggTime("current_ts"),
            "event-timestamp": OggTime("op_ts", strict=True),
        },
        remedy=(
            ". The log of the source must hold whole rows: for a table of Postgres ALTER TABLE ... REPLICA IDENTITY "
            "FULL, for one of Oracle supplemental logging of all columns" + OR_UPSERT
        ),
        array=True,
        others={"T": Other("a TRUNCATE", empties=True)},
    )
    metadata_types = envelope.metadata_types
