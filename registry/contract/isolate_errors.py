"""Limit an exception of a kernel to the messages that cause it, and split batches that are too large.

A batch for which the kernel raises is split in half until the messages that raise are found. One bad message of n costs
about 2 log2(n) further calls. Exceptions that an empty batch also raises are not caused by a message and are raised to
the caller. So are the library's own configuration errors and import errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.errors import DataError, KvFormatError

_R = TypeVar("_R", covariant=True)
_T = TypeVar("_T")

_SAMPLES: Final = 64
"""Messages of a batch that are tried one by one before the whole batch gets the kernel's error."""
_SHOWN: Final = 300
"""Characters of an exception's text that an error quotes."""


class Run(Protocol[_R]):
    """Runs a kernel over a part of a batch."""

    def __call__(self, start: int, count: int) -> _R:
        """Return the result for the `count` messages from index `start` on."""


def isolate_errors(
    run: Run[_T], count: int, *, failed: Callable[[int, Reason], _T], join: Callable[[list[_T]], _T], what: str
) -> _T:
    """Return `run(0, count)`; if that raises, the joined results of smaller parts.

    failed: returns the result of a number of messages that all have the same error.
    join: joins the results of consecutive parts.
    what: the kernel, for the text of the error: `the decoder of format 'json'`.
    """
    try:
        return run(0, count)
    except Exception as error:
        if not count or _is_for_caller(error, count) or _try(run, 0, 0)[1] is not None:
            raise
        whole = (0, count, error)
    return join(_run_parts(run, [whole], failed, what))


def _run_parts(
    run: Run[_T], broken: list[tuple[int, int, Exception]], failed: Callable[[int, Reason], _T], what: str
) -> list[_T]:
    """Return the results of all parts in order. `broken` has the parts that raised: at first the whole batch."""
    done: list[tuple[int, _T]] = []
    while broken:
        if len(broken) >= _SAMPLES and not done and all(_try(run, start, 1)[1] for start, _, _ in broken):
            first = _reason_of(broken[0][2], what)
            others = f"It also failed for {len(broken)} single messages of the batch; the others were not tried"
            return [failed(sum(count for _, count, _ in broken), Reason(first.code, f"{first.text}. {others}"))]
        halves = []
        for start, count, error in broken:
            if count == 1:
                done.append((start, failed(1, _reason_of(error, what))))
                continue
            for at, size in ((start, count // 2), (start + count // 2, count - count // 2)):
                result, raised = _try(run, at, size)
                if raised is None:
                    done.append((at, result))
                else:
                    halves.append((at, size, raised))
        broken = halves
    return [result for _, result in sorted(done, key=lambda part: part[0])]


def _try(run: Run[_T], start: int, count: int) -> tuple[Any, Exception | None]:
    """Return the result and None, or None and the exception."""
    try:
        return run(start, count), None
    except Exception as error:
        if _is_for_caller(error, count):
            raise
        return None, error


def _is_for_caller(error: Exception, count: int) -> bool:
    """Return whether an error concerns the options, the schema, the registry or the installation, not the messages.

    Memory that does not suffice for a single message is short for other reasons: a repeated task may have more.
    """
    if isinstance(error, MemoryError):
        return count <= 1
    return isinstance(error, ImportError) or (isinstance(error, KvFormatError) and not isinstance(error, DataError))


def _reason_of(error: Exception, what: str) -> Reason:
    """Return the error of the messages for which `what` raised an exception."""
    if isinstance(error, DataError):
        code = ErrorCode.__members__.get(error.code, ErrorCode.BAD_RECORD)
        return Reason(code, error.reason or str(error).removeprefix(code.mark))
    text = " ".join(str(error).split())
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return Reason(ErrorCode.KERNEL_FAILED, f"{what} failed with {type(error).__name__}: {text}")


# --- slices of large arrays --------------------------------------------------------------------------------

MOST_BYTES: Final = 2**30
"""Most bytes in a batch of several messages that is passed to a kernel: half the capacity of a binary array."""
_LONGEST: Final = 2**31 - 1  # bytes of one message: the largest offset of a binary array


def message_slices(messages: pa.Array) -> list[pa.BinaryArray | Reason]:
    """Split a binary or large_binary array into binary arrays of at most `MOST_BYTES`.

    A longer message is a slice of its own. A message that does not fit a binary array is replaced by its error.
    """
    if not len(messages):
        return [messages if pa.types.is_binary(messages.type) else pa.array([], pa.binary())]
    is_large = pa.types.is_large_binary(messages.type)
    width = np.int64 if is_large else np.int32
    offsets_buffer = messages.buffers()[1]
    bounds = np.frombuffer(offsets_buffer, width, len(messages) + 1, messages.offset * np.dtype(width).itemsize)
    if int(bounds[-1]) - int(bounds[0]) <= MOST_BYTES:
        return [_with_32_bit_offsets(messages, bounds, 0, len(messages)) if is_large else messages]
    slices: list[pa.BinaryArray | Reason] = []
    start = 0
    while start < len(messages):
        stop = int(np.searchsorted(bounds, int(bounds[start]) + MOST_BYTES, side="right")) - 1
        stop = min(max(stop, start + 1), len(messages))
        size = int(bounds[stop] - bounds[start])
        if size > _LONGEST:
            slices.append(Reason(ErrorCode.TOO_LARGE, f"the message has {size} bytes, the limit is {_LONGEST} bytes"))
        else:
            slices.append(
                _with_32_bit_offsets(messages, bounds, start, stop) if is_large else messages.slice(start, stop - start)
            )
        start = stop
    return slices


def _with_32_bit_offsets(messages: pa.LargeBinaryArray, bounds: Any, start: int, stop: int) -> pa.BinaryArray:
    """Return the messages from `start` to before `stop` as a binary array over the same memory."""
    offsets = (bounds[start : stop + 1] - bounds[start]).astype(np.int32)
    data = messages.buffers()[2]
    some = messages.slice(start, stop - start)
    valid = None
    if some.null_count:
        valid = pa.py_buffer(np.packbits(some.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
    size = int(bounds[stop] - bounds[start])
    data = pa.py_buffer(b"") if data is None else data.slice(int(bounds[start]), size)
    return pa.Array.from_buffers(pa.binary(), stop - start, [valid, pa.py_buffer(offsets), data])
