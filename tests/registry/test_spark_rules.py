"""Rules of columns and sessions of Spark, without a session."""

from __future__ import annotations

import itertools
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import types as T

from kvformat.registry import get_format
from kvformat.registry.contract.errors import ConfigurationError, EncodeError, SchemaError
from kvformat.registry.spark.columns import _decode_error, _single_rows
from kvformat.registry.spark.decoded_columns import check_errors_split
from kvformat.registry.spark.sessions import _is_this
from kvformat.registry.spark.settings import allows_time, recommended_settings
from kvformat.registry.spark.workers import spark_version
from kvformat.registry.streams.change_columns import key_columns, order_columns
from kvformat.registry.streams.changes import _check_columns
from kvformat.registry.table.encode_records import checked_kinds
from kvformat.registry.table.record_decoder import _quoted_bytes


class _Session:
    """A session whose setting for TIME is given, or unknown for None."""

    def __init__(self, value: str | None) -> None:
        self._value = value

    @property
    def conf(self) -> Any:
        return self

    def get(self, name: str) -> str:
        if self._value is None:
            raise PySparkException(f"no setting {name}")
        return self._value


@pytest.mark.parametrize(
    ("value", "allowed"), [("true", True), ("FALSE", False), ("false", False), ("", True), (None, True)]
)
def test_time_is_allowed_unless_the_setting_is_false(value: str | None, allowed: bool) -> None:
    assert allows_time(_Session(value)) is allowed  # type: ignore[arg-type]


def test_a_version_that_a_session_does_not_tell_is_that_of_pyspark() -> None:
    class Pipeline:
        @property
        def version(self) -> str:
            raise PySparkException("not in the functions of a pipeline")

    sessions: list[Any] = [SimpleNamespace(version="4.9.1"), None, Pipeline()]
    assert [spark_version(session) for session in sessions] == ["4.9.1", pyspark.__version__, pyspark.__version__]


def test_a_message_with_two_rows_does_not_shift_those_of_others() -> None:
    """Another message has no row, so that there are as many rows as messages."""
    answers = {
        b'[{"i":1},{"i":2}]': (None, "the message holds 2 rows: use decode_rows"),
        b"": (None, None),
        b'{"i":3}': ({"i": 3}, None),
    }
    for messages in itertools.permutations(answers):
        rows, errors, _ = _single_rows(get_format("json").decode_batch(pa.array(messages), "i INT"))
        assert errors is not None
        assert list(zip(rows.to_pylist(), errors.to_pylist(), strict=True)) == [answers[one] for one in messages]


@pytest.mark.parametrize(("kinds", "wrong"), [(["+I", "x", "-D"], "'x'"), (["+I", None], "None"), (["i"], "'i'")])
def test_the_error_of_row_kinds_names_the_first_wrong_one(kinds: list[str | None], wrong: str) -> None:
    with pytest.raises(EncodeError, match=f"must be '\\+I', '-U', '\\+U' or '-D', not {wrong}"):
        checked_kinds(pa.array(kinds, pa.string()))


def test_recommended_sizes_of_batches_are_what_spark_can_parse() -> None:
    name = "spark.sql.execution.arrow.maxBytesPerBatch"
    assert (recommended_settings()[name], recommended_settings("encode")[name]) == ("2097152", "2147483647")


def test_only_the_drivers_own_python_is_known_to_have_the_library(tmp_path: Path) -> None:
    link = tmp_path / "python"
    link.symlink_to(Path(sys.executable).resolve())
    pythons = {sys.executable: True, str(link): False, str(tmp_path / "missing"): False, "/bin/sh": False}
    assert {python: _is_this(python) for python in pythons} == pythons


@pytest.mark.parametrize(
    ("length", "more"), [(0, ""), (100, ""), (101, " and 1 more bytes"), (250, " and 150 more bytes")]
)
def test_an_error_quotes_a_hundred_bytes_of_a_record(length: int, more: str) -> None:
    data = b"x" * length
    quoted = f"{data[:100]!r}{more}"
    assert _quoted_bytes(data) == quoted
    error = _decode_error(get_format("json"), "why", data, "MALFORMED")
    assert f": why. The message: {quoted}. To keep bad messages as data" in str(error)
    assert (error.head, error.format, error.code) == (data[:100], "json", "MALFORMED")
    assert _quoted_bytes(None) == "null"


def test_only_captured_bad_records_must_be_split_off() -> None:
    """Another column `error` is data."""
    types = {"a": T.StringType(), "b": T.StructType([T.StructField("code", T.IntegerType())])}
    types["c"] = T.StructType([T.StructField("part", T.StringType()), T.StructField("reason", T.StringType())])
    for name, type_ in types.items():
        frame: Any = SimpleNamespace(columns=["error"], schema=T.StructType([T.StructField("error", type_)]))
        with pytest.raises(ConfigurationError, match="holds bad records too") if name == "c" else nullcontext():
            check_errors_split(frame)


def test_changes_need_a_key_an_order_and_columns() -> None:
    frame: Any = SimpleNamespace(columns=["id"])
    with pytest.raises(ConfigurationError, match="name at least one key column"):
        key_columns(frame, [])
    with pytest.raises(ConfigurationError, match="name at least one column to sort the changes by"):
        order_columns(frame, [])
    with pytest.raises(SchemaError, match="the table would have no columns"):
        _check_columns(frame, [])
