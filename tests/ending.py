"""Decode during interpreter shutdown: `python -m tests.ending HOW`.

daemon: daemon threads decode in an endless loop, and the main thread returns.
thread: a thread decodes after the main thread has returned.
atexit: a handler of `atexit` decodes.

`thread` and `atexit` print `right` if the results equal the results before the shutdown.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import tempfile
import threading
import time

import pyarrow as pa

from kvformat.registry import Format, get_format
from tests import forks
from tests.support.decoding import answers
from tests.support.registry_server import Registry, RegistryServer

IDS = 12
RECORD = '{"type":"record","name":"r","fields":[{"name":"i","type":"int"}]}'


_open = contextlib.ExitStack()


def registered(server: Registry, first: int) -> tuple[Format, pa.Array]:
    """Return a format and messages with schema ids that are not cached. The format requests several ids in threads."""
    ids = range(first, first + IDS)
    server.ids |= dict.fromkeys(ids, RECORD)
    return get_format("avro-confluent", {"url": server.url}), pa.array([b"\0\0\0\0" + bytes([i, 14]) for i in ids])


def main(how: str) -> None:
    reads = forks.kinds(tempfile.mkdtemp())
    expected = {kind: read() for kind, read in reads.items()}
    if how == "daemon":

        def decode() -> None:
            while True:
                for read in reads.values():
                    read()

        for _ in range(forks.THREADS):
            threading.Thread(target=decode, daemon=True).start()
        time.sleep(0.3)
        return
    server = RegistryServer()
    format, messages = registered(_open.enter_context(server.serving()), 1)

    def late() -> None:
        other = [kind for kind, read in reads.items() if read() != expected[kind]]
        try:
            rows = answers(format.decode_batch(messages, "i INT"))
            other += ["new ids"] if [answer.error for answer in rows] != [None] * IDS else []
        except Exception as error:
            # Python 3.12 and later cannot start threads here: the batch fails instead of its messages
            if sys.version_info < (3, 12) or "can't create new thread" not in str(error):
                raise
        print(f"other answers: {other}" if other else "right", flush=True)

    def waiting() -> None:
        threading.main_thread().join()
        late()

    if how == "thread":
        threading.Thread(target=waiting).start()
    else:
        atexit.register(late)


if __name__ == "__main__":
    main(sys.argv[1])
