"""The order in which Java's `HashMap` iterates over texts.

Keys that share a bucket have the order of their insertion. More than eight of them become a tree, which is not
supported. Rules: `String.hashCode`, `HashMap.hash`, `HashMap.resize`, and Flink's
`CollectionUtil.newHashMapWithExpectedSize`.
"""

from __future__ import annotations

import functools
from typing import TypeVar

_Value = TypeVar("_Value")
_MOST_IN_A_BUCKET = 8
"""Entries of a bucket, of which Java's HashMap makes a tree with another order."""
_BITS = 0xFFFFFFFF


@functools.lru_cache(4096)
def hash_code(text: str) -> int:
    """Return `text.hashCode()` as an unsigned number."""
    code = 0
    data = text.encode("utf-16-le", "surrogatepass")
    for low, high in zip(data[::2], data[1::2], strict=True):
        code = (31 * code + (low | high << 8)) & _BITS
    return code


def in_hash_order(pairs: dict[str, _Value], expected_size: int) -> list[tuple[str, _Value]]:
    """Return the pairs of a map in the order of a `HashMap` that was made for an expected number of pairs.

    Raises ValueError for more than eight keys in a bucket.
    """
    if len(pairs) < 2:
        return list(pairs.items())
    buckets = 1
    least = expected_size + 1 if expected_size <= 2 else -(-4 * expected_size // 3)
    while buckets < least or len(pairs) > buckets * 3 // 4:
        buckets *= 2
    by_bucket: dict[int, list[str]] = {}
    for key in pairs:
        code = hash_code(key)
        by_bucket.setdefault((code ^ code >> 16) & (buckets - 1), []).append(key)
    if any(len(keys) > _MOST_IN_A_BUCKET for keys in by_bucket.values()):
        raise ValueError(f"more than {_MOST_IN_A_BUCKET} keys of a map share a bucket of Java's HashMap")
    return [(key, pairs[key]) for _, keys in sorted(by_bucket.items()) for key in keys]
