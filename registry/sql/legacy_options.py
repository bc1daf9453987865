"""The options of tables for Flink before 1.11, and those that replaced them.

    'connector.type' = 'kafka'                                connector
    'connector.topic' = 'orders'                              topic
    'connector.properties.bootstrap.servers' = 'broker:9092'  properties.bootstrap.servers
    'format.type' = 'json'                                    format
    'update-mode' = 'append'                                  (removed)

Flink 1.14 was the last version that read them. Rules: "Connect to External Systems" of Flink 1.10, FLIP-122.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kvformat.registry.contract.errors import OptionError

_NEW_NAMES: Final = {
    "connector.type": "connector",
    "connector.topic": "topic",
    "connector.startup-mode": "scan.startup.mode",
    "connector.specific-offsets": "scan.startup.specific-offsets",
    "connector.startup-timestamp-millis": "scan.startup.timestamp-millis",
    "connector.sink-partitioner": "sink.partitioner",
    "connector.sink-partitioner-class": "sink.partitioner",
    "format.type": "format",
}
_WITHOUT_SUCCESSOR: Final = (
    "connector.version", "connector.property-version", "connector.properties.zookeeper.connect",
    "format.property-version", "format.derive-schema", "format.json-schema", "format.avro-schema",
    "format.record-class", "format.schema", "format.line-delimiter", "update-mode",
)  # fmt: skip
_MARKS: Final = ("connector.type", "format.type", "update-mode")  # options that show that the others are old, too
_PROPERTIES: Final = "connector.properties."
_NUMBERED: Final = re.compile(r"connector\.properties\.\d+\.(key|value)")
_NAME: Final = re.compile(r"[A-Za-z][\w.-]*")
_MOST_SHOWN: Final = 30  # options in an error


def check_not_legacy(table: str, options: Mapping[str, str]) -> None:
    """Raise `OptionError` with the new names if a table has options of Flink before 1.11."""
    mark = next((key for key in _MARKS if key in options), None)
    if mark is None:
        return
    replaced, removed = [], []
    for key in list(options)[:_MOST_SHOWN]:
        new = _new_name(key, options)
        if new is not None:
            replaced.append(f"'{key}' with '{new}'")
        elif key in _WITHOUT_SUCCESSOR or key.startswith(("format.fields.", "schema.")) or _NUMBERED.fullmatch(key):
            removed.append(f"'{key}'")
    steps = f"Replace {', '.join(replaced)}" if replaced else ""
    if removed:
        steps += f"{'; remove' if steps else 'Remove'} {', '.join(removed)}"
    if options.get("update-mode", "append") != "append":
        steps += "; for rows that are updated, declare a PRIMARY KEY and set 'connector' = 'upsert-kafka'"
    raise OptionError(
        f"option '{mark}' of table '{table}' is one of Flink before 1.11, whose options have new names. {steps}",
        option=mark,
    )


def _new_name(key: str, options: Mapping[str, str]) -> str | None:
    """Return the name that replaced an option; None if there is none."""
    if key in _NEW_NAMES:
        return _NEW_NAMES[key]
    if key in _WITHOUT_SUCCESSOR:
        return None
    if _NUMBERED.fullmatch(key):  # 'connector.properties.0.key' = 'group.id', 'connector.properties.0.value' = 'g'
        name = options.get(f"{key.rpartition('.')[0]}.key", "")
        return f"properties.{name}" if key.endswith(".value") and _NAME.fullmatch(name) else None
    if key.startswith(_PROPERTIES):
        return key.removeprefix("connector.")
    if key.startswith("format.") and not key.startswith("format.fields."):
        format = options.get("format.type", "")
        return f"{format if _NAME.fullmatch(format) else '<format>'}.{key.removeprefix('format.')}"
    return None
