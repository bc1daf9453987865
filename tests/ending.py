"""Decoding while the interpreter ends, in a process of its own: `python -m tests.ending HOW`.

With `daemon`, daemon threads decode without end, and the main thread returns. With `thread`, a thread decodes after
the main thread has returned, with `atexit` a handler of `atexit` does; both print `right` where their answers are those
from before.
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
    """A format, and messages of ids that were never asked for: there are threads that ask for several at a time."""
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
            # from Python 3.12 on no thread can be started here any more: then the batch fails, and no message is bad
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
