"""Every error of the library, and its warnings.

    KvFormatError
    ├── ConfigurationError (ValueError)      found before any record is read
    │   ├── UnknownFormatError (LookupError)     no format of that name
    │   ├── FormatClashError                     two owners claim one name
    │   ├── PluginError (ImportError)            an installed format can't be loaded
    │   ├── MissingExtraError (ImportError)      an optional dependency is not installed
    │   ├── OptionError                          an option is unknown, missing or malformed
    │   │   └── ReadingOnlyError                     an option that is for reading, where rows are to be written
    │   ├── SchemaError                          a schema can't be read, or the format can't serve it
    │   ├── MetadataError (LookupError)          a metadata key that the format does not have
    │   └── DirectionError (NotImplementedError) the format only reads, or only writes
    ├── BatchSizeError (OverflowError)       the results of one batch don't fit one Arrow array
    ├── ContractError (TypeError)            what a format hands back is not what the contract of formats says
    ├── SchemaRegistryError (ConnectionError) a schema registry can't be asked, or answers nonsense
    ├── BrokerError (ConnectionError)        Kafka's brokers can't be asked, or refuse to answer
    └── DataError (ValueError)               a record is bad
        ├── DecodeError                          a message can't be read
        └── EncodeError                          a row can't be written

    DebeziumTypesWarning (RuntimeWarning)    a column is read as Flink does, which is not what Debezium wrote
    UncompiledKernelWarning (RuntimeWarning) much JSON is read without the compiled kernel
    KafkaSinkWarning (UserWarning)           Spark's Kafka sink will not write records as the table says
    KafkaSourceWarning (UserWarning)         Spark's Kafka source will not read records as the table says

A message says what was wrong, where, what is allowed and what to do next; the parts are attributes too.
Kernels never raise a `DataError`: they report text per message, and the caller's policy turns it into an
error (`errors="raise"`) or into data (`errors="capture"`). What kind of fault it is says an `ErrorCode`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from kvformat.registry.contract.error_codes import ErrorCode


class KvFormatError(Exception):
    """Base of all errors that the library raises on purpose.

    Attributes (None where they don't apply): `format`, `option`, `field`, `reason`.
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
    """Names, options or types that can't work; raised before any record is read."""


class UnknownFormatError(ConfigurationError, LookupError):
    """No format is registered under the name."""


class FormatClashError(ConfigurationError):
    """Two owners claim one format name."""


class PluginError(ConfigurationError, ImportError):
    """A registered format could not be loaded; the cause is chained."""


class MissingExtraError(ConfigurationError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


class OptionError(ConfigurationError):
    """An option is unknown, missing, malformed, or contradicts another."""


class ReadingOnlyError(OptionError):
    """Rows are to be written, and an option is set that is for reading only."""


class SchemaError(ConfigurationError):
    """A schema can't be read, or the format can't serve one of its types."""


class MetadataError(ConfigurationError, LookupError):
    """A metadata key that the format does not have."""


class DirectionError(ConfigurationError, NotImplementedError):
    """The format has no decoder, or no encoder."""


class BatchSizeError(KvFormatError, OverflowError):
    """The results of one batch, each of which is fine, don't fit one Arrow array: use smaller batches."""


class ContractError(KvFormatError, TypeError):
    """What a format's kernel hands back breaks the contract of formats; `reason` is the rule.

    Raised whatever the policy for bad records is: no record is at fault, and none is taken for read.
    """


class SchemaRegistryError(KvFormatError, ConnectionError):
    """A schema registry can't be asked, or answers nonsense: no fault of the records, which stay unread.

    Raised whatever the policy for bad records is, so that a task fails and can be tried again. `url` is the registry's,
    without secrets; `schema_id` or `subject` is what it was asked for.
    """

    def __init__(
        self,
        message: str,
        *,
        format: str | None = None,
        reason: str | None = None,
        url: str | None = None,
        schema_id: int | None = None,
        subject: str | None = None,
    ) -> None:
        super().__init__(message, format=format, reason=reason)
        self.url, self.schema_id, self.subject = url, schema_id, subject


class BrokerError(KvFormatError, ConnectionError):
    """Kafka's brokers can't be asked, or refuse to answer; the text names them, without secrets."""


class DataError(KvFormatError, ValueError):
    """A record is bad: `code` says what kind of fault it is, `head` holds the first bytes where there are any."""

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
    """A column gets values that Debezium did not write, as Flink reads them; the text names the option that helps."""


class UncompiledKernelWarning(RuntimeWarning):
    """Much JSON is read by the kernel's Python source, where a compiled kernel would be many times as fast."""


class KafkaSinkWarning(UserWarning):
    """Spark's own Kafka sink does not write all that `encode` gives, or not where the table says."""


class KafkaSourceWarning(UserWarning):
    """An option of the table that Spark's own Kafka source can't follow, or follows in another way than Flink."""


def retold(error: ConfigurationError, before: str, after: str = "", *, option: str | None = None) -> ConfigurationError:
    """The same error with more in its text, and with another option where that is given."""
    return type(error)(
        f"{before}{error}{after}",
        format=error.format,
        option=option or error.option,
        field=error.field,
        reason=error.reason,
    )


def too_many_bad(most: int, reason: str, code: str, *, where: str = "") -> DecodeError:
    """The error of more bad records than a table tolerates, with what is wrong with one of them."""
    return DecodeError(
        f"more than {most} bad records{where}, which 'ingestion.error-tolerance.max-count' allows; "
        f"one of them: {reason}",
        reason=reason,
        code=code,
    )


def listed(names: Iterable[str]) -> str:
    """`a, b, c` in sorted order, or `(none)`."""
    return ", ".join(sorted(names)) or "(none)"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A sentence ` Did you mean 'x'?` for a near miss, else an empty string."""
    by_fold = {known.casefold(): known for known in names}
    near = difflib.get_close_matches(name.casefold(), by_fold, n=1, cutoff=0.6)
    return f" Did you mean {by_fold[near[0]]!r}?" if near else ""
