"""Options that Debezium's formats for JSON and Avro share: its own types, and rows without an envelope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvformat.codecs.changes.reading_only import check_reading_only
from kvformat.codecs.changes.unchanged import placeholder_of
from kvformat.codecs.debezium.value_readings import ConnectorModes
from kvformat.registry.contract.errors import OptionError
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.format import Format

DEBEZIUM = "debezium"
TYPE_OPTIONS = (
    Option(
        name="types",
        type="enum",
        default="flink",
        allowed=("flink", DEBEZIUM),
        doc="Ours. How values are read: by Flink's rules, or by Debezium's own types, which the message's schema "
        "tells, or the three options below. For reading only.",
    ),
    Option(
        name="decimal.handling.mode",
        type="enum",
        allowed=("precise", "double", "string"),
        doc="Ours. The connector's setting of this name, for DECIMAL columns of messages without a schema.",
    ),
    Option(
        name="time.precision.mode",
        type="enum",
        allowed=(
            "adaptive",
            "adaptive_time_microseconds",
            "connect",
            "isostring",
            "microseconds",
            "nanoseconds",
            "structured",
        ),
        doc="Ours. The connector's setting of this name, for DATE, TIME and TIMESTAMP columns of messages without a "
        "schema.",
    ),
    Option(
        name="binary.handling.mode",
        type="enum",
        allowed=("bytes", "base64", "base64-url-safe", "hex"),
        doc="Ours. The connector's setting of this name, for BYTES columns.",
    ),
)
AVRO_TYPE_OPTIONS = (*(option for option in TYPE_OPTIONS if option.name in ("types", "binary.handling.mode")),)

FLATTENED = Option(
    name="flattened",
    type="boolean",
    default=False,
    doc="Ours. Whether messages are rows without an envelope, as Debezium's transform ExtractNewRecordState writes "
    "them. The operation is in `__op` and `__deleted`. For reading only.",
)


def modes_of(options: Mapping[str, Any]) -> ConnectorModes:
    """The connector's settings, as the options have them."""
    return ConnectorModes(
        options.get("decimal.handling.mode"),
        options.get("time.precision.mode"),
        options["binary.handling.mode"],
        placeholder_of(options),
    )


def check_types(format: Format, direction: Direction) -> None:
    """Raise `OptionError` if Debezium's types are to be written, or if their settings are given without them."""
    check_reading_only(format, direction, TYPE_OPTIONS[0], "no other types than Flink's")
    if format.options["types"] == DEBEZIUM:
        return
    for option in TYPE_OPTIONS[1:]:
        if format.options.get(option.name) is not None:
            raise OptionError(
                f"option '{option.name}' of format '{format.identifier}' is used only with 'types' = '{DEBEZIUM}'",
                format=format.identifier,
                option=option.name,
            )
