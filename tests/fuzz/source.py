"""Compare the compiled kernel with the uncompiled kernel, which runs in another process."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from kvformat.codecs import KERNEL
from tests.fuzz.cases import FOLDER_VARIABLE, case, registries
from tests.fuzz.properties import Batch

EVERY = 8
"""Number of batches per batch that the uncompiled kernel also reads, because it is many times slower."""


class Source:
    """The other process. It creates cases by their names."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def __call__(self, batch: Batch) -> None:
        """Messages have the same results with both kernels."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((batch.case.name, batch.messages), self._process.stdin)
        self._process.stdin.flush()
        assert pickle.load(self._process.stdout) == batch.answers


@contextlib.contextmanager
def source() -> Iterator[Source | None]:
    """Return the property that both kernels give the same results, or None if the kernel is not compiled."""
    if KERNEL != "compiled":
        yield None
        return
    command = [sys.executable, "-m", "tests.fuzz.source"]
    environment = {**os.environ, "KVFORMAT_KERNEL": "python", FOLDER_VARIABLE: str(registries())}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        try:
            yield Source(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def main() -> None:
    """Decode requested batches until the input ends."""
    assert KERNEL == "python"
    while True:
        try:
            name, messages = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer: Any
        try:
            answer = Batch(case(name), messages).answers
        except Exception as error:
            answer = repr(error)
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
