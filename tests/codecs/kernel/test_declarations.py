"""Declarations of the kernel's methods. Compiled methods that no `.pxd` declares are slow, without a warning."""

from __future__ import annotations

import ast
import re
from pathlib import Path

_KERNEL = Path(__file__).parents[3] / "codecs" / "_kernel"
_CLASS = re.compile(r"cdef class (\w+)(?:\((\w+)\))?:\n((?:(?:    .*)?\n)*)")
_METHOD = re.compile(r"(\w+)\(self\b")
_SLOW = {
    "arrays": "once per batch",
    "buffers": "once per batch",
    "errors": "once per batch",
    "explain": "once per batch",
    "fill": "once per schema",
    "forget": "once per batch",
    "finish": "once per batch",
    "lists": "once per batch",
    "open_message": "takes a single message from Python",
    "read_batch": "called from Python",
    "to_bytes": "called from Python",
    "validity": "once per batch",
}
"""Methods that only Python calls, or the kernel once per batch, and why."""


def _declared() -> dict[str, tuple[str, set[str]]]:
    """Return the base and the declared methods of each class."""
    found = {}
    for file in _KERNEL.glob("*.pxd"):
        for name, base, body in _CLASS.findall(file.read_text(encoding="utf-8")):
            found[name] = (base, set(_METHOD.findall(body)))
    return found


def test_compiled_classes_declare_their_methods() -> None:
    """A method needs a declaration in its class or in a base class, or a reason why it may be slow."""
    declared = _declared()
    slow: dict[str, list[str]] = {}
    for file in _KERNEL.glob("*.pxd"):
        source = file.with_suffix(".py").read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            if not isinstance(node, ast.ClassDef) or node.name not in declared:
                continue
            known: set[str] = set()
            name = node.name
            while name:
                name, methods = declared[name]
                known |= methods
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name not in known and method.name != "__init__":
                    slow.setdefault(method.name, []).append(f"{file.stem}.{node.name}")
    undeclared = {name: classes for name, classes in slow.items() if name not in _SLOW}
    assert not undeclared, "declare these methods in the .pxd, or say in _SLOW why they may be slow"
    assert not set(_SLOW) - set(slow), "these methods are declared: take them out of _SLOW"
