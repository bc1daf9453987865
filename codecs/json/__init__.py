"""The format `json`."""

from kvformat.codecs.json.format import JsonFormat as JsonFormat
