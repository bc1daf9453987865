"""Caches of values that are derived from a schema, by the schema's identity, with many threads."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import sys
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from kvformat.registry import KeyValueFormat, get_format
from kvformat.registry.contract import cache
from kvformat.registry.contract.cache import cached_by_identity


class _Thing:
    """A value that is compared by identity."""


@pytest.fixture
def impatient() -> Iterator[None]:
    """Make the interpreter switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def _together(count: int, work: Callable[[], None]) -> list[BaseException]:
    """Call a function in many threads. Returns the errors."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_threads_can_fill_a_cache_beyond_its_bound(impatient: None) -> None:
    @cached_by_identity
    def derived(thing: _Thing, more: int) -> tuple[_Thing, int]:
        return thing, more

    def work() -> None:
        things = [_Thing() for _ in range(3 * cache._BOUND)]
        for _ in range(10):
            for place, thing in enumerate(things):
                assert derived(thing, place) == (thing, place)

    assert _together(8, work) == []


def test_cached_values_are_not_computed_again() -> None:
    calls = []

    @cached_by_identity
    def derived(thing: _Thing, more: int) -> int:
        calls.append(more)
        return more

    thing = _Thing()
    assert [derived(thing, 1), derived(thing, 2), derived(thing, 1), derived(_Thing(), 1)] == [1, 2, 1, 1]
    assert calls == [1, 2, 1]


def test_arguments_by_name_have_results_of_their_own() -> None:
    calls = []

    @cached_by_identity
    def derived(thing: _Thing, *args: int, a: int = 0, b: int = 0) -> tuple[int, ...]:
        calls.append((*args, a, b))
        return (*args, a, b)

    thing = _Thing()
    for _ in range(2):
        assert derived(thing) == (0, 0)
        assert derived(thing, a=1) == (1, 0)
        assert derived(thing, b=1) == (0, 1)
        assert derived(thing, 1) == (1, 0, 0)
        assert derived(thing, a=1, b=2) == derived(thing, b=2, a=1) == (1, 2)
    assert len(calls) == 5


def test_the_oldest_entries_are_removed_first() -> None:
    calls = []

    @cached_by_identity
    def derived(thing: _Thing) -> _Thing:
        calls.append(thing)
        return thing

    things = [_Thing() for _ in range(cache._BOUND + 1)]
    for thing in (*things, things[-1], things[1], things[0]):
        assert derived(thing) is thing
    assert calls == [*things, things[0]]


def test_a_format_serves_threads(impatient: None) -> None:
    fmt = get_format("csv")
    messages = pa.array([b"1,a", b"2,b"])

    def work() -> None:
        for place in range(100):
            schema = pa.schema([(f"a{place}", pa.int64()), ("b", pa.string())])
            rows = fmt.decode_batch(messages, schema).rows.to_pylist()
            assert rows == [[{f"a{place}": 1, "b": "a"}], [{f"a{place}": 2, "b": "b"}]]

    assert _together(8, work) == []


def _derive_in_child(results: multiprocessing.SimpleQueue[int]) -> None:
    @cached_by_identity
    def derived(thing: _Thing) -> int:
        return 1

    results.put(derived(_Thing()))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # this is the tested case
def test_a_child_does_not_wait_for_a_thread_of_the_parent() -> None:
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    with cache._store_lock.use():
        child = context.Process(target=_derive_in_child, args=(results,))
        child.start()
        child.join(60)
        alive = child.is_alive()
        child.kill()
    assert not alive
    assert results.get() == 1


def test_an_unpickled_schema_shares_the_result_of_an_equal_schema() -> None:
    made = []

    @cached_by_identity
    def derived(schema: pa.Schema, more: int) -> object:
        made.append(more)
        return object()

    schema = pa.schema([pa.field("ts", pa.timestamp("us"), metadata={"kvformat.type": "TIMESTAMP(3)"})])
    first = derived(schema, 1)
    for _ in range(2 * cache._BOUND):
        assert derived(pickle.loads(pickle.dumps(schema)), 1) is first
    assert derived(pickle.loads(pickle.dumps(schema)), 2) is not first
    other = pa.schema([pa.field("ts", pa.timestamp("us"), metadata={"kvformat.type": "TIMESTAMP(6)"})])
    assert derived(other, 1) is not first
    assert made == [1, 2, 1]


@pytest.mark.parametrize("format", ["json", "debezium-json", "csv", "avro"])
def test_the_tables_of_all_tasks_share_their_readers(format: str) -> None:
    kv = pickle.dumps(KeyValueFormat("id INT, name STRING", {"format": format}))

    def readers() -> int:
        """Return the number of live objects of kvformat. Each table has some."""
        gc.collect()
        return sum(str(type(one).__module__).startswith("kvformat.codecs.") for one in gc.get_objects())

    for _ in range(2):
        pickle.loads(kv).decode_batch(None, pa.array([b"1,a"]))
    before = readers()
    for _ in range(20):
        pickle.loads(kv).decode_batch(None, pa.array([b"1,a"]))
    assert readers() - before < 10
