"""Avro's logical types of dates and times: the one table of what they are.

| logical type | type | quantity | digits of a second |
| --- | --- | --- | --- |
| date | int | date | |
| time-millis, -micros | int, long | time | 3, 6 |
| timestamp-millis, -micros, -nanos | long | timestamp | 3, 6, 9 |
| local-timestamp-millis, -micros, -nanos | long | timestamp, local | 3, 6, 9 |

The other logical types are no counts: decimal, uuid and duration, see `parse.py`. Flink's types of them are in
`types.py`, Kafka Connect's names in `debezium/connect_schema.py`. Rules: Avro's specification, "Logical Types".
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import pyarrow as pa

_UNITS: Final = {"millis": ("ms", 3), "micros": ("us", 6), "nanos": ("ns", 9)}


class TimeType(NamedTuple):
    """What a logical type means: the type that it is stored as, what it counts, and the type of its Arrow column.

    `digits` are those of a second after the point. `local` says that a timestamp has no zone.
    """

    type: Literal["int", "long"]
    quantity: Literal["date", "time", "timestamp"]
    digits: int
    arrow: pa.DataType
    local: bool = False


TIMES: Final[dict[str, TimeType]] = {
    "date": TimeType("int", "date", 0, pa.date32()),
    "time-millis": TimeType("int", "time", 3, pa.time32("ms")),
    "time-micros": TimeType("long", "time", 6, pa.time64("us")),
    **{
        f"timestamp-{name}": TimeType("long", "timestamp", digits, pa.timestamp(unit, "UTC"))
        for name, (unit, digits) in _UNITS.items()
    },
    **{
        f"local-timestamp-{name}": TimeType("long", "timestamp", digits, pa.timestamp(unit), local=True)
        for name, (unit, digits) in _UNITS.items()
    },
}
OF_COLUMNS: Final = ("date", "time-millis", "timestamp-millis")
"""Those that the Avro formats write for columns with the legacy mapping of timestamps, so that columns have them."""
