"""The state of normalize_changes: which changes the rows of a bucket give. Spark is not started."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kvformat.registry.streams.changelog_state import _Normalizer
from tests.support.changelogs import flinks_changes, random_changes, split_by_key

_COLUMNS = ["id", "a", "b"]


class _State:
    """Spark's map from key to row, with the names of the calls that change it."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str], tuple[str]] = {}
        self.calls: list[str] = []

    def getMapState(self, *given: Any) -> _State:
        return self

    def containsKey(self, key: tuple[str]) -> bool:
        return key in self.rows

    def getValue(self, key: tuple[str]) -> tuple[str]:
        return self.rows[key]

    def updateValue(self, key: tuple[str], value: tuple[str]) -> None:
        self.calls.append("update")
        self.rows[key] = value

    def removeKey(self, key: tuple[str]) -> None:
        self.calls.append("remove")
        del self.rows[key]


class _Bucket:
    """A normalizer and its state."""

    def __init__(self, *, update_before: bool = True, kept: list[str] | None = None) -> None:
        self.state = _State()
        self._made = _Normalizer(update_before, kept)
        self._made.init(self.state)  # type: ignore[arg-type]

    def read(self, *rows: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the kind and the row of each change of a micro-batch."""
        self.state.calls.clear()
        return [(row.row_kind, row.row) for row in self._made.handleInputRows(("bucket",), iter(rows), None)]


def _row(text: str | None, kind: str, *order: Any, key: str = "k", unchanged: list[str] | None = None) -> Any:
    """A row as Spark passes it. `order` are the values that Spark sorts by: an offset, or more."""
    cells = {f"o{n}": value for n, value in enumerate((*order, kind in ("+I", "+U")))}
    return {"key": key, "row": text, "row_kind": kind, "order": cells, "unchanged": unchanged}


@pytest.mark.parametrize("update_before", [True, False])
def test_random_changes_of_several_batches_give_flinks_changes(update_before: bool) -> None:
    bucket, state, compared = _Bucket(update_before=update_before), dict[Any, Any](), 0
    rows = random_changes(5, 1200)
    for start in range(0, len(rows), 200):
        batch = rows[start : start + 200]
        given = [_row(value, kind, *place, key=str(key)) for *place, key, value, kind in batch]
        found = bucket.read(*random.Random(start).sample(given, len(given)))
        wanted = flinks_changes(state, [row[3:] for row in batch], update_before=update_before)
        by_key = split_by_key(wanted)
        in_order = [(kind, value) for key in sorted(by_key, key=str) for _, value, kind in by_key[key]]
        assert found == in_order
        assert {key: row for (key,), (row,) in bucket.state.rows.items()} == {str(k): v for k, v in state.items()}
        compared += len(found)
    print(f"{compared} changes compared")
    assert compared > 600


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((0, 2**53), (0, 2**53 + 1)),  # equal as doubles
        ((0, 9), (0, 10)),  # in another order as texts
        ((0, 10, 9), (0, 10, 10)),  # rows of one message
        ((0, 99), (1, 0)),
        ((False, 0), (True, -(2**63))),  # NULL is first
        ((1_700_000_000_123_456,), (1_700_000_000_123_457,)),
    ],
)
def test_the_row_with_the_greater_order_is_last_if_rows_arrive_in_reverse(first: Any, second: Any) -> None:
    for given in ((_row("a", "+I", *first), _row("b", "+U", *second)), (_row("a", "+I", *second),)):
        bucket = _Bucket(update_before=False)
        found = bucket.read(*given[::-1])
        assert found == [("+I", "a"), ("+U", "b")][: len(given)]
        assert bucket.state.rows == {("k",): ("b" if len(given) == 2 else "a",)}


def test_a_delete_comes_before_a_row_with_the_same_order() -> None:
    bucket = _Bucket()
    bucket.read(_row("a", "+I", 1))
    assert bucket.read(_row("b", "+U", 2), _row(None, "-D", 2)) == [("-D", "a"), ("+I", "b")]
    assert bucket.state.rows == {("k",): ("b",)}


def test_the_keys_of_a_bucket_do_not_share_a_row() -> None:
    bucket = _Bucket()
    rows = [_row("same", "+I", n, key=key) for n, key in enumerate(["b", "a", "aa", "b", "a"])]
    assert bucket.read(*rows) == [("+I", "same")] * 3
    assert bucket.read(_row(None, "-D", 9, key="a"), _row(None, "-D", 9, key="c")) == [("-D", "same")]
    assert set(bucket.state.rows) == {("b",), ("aa",)}


def test_the_old_row_of_an_update_deletes_its_key_if_the_new_row_has_another_key() -> None:
    bucket = _Bucket()
    bucket.read(_row("old", "+I", 1, key="1"))
    found = bucket.read(_row("old", "-U", 2, 0, key="1"), _row("new", "+U", 2, 1, key="2"))
    assert found == [("-D", "old"), ("+I", "new")]
    assert bucket.state.rows == {("2",): ("new",)}


def test_the_old_row_of_an_update_is_left_out_only_before_a_row_of_its_key() -> None:
    bucket = _Bucket()
    bucket.read(_row("a", "+I", 1))
    assert bucket.read(_row("?", "-U", 2), _row("b", "+U", 3)) == [("-U", "a"), ("+U", "b")]
    assert bucket.read(_row("?", "-U", 4), _row("?", "-U", 5), _row("c", "+U", 6)) == [("-D", "b"), ("+I", "c")]
    assert bucket.read(_row("?", "-U", 7), _row(None, "-D", 8)) == [("-D", "c")]
    assert bucket.read(_row("?", "-U", 9)) == []


@pytest.mark.parametrize(
    ("rows", "calls"),
    [
        ([_row("a", "+U", 2)], []),  # as before
        ([_row("b", "+U", 2), _row("a", "+U", 3)], []),  # as before after two changes
        ([_row("b", "+U", 2)], ["update"]),
        ([_row("b", "+U", 2), _row("c", "+U", 3)], ["update"]),
        ([_row(None, "-D", 2)], ["remove"]),
        ([_row("b", "+U", 2), _row(None, "-D", 3)], ["remove"]),
        ([_row(None, "-D", 2), _row("a", "+I", 3)], []),
        ([_row(None, "-D", 2), _row("b", "+I", 3)], ["update"]),
        ([_row("x", "+I", 2, key="new"), _row(None, "-D", 3, key="new")], []),
    ],
)
def test_the_state_is_written_once_for_a_key_that_changed(rows: list[Any], calls: list[str]) -> None:
    bucket = _Bucket()
    bucket.read(_row("a", "+I", 1))
    bucket.read(*rows)
    assert bucket.state.calls == calls


def test_an_unchanged_column_keeps_the_value_of_the_row_before_it() -> None:
    bucket = _Bucket(update_before=False, kept=_COLUMNS)
    missing_a = {"unchanged": ["a"]}
    assert bucket.read(
        _row('{"id":1,"a":"x","b":1}', "+I", 1),
        _row('{"id":1,"b":2}', "+U", 2, **missing_a),
        _row('{"id":1,"b":3}', "+U", 3),  # NULL is a value
        _row('{"id":1,"b":4}', "+U", 4, **missing_a),
    ) == [
        ("+I", '{"id":1,"a":"x","b":1}'),
        ("+U", '{"id":1,"a":"x","b":2}'),
        ("+U", '{"id":1,"b":3}'),
        ("+U", '{"id":1,"b":4}'),
    ]
    assert bucket.read(_row('{"id":1,"a":"y"}', "+U", 5)) == [("+U", '{"id":1,"a":"y"}')]
    next_batch = bucket.read(
        _row('{"id":1,"b":6}', "+U", 6, **missing_a),
        _row('{"id":1,"a":"z"}', "+U", 7),
        _row('{"id":1,"b":8}', "+U", 8, **missing_a),
    )
    assert [row for _, row in next_batch] == ['{"id":1,"a":"y","b":6}', '{"id":1,"a":"z"}', '{"id":1,"a":"z","b":8}']


def test_an_unchanged_column_is_null_after_a_deletion() -> None:
    bucket = _Bucket(kept=_COLUMNS)
    bucket.read(_row('{"id":1,"a":"x"}', "+I", 1))
    found = bucket.read(_row(None, "-D", 2), _row('{"id":1,"b":2}', "+U", 3, unchanged=["a"]))
    assert found == [("-D", '{"id":1,"a":"x"}'), ("+I", '{"id":1,"b":2}')]


def test_the_names_of_unchanged_columns_of_a_deletion_are_ignored() -> None:
    bucket = _Bucket(kept=_COLUMNS)
    bucket.read(_row('{"id":1,"a":"x"}', "+I", 1))
    assert bucket.read(_row('{"id":1}', "-D", 2, unchanged=["a"])) == [("-D", '{"id":1,"a":"x"}')]
    assert bucket.state.rows == {}
