"""The contract of formats, formats by name, and Kafka tables.

This package contains no format. Importing it does not import PySpark and does not connect to a broker.
"""

from __future__ import annotations

from kvformat.registry.build import build_identity
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.changelog import ChangelogMode, RowKind
from kvformat.registry.contract.discovery import available_formats, get_format, register_format
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import (
    BatchSizeError,
    BrokerError,
    ConfigurationError,
    ContractError,
    DataError,
    DataLossError,
    DebeziumTypesWarning,
    DecodeError,
    DeliveryError,
    DirectionError,
    EncodeError,
    FormatClashError,
    KafkaSinkWarning,
    KafkaSourceWarning,
    KvFormatError,
    MetadataError,
    MissingExtraError,
    NewSchemaWarning,
    OptionError,
    PluginError,
    ReadError,
    ReadingOnlyError,
    SchemaError,
    SchemaRegistryError,
    UncompiledKernelWarning,
    UnknownFormatError,
)
from kvformat.registry.contract.options import Option
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.format import Format
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.spark.settings import recommended_settings
from kvformat.registry.spark.workers import freeze_modules
from kvformat.registry.streams.changes import (
    explode_changes,
    latest_by_key,
    normalize_changes,
    observe_records,
    split_errors,
)
from kvformat.registry.streams.current_table import current_table
from kvformat.registry.streams.dead_letters import write_dead_letters

__all__ = [
    "BatchSizeError",
    "BrokerError",
    "ChangelogMode",
    "ConfigurationError",
    "ContractError",
    "DataError",
    "DataLossError",
    "DebeziumTypesWarning",
    "DecodeError",
    "DecodedBatch",
    "DeliveryError",
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
    "MessageSample",
    "MetadataError",
    "MissingExtraError",
    "NewSchemaWarning",
    "Option",
    "OptionError",
    "PluginError",
    "ReadError",
    "ReadingOnlyError",
    "Recognition",
    "RowKind",
    "SchemaError",
    "SchemaProposal",
    "SchemaRegistryError",
    "UncompiledKernelWarning",
    "UnknownFormatError",
    "available_formats",
    "build_identity",
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

freeze_modules()
