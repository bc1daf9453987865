"""The contract of a format, and formats by name. Nothing here knows a format, imports PySpark, or touches a broker."""

from __future__ import annotations

from kvformat.registry.changelog import ChangelogMode, RowKind
from kvformat.registry.changes import explode_changes, latest_by_key, normalize_changes, observe_records, split_errors
from kvformat.registry.dead_letters import write_dead_letters
from kvformat.registry.discovery import available_formats, get_format, register_format
from kvformat.registry.error_codes import ErrorCode
from kvformat.registry.errors import (
    BatchSizeError,
    BrokerError,
    ConfigurationError,
    ContractError,
    DataError,
    DebeziumTypesWarning,
    DecodeError,
    DirectionError,
    EncodeError,
    FormatClashError,
    KafkaSinkWarning,
    KafkaSourceWarning,
    KvFormatError,
    MetadataError,
    MissingExtraError,
    OptionError,
    PluginError,
    ReadingOnlyError,
    SchemaError,
    SchemaRegistryError,
    UncompiledKernelWarning,
    UnknownFormatError,
)
from kvformat.registry.format import DecodedBatch, EncodedBatch, Format
from kvformat.registry.key_value import KeyValueFormat
from kvformat.registry.maintain import current_table
from kvformat.registry.options import Option
from kvformat.registry.spark_settings import recommended_settings

__all__ = [
    "BatchSizeError",
    "BrokerError",
    "ChangelogMode",
    "ConfigurationError",
    "ContractError",
    "DataError",
    "DebeziumTypesWarning",
    "DecodeError",
    "DecodedBatch",
    "DirectionError",
    "EncodeError",
    "EncodedBatch",
    "ErrorCode",
    "Format",
    "FormatClashError",
    "KafkaSinkWarning",
    "KafkaSourceWarning",
    "KeyValueFormat",
    "KvFormatError",
    "MetadataError",
    "MissingExtraError",
    "Option",
    "OptionError",
    "PluginError",
    "ReadingOnlyError",
    "RowKind",
    "SchemaError",
    "SchemaRegistryError",
    "UncompiledKernelWarning",
    "UnknownFormatError",
    "available_formats",
    "current_table",
    "explode_changes",
    "get_format",
    "latest_by_key",
    "normalize_changes",
    "observe_records",
    "recommended_settings",
    "register_format",
    "split_errors",
    "write_dead_letters",
]
