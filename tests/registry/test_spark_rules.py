"""Rules of columns and sessions of Spark, without a session."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from kvformat.registry.contract.errors import EncodeError
from kvformat.registry.spark.settings import allows_time
from kvformat.registry.table.encode_records import checked_kinds


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


@pytest.mark.parametrize(("kinds", "wrong"), [(["+I", "x", "-D"], "'x'"), (["+I", None], "None"), (["i"], "'i'")])
def test_the_error_of_row_kinds_names_the_first_wrong_one(kinds: list[str | None], wrong: str) -> None:
    with pytest.raises(EncodeError, match=f"must be '\\+I', '-U', '\\+U' or '-D', not {wrong}"):
        checked_kinds(pa.array(kinds, pa.string()))
