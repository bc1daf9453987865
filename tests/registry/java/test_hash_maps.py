"""The order of Java's `HashMap`."""

from __future__ import annotations

import pytest

from kvformat.registry.java.hash_maps import hash_code, in_hash_order


def test_hash_codes_are_of_utf16() -> None:
    assert hash_code("hello") == 99162322
    assert hash_code("😀") == 1772899
    assert hash_code("Aa") == hash_code("BB")


def test_keys_of_a_bucket_keep_their_order() -> None:
    assert in_hash_order({"BB": 1, "Aa": 2}, 2) == [("BB", 1), ("Aa", 2)]
    assert in_hash_order({"b": 1, "a": 2}, 2) == [("a", 2), ("b", 1)]


def test_more_than_eight_keys_in_a_bucket_are_refused() -> None:
    keys = [a + b + c + d for a in ("Aa", "BB") for b in ("Aa", "BB") for c in ("Aa", "BB") for d in ("Aa", "BB")]
    in_hash_order(dict.fromkeys(keys[:8]), 8)
    with pytest.raises(ValueError, match="bucket"):
        in_hash_order(dict.fromkeys(keys[:9]), 9)
