"""Errors of batches begin with their cause."""

from __future__ import annotations

import logging
import pickle
import traceback
from typing import Any

import pytest

from kvformat.registry import ConfigurationError
from kvformat.registry.streams.foreach_batch import CauseFirst, own_reason, reason_of

_OF_A_WORKER = """Job aborted: Traceback (most recent call last):
  File "worker.py", line 1, in main
kvformat.registry.contract.errors.DecodeError: json: field 'id': cannot read "x" as INT
    at org.apache.spark.api.python.BasePythonRunner"""
_OF_A_BATCH = (
    "[FOREACH_BATCH_USER_FUNCTION_ERROR] x\n  File y\npyspark.errors: kvformat.registry.errors.SchemaError: no 'id'"
)


def _fails(rows: Any, batch_id: int) -> None:
    try:
        raise ValueError("a cause with a long text")
    except ValueError as cause:
        raise ConfigurationError("the table has no key") from cause


def test_an_error_of_the_library_has_no_causes_and_is_logged_in_a_line(caplog: pytest.LogCaptureFixture) -> None:
    batch = pickle.loads(pickle.dumps(CauseFirst(_fails)))  # for Spark Connect
    with caplog.at_level(logging.DEBUG, "kvformat.batches"), pytest.raises(ConfigurationError) as raised:
        batch(None, 7)
    text = "".join(traceback.format_exception(raised.value))
    assert "a cause with a long text" not in text
    assert "_fails" not in text
    error, debug = caplog.records
    assert (error.levelname, error.getMessage()) == ("ERROR", "batch 7 failed: the table has no key")
    assert debug.exc_info is not None
    assert "a cause with a long text" in caplog.text


def test_another_error_passes_with_its_causes(caplog: pytest.LogCaptureFixture) -> None:
    def fails(rows: Any, batch_id: int) -> None:
        raise OSError("disk full\nand more")

    with pytest.raises(OSError, match="disk full") as raised:
        CauseFirst(fails)(None, 0)
    assert raised.traceback[-1].name == "fails"
    assert caplog.messages == ["batch 0 failed: OSError: disk full"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (_OF_A_WORKER, "json: field 'id': cannot read \"x\" as INT"),
        (_OF_A_BATCH, "no 'id'"),
        (f"{_OF_A_WORKER}\n{_OF_A_BATCH}", "no 'id'"),  # the last one is what the batch raised, because of the first
        ("Lost executor\nmore", None),
    ],
)
def test_the_reason_is_found_in_the_text_of_spark(text: str, reason: str | None) -> None:
    assert own_reason(RuntimeError(text)) == reason
    assert reason_of(RuntimeError(text)) == (reason or "RuntimeError: Lost executor")


@pytest.mark.parametrize(("length", "shown"), [(500, 500), (501, 500)])
def test_of_another_error_500_characters_are_shown(length: int, shown: int) -> None:
    assert reason_of(RuntimeError("x" * length)) == f"RuntimeError: {'x' * shown}"
