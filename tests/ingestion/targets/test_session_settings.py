"""Settings of a session for statements of several threads."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from kvformat.ingestion.targets.session_settings import shared_settings


class _Conf(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        del self[name]


def test_statements_with_equal_settings_run_together_and_others_wait() -> None:
    spark: Any = SimpleNamespace(conf=_Conf())
    together, entered, done = threading.Barrier(3), threading.Event(), threading.Event()
    seen: list[dict[str, str]] = []

    def run(position: str, *, waits: bool) -> None:
        with shared_settings(spark, "q", {"position": position}):
            entered.set()
            if waits:
                together.wait(30)
            seen.append(dict(spark.conf))
        if not waits:
            done.set()

    same = [threading.Thread(target=run, args=("1",), kwargs={"waits": True}) for _ in range(2)]
    other = threading.Thread(target=run, args=("2",), kwargs={"waits": False})
    for thread in same:
        thread.start()
    assert entered.wait(30)
    other.start()
    assert not done.wait(0.2)
    with shared_settings(spark, "another", {}):  # another query does not wait
        together.wait(30)
    for thread in (*same, other):
        thread.join(30)
    assert seen == [{"position": "1"}, {"position": "1"}, {"position": "2"}]
    assert spark.conf == {}


def test_settings_are_removed_after_an_error() -> None:
    spark: Any = SimpleNamespace(conf=_Conf())
    for position in ("1", "2"):
        try:
            with shared_settings(spark, "q", {"position": position}):
                raise RuntimeError
        except RuntimeError:
            pass
    assert spark.conf == {}


def test_settings_of_the_user_are_back_afterwards() -> None:
    theirs = {"txnVersion": "7", "x.commitInfo.userMetadata": "nightly job"}
    spark: Any = SimpleNamespace(conf=_Conf(theirs))
    ours = {"txnVersion": "1", "x.commitInfo.userMetadata": "kvformat q 1", "position": "1"}
    for _ in range(2):
        with shared_settings(spark, "q", ours):
            during = dict(spark.conf)
        assert during == {**ours, "x.commitInfo.userMetadata": "nightly job kvformat q 1"}
        assert spark.conf == theirs
