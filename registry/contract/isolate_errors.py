"""A kernel that raises, or a batch that is too large, harms no neighbour: the batch is cut until what raises is alone.

One bad message of n costs about 2 log2(n) further calls. What an empty batch raises too is no message's fault and is
let out, as are the library's own errors of configuration, and a library that is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import DataError, KvFormatError

_R = TypeVar("_R", covariant=True)
_T = TypeVar("_T")

_SAMPLES: Final = 64
"""Messages from all over a batch that are tried alone before a kernel counts as broken for the whole batch."""
_SHOWN: Final = 300
"""Characters of an exception's text that an error quotes."""


class Run(Protocol[_R]):
    """The kernel over some of a batch: `count` messages from `start` on."""

    def __call__(self, start: int, count: int) -> _R:
        """Run the kernel over `count` messages from `start` on."""


def alone(
    run: Run[_T], count: int, *, failed: Callable[[int, str], _T], joined: Callable[[list[_T]], _T], what: str
) -> _T:
    """The result of `run(0, count)`, or of its parts where that raises.

    failed: the result of so many messages that all have an error. joined: one result of several.
    what: whose exception it is, for the error: `the decoder of format 'json'`.
    """
    try:
        return run(0, count)
    except Exception as error:
        if not count or _is_let_out(error) or _tried(run, 0, 0)[1] is not None:
            raise
        whole = (0, count, error)
    return joined(_parts(run, [whole], failed, what))


def _parts(
    run: Run[_T], broken: list[tuple[int, int, Exception]], failed: Callable[[int, str], _T], what: str
) -> list[_T]:
    """The results of all parts in their order; `broken` are parts that raised, all of the batch at first."""
    done: list[tuple[int, _T]] = []
    while broken:
        if len(broken) >= _SAMPLES and not done and all(_tried(run, start, 1)[1] for start, _, _ in broken):
            reason = f"{_reason(broken[0][2], what)}. So it did for {len(broken)} messages of the batch alone; no more"
            return [failed(sum(count for _, count, _ in broken), f"{reason} were tried")]
        halves = []
        for start, count, error in broken:
            if count == 1:
                if isinstance(error, MemoryError):
                    raise error
                done.append((start, failed(1, _reason(error, what))))
                continue
            for at, size in ((start, count // 2), (start + count // 2, count - count // 2)):
                result, raised = _tried(run, at, size)
                if raised is None:
                    done.append((at, result))
                else:
                    halves.append((at, size, raised))
        broken = halves
    return [result for _, result in sorted(done, key=lambda part: part[0])]


def _tried(run: Run[_T], start: int, count: int) -> tuple[Any, Exception | None]:
    """A result, or what was raised instead."""
    try:
        return run(start, count), None
    except Exception as error:
        if _is_let_out(error):
            raise
        return None, error


def _is_let_out(error: Exception) -> bool:
    """Whether it is about the options, the schema, the registry or the installation, not about a message."""
    return isinstance(error, ImportError) or (isinstance(error, KvFormatError) and not isinstance(error, DataError))


def _reason(error: Exception, what: str) -> str:
    if isinstance(error, DataError):
        return _proper(f"[{error.code}] {error.reason}" if error.reason else str(error))
    text = " ".join(str(error).split())
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return _proper(ErrorCode.KERNEL_FAILED.marked(f"{what} failed with {type(error).__name__}: {text}"))


def _proper(text: str) -> str:
    """The text with halves of surrogate pairs escaped, for which UTF-8 has no bytes."""
    return text.encode(errors="backslashreplace").decode()


# --- messages of any binary array --------------------------------------------------------------------------

MOST_BYTES: Final = 2**30
"""Bytes of messages that a kernel gets at once, if they are several: half of what a binary array can hold."""
_LONGEST: Final = 2**31 - 1  # bytes of one message, what the offsets of a binary array reach


def message_slices(messages: pa.Array) -> list[pa.BinaryArray | str]:
    """A binary array, or one of large_binary, as plain binary arrays of at most `MOST_BYTES`.

    A message that is longer stands alone; in the place of one that no binary array can hold is the text of its error.
    """
    if not len(messages):
        return [messages if pa.types.is_binary(messages.type) else pa.array([], pa.binary())]
    is_large = pa.types.is_large_binary(messages.type)
    width = np.int64 if is_large else np.int32
    offsets_buffer = messages.buffers()[1]
    bounds = np.frombuffer(offsets_buffer, width, len(messages) + 1, messages.offset * np.dtype(width).itemsize)
    if int(bounds[-1]) - int(bounds[0]) <= MOST_BYTES:
        return [_plain(messages, bounds, 0, len(messages)) if is_large else messages]
    slices: list[pa.BinaryArray | str] = []
    start = 0
    while start < len(messages):
        stop = int(np.searchsorted(bounds, int(bounds[start]) + MOST_BYTES, side="right")) - 1
        stop = min(max(stop, start + 1), len(messages))
        size = int(bounds[stop] - bounds[start])
        if size > _LONGEST:
            slices.append(ErrorCode.TOO_LARGE.marked(f"the message has {size} bytes, and at most {_LONGEST} are read"))
        else:
            slices.append(_plain(messages, bounds, start, stop) if is_large else messages.slice(start, stop - start))
        start = stop
    return slices


def _plain(messages: pa.LargeBinaryArray, bounds: Any, start: int, stop: int) -> pa.BinaryArray:
    """Some of the messages with offsets of 32 bits, over the same bytes."""
    offsets = (bounds[start : stop + 1] - bounds[start]).astype(np.int32)
    data = messages.buffers()[2]
    some = messages.slice(start, stop - start)
    valid = None
    if some.null_count:
        valid = pa.py_buffer(np.packbits(some.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
    size = int(bounds[stop] - bounds[start])
    data = pa.py_buffer(b"") if data is None else data.slice(int(bounds[start]), size)
    return pa.Array.from_buffers(pa.binary(), stop - start, [valid, pa.py_buffer(offsets), data])
