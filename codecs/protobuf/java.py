"""The names of the Java classes that protoc generates. Flink's option `message-class-name` contains such a name.

    package acme.orders; option java_package = "com.acme";  message Order { message Item {} }    in user-orders.proto

    com.acme.UserOrders$Order$Item                     com.acme.Order$Item with java_multiple_files = true

Rules: protoc's `java/names.cc` and the guide to Java's generated code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def java_names(file: Any) -> Iterator[tuple[str, str]]:
    """Yield the Java name and the full name of each message of a `FileDescriptorProto`, except map entries."""
    package = file.options.java_package if file.options.HasField("java_package") else file.package
    start = f"{package}." if package else ""
    if not file.options.java_multiple_files:
        start += f"{_outer_class(file)}$"
    within = f"{file.package}." if file.package else ""
    for message in file.message_type:
        yield from _names(message, start, within)


def _names(message: Any, java: str, full: str) -> Iterator[tuple[str, str]]:
    if not message.options.map_entry:
        yield java + message.name, full + message.name
        for nested in message.nested_type:
            yield from _names(nested, f"{java}{message.name}$", f"{full}{message.name}.")


def _outer_class(file: Any) -> str:
    """Return the name of the class that contains the classes of a file."""
    if file.options.HasField("java_outer_classname"):
        return str(file.options.java_outer_classname)
    base = file.name.rpartition("/")[2].removesuffix(".proto")
    name = _camel_case(base)
    taken = {*_declared(file), *(service.name for service in file.service)}
    return f"{name}OuterClass" if name in taken else name


def _camel_case(name: str) -> str:
    """Convert `user-event_v2` to `UserEventV2`. A letter after any other character becomes a capital."""
    said, capital = "", True
    for c in name:
        if c.isascii() and c.isalpha():
            said += c.upper() if capital else c
            capital = False
        else:
            said += c if c.isascii() and c.isdigit() else ""
            capital = True
    return said


def _declared(scope: Any) -> Iterator[str]:
    """Yield the names of all messages and enums, including nested ones."""
    yield from (enum.name for enum in scope.enum_type)
    for message in getattr(scope, "message_type", ()) or getattr(scope, "nested_type", ()):
        yield message.name
        yield from _declared(message)
