r"""`ogg-json`: one change of a row per message of Oracle GoldenGate, with the row before and after it.

    {"table": "SHOP.ITEM", "op_type": "U", "op_ts": "2020-05-13 15:40:06.123456",
     "current_ts": "2020-05-13T15:40:07.327000", "primary_keys": ["id"],
     "before": {"id": 1, "w": 5.18}, "after": {"id": 1, "w": 5.15}}

    I  +I(after)     U  -U(before), +U(after)     D  -D(before)     a null or empty message  no rows

The format writes only `before`, `after` and `op_type`, and an update as a deletion and an insertion.
Rules: Flink's "Ogg Format" page, its `OggJsonDeserializationSchema` and `OggJsonSerializationSchema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kvformat.codecs.changes.envelope import Envelope, Frame, RowImage
from kvformat.codecs.changes.format import CHANGE_OPTIONS, JsonChangeFormat
from kvformat.codecs.changes.metadata import TEXTS, OggTime, PlainMember
from kvformat.codecs.changes.other_messages import OtherMessage
from kvformat.codecs.changes.unchanged import UNCHANGED_OPTION
from kvformat.codecs.changes.upsert import OR_UPSERT_HINT
from kvformat.registry.contract.look import Looker, LookRequest
from kvformat.registry.contract.options import Option


class OggJsonFormat(JsonChangeFormat):
    """The `ogg-json` format."""

    identifier: ClassVar[str] = "ogg-json"
    option_specs: ClassVar[tuple[Option, ...]] = (*CHANGE_OPTIONS, UNCHANGED_OPTION)
    envelope: ClassVar[Envelope] = Envelope(
        operation="op_type",
        rows={
            "I": (RowImage("+I", "after"),),
            "U": (RowImage("-U", "before"), RowImage("+U", "after")),
            "D": (RowImage("-D", "before"),),
        },
        before="before",
        after="after",
        frames=(
            Frame('{"before":null,"after":', ',"op_type":"I"}'),
            Frame('{"before":', ',"after":null,"op_type":"D"}'),
        ),
        frames_without_nulls=(Frame('{"after":', ',"op_type":"I"}'), Frame('{"before":', ',"op_type":"D"}')),
        metadata={
            "table": PlainMember("table"),
            "primary-keys": PlainMember("primary_keys", TEXTS),
            "ingestion-timestamp": OggTime("current_ts"),
            "event-timestamp": OggTime("op_ts", strict=True),
        },
        no_before_hint=(
            ". The log of the source must have whole rows: run ALTER TABLE ... REPLICA IDENTITY FULL for a table of "
            "Postgres, or turn on supplemental logging of all columns for a table of Oracle" + OR_UPSERT_HINT
        ),
        array_of_one=True,
        other_by_operation={"T": OtherMessage("a TRUNCATE", empties_table=True)},
    )
    metadata_types = envelope.metadata_types
    envelope_description = "are JSON objects with op_type, and before or after: Oracle GoldenGate"

    @staticmethod
    def is_envelope(message: Mapping[str, Any]) -> bool:
        return isinstance(message.get("op_type"), str) and ("before" in message or "after" in message)

    def looker(self, request: LookRequest) -> Looker:
        from kvformat.codecs.changes.discover import ChangeLayout, ChangeLooker, KernelShape, dotted_member, value_rules

        layout = ChangeLayout(
            table=dotted_member("table"),
            values=value_rules(self, request),
            shape=KernelShape(("table",), others=("op_ts", "current_ts", "pos")),
        )
        return ChangeLooker(self, self.envelope, request, layout)
