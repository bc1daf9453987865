"""The options of Debezium's own types and of rows alone, which JSON and Avro share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvformat.codecs._changes.unchanged import placeholder_of
from kvformat.codecs._debezium.value_readings import ConnectorModes
from kvformat.registry.contract.errors import OptionError, ReadingOnlyError
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


def check_types(format: str, options: Mapping[str, Any], direction: Direction) -> None:
    """Raise `OptionError` where the options don't go together."""
    if options["types"] == DEBEZIUM:
        if direction == "encode":
            raise ReadingOnlyError(
                f"format '{format}' writes no other types than Flink's: 'types' = '{DEBEZIUM}' is for reading only",
                format=format,
                option="types",
            )
        return
    for option in TYPE_OPTIONS[1:]:
        if options.get(option.name) is not None:
            raise OptionError(
                f"option '{option.name}' of format '{format}' counts with 'types' = '{DEBEZIUM}' only",
                format=format,
                option=option.name,
            )


def check_flattened(format: str, options: Mapping[str, Any], direction: Direction, plain: str) -> None:
    """Raise `OptionError` where rows alone are to be written: that is for the format of plain rows."""
    if direction == "encode" and options[FLATTENED.name]:
        raise ReadingOnlyError(
            f"format '{format}' writes whole changes: '{FLATTENED.name}' is for reading only. Rows alone are written "
            f"by format {plain}",
            format=format,
            option=FLATTENED.name,
        )
