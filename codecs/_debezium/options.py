"""The options of Debezium's own types and of rows alone, which JSON and Avro share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvformat.codecs._changes.reading_only import check_reading_only
from kvformat.codecs._changes.unchanged import placeholder_of
from kvformat.codecs._debezium.value_readings import ConnectorModes
from kvformat.registry.contract.errors import OptionError
from kvformat.registry.contract.format import Format
from kvformat.registry.contract.options import Direction, Option

DEBEZIUM = "debezium"
TYPE_OPTIONS = (
    Option(
        name="types",
        type="enum",
        default="flink",
        allowed=("flink", DEBEZIUM),
        doc="Ours. How values are read: as Flink does, or by Debezium's own types, as the message's schema says, or "
        "the three options below. For reading only.",
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
    doc="Ours. Whether messages are rows alone, by Debezium's transform ExtractNewRecordState; what was done is in "
    "`__op` and `__deleted`. For reading only.",
)


def modes_of(options: Mapping[str, Any]) -> ConnectorModes:
    """The connector's settings."""
    return ConnectorModes(
        options.get("decimal.handling.mode"),
        options.get("time.precision.mode"),
        options["binary.handling.mode"],
        placeholder_of(options),
    )


def check_types(format: Format, direction: Direction) -> None:
    """Raise `OptionError` if the format writes Debezium's types, or has the connector's settings without them."""
    check_reading_only(format, direction, TYPE_OPTIONS[0], "no other types than Flink's")
    if format.options["types"] == DEBEZIUM:
        return
    for option in TYPE_OPTIONS[1:]:
        if format.options.get(option.name) is not None:
            raise OptionError(
                f"option '{option.name}' of format '{format.identifier}' counts with 'types' = '{DEBEZIUM}' only",
                format=format.identifier,
                option=option.name,
            )
