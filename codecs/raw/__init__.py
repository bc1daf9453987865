"""The format `raw`."""

from kvformat.codecs.raw.format import RawFormat as RawFormat
