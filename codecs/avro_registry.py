"""`avro-registry`: Avro with schemas in a schema registry, as Flink on Confluent Cloud has it.

    00  00 00 00 01  0e 02 04 61 62      `00`, the schema's id as four bytes, big-endian, and the datum

It is `avro-confluent` with the options of Confluent Cloud and its timestamps: TIMESTAMP is `local-timestamp-millis` or
`-micros`, TIMESTAMP_LTZ is `timestamp-millis` or `-micros`. An enum is read as STRING and a fixed as BYTES.
Rules: "Data Type Mappings" and "CREATE TABLE" in the documentation of Confluent Cloud for Apache Flink.
"""

from __future__ import annotations

from typing import ClassVar

from kvformat.codecs.avro.registry_options import cloud_avro_options
from kvformat.codecs.avro_confluent import AvroConfluentFormat
from kvformat.codecs.registry_formats.record_options import RECORD_OPTIONS
from kvformat.registry.contract.options import Option


class AvroRegistryFormat(AvroConfluentFormat):
    """The `avro-registry` format."""

    identifier: ClassVar[str] = "avro-registry"
    option_specs: ClassVar[tuple[Option, ...]] = (*cloud_avro_options(), *RECORD_OPTIONS)
    legacy: ClassVar[bool] = False
