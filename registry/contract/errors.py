"""Every error of the library, and its warnings.

    KvFormatError
    ├── ConfigurationError (ValueError)      raised before any record is read
    │   ├── UnknownFormatError (LookupError)     no format of that name
    │   ├── FormatClashError                     two owners claim one name
    │   ├── PluginError (ImportError)            an installed format can't be loaded
    │   ├── MissingExtraError (ImportError)      an optional dependency is not installed
    │   ├── OptionError                          an option is unknown, missing or malformed
    │   │   └── ReadingOnlyError                     an option for reading only is set, and rows are written
    │   ├── SchemaError                          a schema can't be parsed, or the format does not support it
    │   ├── MetadataError (LookupError)          a metadata key that the format does not have
    │   └── DirectionError (NotImplementedError) the format only reads, or only writes
    ├── BatchSizeError (OverflowError)       the results of one batch do not fit one Arrow array
    ├── ContractError (TypeError)            a format returns a result that breaks the contract of formats
    ├── SchemaRegistryError (ConnectionError) a schema registry is unreachable, or its response is invalid
    ├── BrokerError (ConnectionError)        Kafka's brokers are unreachable, or refuse the request
    ├── DeliveryError (RuntimeError)         a batch can't be written exactly once
    ├── ReadError (RuntimeError)             a range of a Kafka partition can't be read
    │   └── DataLossError                        its records are not there any more
    └── DataError (ValueError)               a record is bad
        ├── DecodeError                          a message can't be read
        └── EncodeError                          a row can't be written

    DebeziumTypesWarning (RuntimeWarning)    a column is read as Flink reads it, not as Debezium wrote it
    NewSchemaWarning (RuntimeWarning)        the schema of messages has fields that the table does not show
    UncompiledKernelWarning (RuntimeWarning) messages are read without the compiled kernel
    KafkaSinkWarning (UserWarning)           Spark's Kafka sink will not write records as the table declares
    KafkaSourceWarning (UserWarning)         Spark's Kafka source will not read records as the table declares

A message says what is wrong, where, what is allowed and what to do next; attributes hold the same information.
Kernels never raise a `DataError`. They return an error text per message, and the caller's policy turns it into an
exception (`errors="raise"`) or into data (`errors="capture"`). An `ErrorCode` names the kind of error.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from kvformat.registry.contract.error_codes import ErrorCode


class KvFormatError(Exception):
    """Base class of the library's errors.

    Attributes (None if they do not apply): `format`, `option`, `field`, `reason`.
    """

    def __init__(
        self,
        message: str,
        *,
        format: str | None = None,
        option: str | None = None,
        field: str | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.format, self.option, self.field, self.reason = format, option, field, reason


class ConfigurationError(KvFormatError, ValueError):
    """Invalid names, options or types; raised before any record is read."""


class UnknownFormatError(ConfigurationError, LookupError):
    """No format is registered under the name."""


class FormatClashError(ConfigurationError):
    """Two owners claim one format name."""


class PluginError(ConfigurationError, ImportError):
    """A registered format could not be loaded; the cause is chained."""


class MissingExtraError(ConfigurationError, ImportError):
    """An optional dependency is not installed. With `extra`, the message says how to install this extra."""

    def __init__(self, message: str, *, extra: str | None = None, **where: str | None) -> None:
        """Take the other arguments of `KvFormatError` as `where`."""
        super().__init__(f"{message}: {install_extra(extra)}" if extra else message, **where)


class OptionError(ConfigurationError):
    """An option is unknown, missing, malformed, or contradicts another."""


class ReadingOnlyError(OptionError):
    """An option for reading only is set, and rows are written."""


class SchemaError(ConfigurationError):
    """A schema can't be parsed, or the format does not support one of its types."""


class MetadataError(ConfigurationError, LookupError):
    """A metadata key that the format does not have."""


class DirectionError(ConfigurationError, NotImplementedError):
    """The format has no decoder, or no encoder."""


class BatchSizeError(KvFormatError, OverflowError):
    """The results of one batch are valid but do not fit one Arrow array: use smaller batches."""


class ContractError(KvFormatError, TypeError):
    """A format returns a result that breaks the contract of formats; `reason` is the rule.

    Raised under every policy for bad records, because no record is at fault and none was decoded.
    """


class SchemaRegistryError(KvFormatError, ConnectionError):
    """A schema registry is unreachable, or its response is invalid. The records are not at fault and stay unread.

    Raised under every policy for bad records, so that the task fails and can be retried. `url` is the URL of the
    registry, without secrets; `schema_id` or `subject` is the requested schema.
    """

    def __init__(
        self,
        message: str,
        *,
        format: str | None = None,
        reason: str | None = None,
        url: str | None = None,
        schema_id: int | str | None = None,
        subject: str | None = None,
    ) -> None:
        super().__init__(message, format=format, reason=reason)
        self.url, self.schema_id, self.subject = url, schema_id, subject


class BrokerError(KvFormatError, ConnectionError):
    """Kafka's brokers are unreachable, or refuse the request. The message names them, without secrets."""


class DeliveryError(KvFormatError, RuntimeError):
    """A batch can't be written exactly once. Nothing was written twice; the message says how to go on."""


class ReadError(KvFormatError, RuntimeError):
    """A range of a partition can't be read to its end.

    `topic` and `partition` name the partition, `start` and `end` the offsets that were to be read, without `end`.
    `offset` is the first offset that was not read. The message names all of them, without secrets.
    """

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        start: int | None = None,
        end: int | None = None,
        offset: int | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(message, reason=reason)
        self.topic, self.partition = topic, partition
        self.start, self.end, self.offset = start, end, offset


class DataLossError(ReadError):
    """Records that were to be read are not there any more: they are deleted, or the topic is, or was created again."""


class DataError(KvFormatError, ValueError):
    """A record is bad. `code` is its `ErrorCode`, `head` its first bytes or None."""

    def __init__(
        self,
        text: str,
        *,
        format: str | None = None,
        reason: str | None = None,
        head: bytes | None = None,
        code: str = ErrorCode.BAD_RECORD,
    ) -> None:
        super().__init__(f"[{code}] {text}", format=format, reason=reason)
        self.head, self.code = head, code


class DecodeError(DataError):
    """A message can't be read."""


class EncodeError(DataError):
    """A row can't be written."""


class DebeziumTypesWarning(RuntimeWarning):
    """A column gets values as Flink reads them, which differ from those that Debezium wrote.

    The message names the option that helps.
    """


class NewSchemaWarning(RuntimeWarning):
    """The schema of messages has fields or types that the table does not show, with `on-new-schema` = `warn`."""


class UncompiledKernelWarning(RuntimeWarning):
    """Messages are read by the kernel's Python source, here or in executors; compiled, it is many times as fast."""


class KafkaSinkWarning(UserWarning):
    """Spark's Kafka sink does not write all columns of `encode`, or not to the place that the table declares."""


class KafkaSourceWarning(UserWarning):
    """Spark's Kafka source does not support an option of the table, or supports it differently than Flink."""


def add_context(
    error: ConfigurationError, before: str, after: str = "", *, option: str | None = None
) -> ConfigurationError:
    """Return a copy of an error with text before and after its message, and with `option` if given."""
    return type(error)(
        f"{before}{error}{after}",
        format=error.format,
        option=option or error.option,
        field=error.field,
        reason=error.reason,
    )


def install_extra(extra: str) -> str:
    """Return how to install an extra of kvformat. The advice does not need a package index that has kvformat."""
    return f"install kvformat[{extra}] (in a clone: pip install '.[{extra}]')"


@contextmanager
def needs_extra(message: str, *, extra: str | None = None) -> Iterator[None]:
    """Raise `MissingExtraError` with a message if an import inside of the block fails."""
    try:
        yield
    except ImportError as cause:
        raise MissingExtraError(message, extra=extra) from cause


def too_many_bad(most: int, reason: str, code: str, *, where: str = "") -> DecodeError:
    """Return the error for more bad records than a table tolerates; `reason` and `code` are those of one record."""
    return DecodeError(
        f"more than {most} bad records{where}; 'ingestion.error-tolerance.max-count' allows {most}. "
        f"One of them: {reason}",
        reason=reason,
        code=code,
    )


def listed(names: Iterable[str]) -> str:
    """Return names in sorted order as `a, b, c`, or `(none)`."""
    return ", ".join(sorted(names)) or "(none)"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` if one of `names` is similar, else an empty string."""
    by_fold = {known.casefold(): known for known in names}
    near = difflib.get_close_matches(name.casefold(), by_fold, n=1, cutoff=0.6)
    return f" Did you mean {by_fold[near[0]]!r}?" if near else ""
