"""Decode a message with an installed wheel and a compiled kernel, for cibuildwheel and scripts/wheel."""

from __future__ import annotations

from codecs import KERNEL, get_format  # type: ignore[attr-defined]

import pyarrow as pa

assert KERNEL == "compiled", KERNEL
batch = get_format("json").decode_batch(pa.array([b'{"id":1,"name":"Ada"}']), "id INT, name STRING")
assert batch.rows.to_pylist() == [[{"id": 1, "name": "Ada"}]], batch
print("the kernel is compiled and reads")
