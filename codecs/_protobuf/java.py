"""The names that protoc gives to Java's classes of messages, by which Flink's option `message-class-name` finds them.

    package acme.orders; option java_package = "com.acme";  message Order { message Item {} }    in user-orders.proto

    com.acme.UserOrders$Order$Item                     com.acme.Order$Item with java_multiple_files = true

Rules: protoc's `java/names.cc` and the guide to Java's generated code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def java_names(file: Any) -> Iterator[tuple[str, str]]:
    """The Java name and the full name of each message of a `FileDescriptorProto`, map entries left out."""
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
    """The class around those of a file."""
    if file.options.HasField("java_outer_classname"):
        return str(file.options.java_outer_classname)
    base = file.name.rpartition("/")[2].removesuffix(".proto")
    name = _camel_case(base)
    taken = {*_declared(file), *(service.name for service in file.service)}
    return f"{name}OuterClass" if name in taken else name


def _camel_case(name: str) -> str:
    """`user-event_v2` -> `UserEventV2`: what is no letter, and a digit, makes the next letter a capital."""
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
    """The names of messages and enums, nested ones too."""
    yield from (enum.name for enum in scope.enum_type)
    for message in getattr(scope, "message_type", ()) or getattr(scope, "nested_type", ()):
        yield message.name
        yield from _declared(message)
