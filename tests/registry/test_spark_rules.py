"""Rules of columns and sessions of Spark, without a session."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from kvformat.registry import get_format
from kvformat.registry.contract.errors import EncodeError
from kvformat.registry.spark.columns import _single_rows
from kvformat.registry.spark.sessions import _is_this
from kvformat.registry.spark.settings import allows_time, recommended_settings
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
    assert _quoted_bytes(b"x" * length) == f"{b'x' * min(length, 100)!r}{more}"
    assert _quoted_bytes(None) == "null"
