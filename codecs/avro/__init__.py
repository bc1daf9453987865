"""The format `avro`."""

from kvformat.codecs.avro.format import AvroFormat as AvroFormat
