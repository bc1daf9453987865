"""Fork while threads decode: `python -m tests.forks FORKS`. Prints the number of forks, or what went wrong.

Threads use every kind of reader in endless loops. The main thread forks, and the child decodes with every kind of
reader. Its results must equal the parent's. The first fork happens while a thread holds all locks of the library.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from kvformat.registry import Format, get_format
from kvformat.registry.contract.fork_safe import _guarded
from tests.fuzz import cases
from tests.support.decoding import Answer, answers
from tests.support.protobuf_types import a_format, fields

SECONDS = 60.0
"""Maximum time of a child on a busy machine, in seconds. It usually takes far less than one second."""
THREADS = 4
CHANGED = b'{"before":{"id":1,"name":"a"},"after":{"id":1},"op":"u","before_":0}'
Read = Callable[[], list[Answer]]


def _of_case(name: str) -> Read:
    case = cases.case(name)
    arrays = case.arrays(case.known * 5)
    return lambda: answers(case.decode(arrays))


def _of_format(format: Format, schema: str, messages: list[bytes | None]) -> Read:
    array = pa.array(messages, pa.binary())
    return lambda: answers(format.decode_batch(array, schema))


def kinds(folder: str) -> dict[str, Read]:
    """Return a decode function for every format and for readers that need certain options, by name."""
    recorded = [name for name in cases.FORMATS if name not in ("raw", "avro", *cases.WITHOUT_FLINK)]
    found = {format: _of_case(f"{format}/vectors/1") for format in recorded}
    made = ("raw", "avro", "csv", "json", *cases.WITHOUT_FLINK)
    found |= {f"{format} rows": _of_case(f"{format}/rows/1") for format in made}
    found |= {f"{format} schemas": _of_case(f"{format}/schemas/4") for format in cases.schemas.FORMATS}
    found["a table"] = _of_case("key-value/rows/3")
    file = f'name: "a.proto" syntax: "proto3" message_type {{ name: "M" {fields("int32 a = 1; string b = 2;")} }}'
    protobuf = a_format(folder, "M", file)
    found["protobuf"] = _of_format(protobuf, "a INT, b STRING", [b"\x08\x07\x12\x01x", b"\x08"] * 200)
    unchanged = get_format("debezium-json", {"changelog.mode": "upsert", "unchanged.columns": "keep"})
    found["presences"] = _of_format(unchanged, "id INT, name STRING", [CHANGED, b"{}"] * 200)
    canal = get_format("canal-json", {"unchanged.columns": "keep", "changelog.mode": "upsert"})
    several = b'{"data":[{"id":"1"},{"id":"2"}],"old":[{"id":"3"},{}],"type":"UPDATE"}'
    found["presences of several rows"] = _of_format(canal, "id INT, name STRING", [several, b"{}"] * 200)
    typed = get_format("debezium-json", {"types": "debezium", "time.precision.mode": "connect"})
    found["types by options"] = _of_format(typed, "id INT, d DATE", [CHANGED.replace(b'"a"', b"1")] * 200)
    return found


def _child(reads: dict[str, Read], expected: dict[str, list[Answer]]) -> None:
    """Decode with every kind of reader, and exit the process."""
    code = 1
    try:
        wrong = [kind for kind, read in reads.items() if read() != expected[kind]]
        code = 2 if wrong else 0
        if wrong:
            print("other answers in the child:", wrong, flush=True)
    finally:
        os._exit(code)


def _forked(reads: dict[str, Read], expected: dict[str, list[Answer]]) -> str | None:
    """Fork once and wait for the child. Returns what went wrong, or None."""
    pid = os.fork()
    if pid == 0:
        _child(reads, expected)
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return None if status == 0 else f"the child ended with {os.waitstatus_to_exitcode(status)}"
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return f"the child hung for {SECONDS:g} s"


def _with_all_locks_held(work: Callable[[], Any]) -> Any:
    """Call `work` while another thread holds every lock of the library. Returns its result."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with contextlib.ExitStack() as stack:
            for guarded in list(_guarded):
                stack.enter_context(guarded.use())
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        return work()
    finally:
        done.set()
        thread.join()


def main(forks: int) -> str:
    """Fork this many times. Returns a summary, or the first problem."""
    with tempfile.TemporaryDirectory() as folder:
        reads = kinds(folder)
        expected = {kind: read() for kind, read in reads.items()}
        wrong = _with_all_locks_held(lambda: _forked(reads, expected))
        if wrong:
            return f"with all locks held, {wrong}"
        over = threading.Event()

        def decode(number: int) -> None:
            while not over.is_set():
                for kind in list(reads)[number:] + list(reads)[:number]:
                    reads[kind]()

        threads = [threading.Thread(target=decode, args=(3 * number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        try:
            for number in range(forks):
                wrong = _forked(reads, expected)
                if wrong:
                    return f"fork {number}: {wrong}"
        finally:
            over.set()
            for thread in threads:
                thread.join()
        left = False
        with contextlib.suppress(ChildProcessError):
            left = os.waitpid(-1, os.WNOHANG) is not None
        after = [kind for kind, read in reads.items() if read() != expected[kind]]
        if left or after:
            return f"a child is left: {left}; other answers in the parent: {after}"
        return f"{forks} forks, {len(reads)} kinds of readers, {len(list(_guarded))} locks"


if __name__ == "__main__":
    print(main(int(sys.argv[1])))
