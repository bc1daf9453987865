"""The contract of a format, and formats by name. Nothing here knows a format, imports PySpark, or touches a broker."""

from __future__ import annotations

from kvformat.registry.changelog import ChangelogMode, RowKind
from kvformat.registry.discovery import available_formats, get_format, register_format
from kvformat.registry.errors import (
    ConfigurationError,
    DataError,
    DecodeError,
    DirectionError,
    EncodeError,
    FormatClashError,
    KvFormatError,
    MetadataError,
    MissingExtraError,
    OptionError,
    PluginError,
    SchemaError,
    UnknownFormatError,
)
from kvformat.registry.format import DecodedBatch, EncodedBatch, Format
from kvformat.registry.options import Option

__all__ = [
    "ChangelogMode",
    "ConfigurationError",
    "DataError",
    "DecodeError",
    "DecodedBatch",
    "DirectionError",
    "EncodeError",
    "EncodedBatch",
    "Format",
    "FormatClashError",
    "KvFormatError",
    "MetadataError",
    "MissingExtraError",
    "Option",
    "OptionError",
    "PluginError",
    "RowKind",
    "SchemaError",
    "UnknownFormatError",
    "available_formats",
    "get_format",
    "register_format",
]
