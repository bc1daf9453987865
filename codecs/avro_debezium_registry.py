"""`avro-debezium-registry`: Debezium's changes in Avro with a schema registry, as Flink on Confluent Cloud reads them.

    00  00 00 00 01  02  00  02 02 0e  02 02 63      `00`, the schema's id, and the datum: before, after, op

It is `debezium-avro-confluent` with the options and the timestamps of `avro-registry`. It does not write.
Rules: "Debezium" in the documentation of Confluent Cloud for Apache Flink.
"""

from __future__ import annotations

from typing import ClassVar

from kvformat.codecs.avro.registry_options import cloud_avro_options
from kvformat.codecs.changes.other_messages import OTHER_MESSAGES
from kvformat.codecs.changes.unchanged import UNCHANGED_OPTIONS
from kvformat.codecs.changes.upsert import MODE_OPTION
from kvformat.codecs.debezium.options import AVRO_TYPE_OPTIONS, FLATTENED
from kvformat.codecs.debezium_avro_confluent import DebeziumAvroConfluentFormat
from kvformat.registry.contract.options import Option


class AvroDebeziumRegistryFormat(DebeziumAvroConfluentFormat):
    """The `avro-debezium-registry` format."""

    identifier: ClassVar[str] = "avro-debezium-registry"
    option_specs: ClassVar[tuple[Option, ...]] = (
        *cloud_avro_options(),
        *AVRO_TYPE_OPTIONS,
        OTHER_MESSAGES,
        MODE_OPTION,
        *UNCHANGED_OPTIONS,
        FLATTENED,
    )
    legacy: ClassVar[bool] = False
    reads_only: ClassVar[bool] = True
