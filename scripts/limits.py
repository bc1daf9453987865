"""The limits on input from outside: what is limited, to how much, why, and by which constant.

The constants stay in the modules that use them. `limits_table` reads them for the documentation, so each number is
written once.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

_KIB = 1 << 10
_GB_OF_OFFSETS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit, as a row of the table.

    what: the thing that is limited. most: the limit in words, with a `{}` for each constant. unit: formats a number.
    why: the reason for the limit. constants: paths of the constants below `kvformat`.
    """

    what: str
    most: str
    unit: Callable[[float], str]
    why: str
    constants: tuple[str, ...]

    def values(self) -> list[float]:
        """Return the current values of the constants."""
        paths = (constant.rsplit(".", 1) for constant in self.constants)
        return [getattr(importlib.import_module(f"kvformat.{module}"), name) for module, name in paths]


def plain(number: float) -> str:
    """Format a count."""
    return f"{number:,}"


def in_bytes(number: float) -> str:
    """Format a number of bytes in the largest unit that divides it."""
    if number == _GB_OF_OFFSETS:
        return "2 GB"
    for unit in ("bytes", "KiB", "MiB"):
        if number % _KIB:
            return f"{number:g} {unit}"
        number /= _KIB
    return f"{number:g} GiB"


def in_seconds(number: float) -> str:
    """Format a number of seconds; less than one second is in milliseconds."""
    return f"{number:g} s" if number >= 1 else f"{number * 1000:g} ms"


LIMITS = (
    Limit("levels of a JSON document", "{}", plain, "as Flink (Jackson)", ("codecs._kernel.codes.MAX_DEPTH",)),
    Limit(
        "digits of a number in JSON",
        "{}",
        plain,
        "as Flink (Jackson); reading a number of n digits exactly takes n²",
        ("codecs._kernel.codes.MAX_DIGITS",),
    ),
    Limit(
        "texts of one column in a batch of JSON or protobuf",
        "{}",
        in_bytes,
        "32-bit offsets of Arrow",
        ("codecs._kernel.codes.MOST_BYTES",),
    ),
    Limit(
        "values and NULLs that the rows of a message have, those within rows, arrays and maps too; and those of a key "
        "that are repeated for the rows of its value",
        "{} and {} for each of its bytes; {} and as many for each byte in a batch",
        plain,
        "a message of some KB may name thousands of rows, and a table has thousands of columns. What stands in a "
        "message takes a byte at least, so that only NULLs and defaults can be too many: 2,000 rows of 2,000 columns "
        "with next to nothing in them are not. The row that every message has does not count",
        (
            "registry.contract.cells.MOST_CELLS",
            "registry.contract.cells.CELLS_PER_BYTE",
            "registry.contract.cells.MOST_CELLS_OF_A_BATCH",
        ),
    ),
    Limit(
        "metadata repeated for the rows of a change message",
        "{} of a message, {} of a batch",
        in_bytes,
        "a message of many rows would multiply it",
        ("codecs._kernel.codes.MOST_OF_A_MESSAGE", "codecs._kernel.codes.MOST_OF_A_BATCH"),
    ),
    Limit(
        "levels of a schema in a Debezium message",
        "{}",
        plain,
        "its reader is recursive; what is deeper counts as no schema",
        ("codecs._debezium.connect_schema._DEEPEST",),
    ),
    Limit(
        "levels of a protobuf message",
        "{}",
        plain,
        "as Flink (protobuf-java)",
        ("codecs._kernel.protobuf_codes.MAX_LEVELS",),
    ),
    Limit(
        "missing fields that an error of protobuf names",
        "{}",
        plain,
        "each element of a list may lack the same",
        ("codecs._protobuf.required.MOST_NAMED",),
    ),
    Limit("levels of an Avro schema", "{}", plain, "its readers are recursive", ("codecs._avro.parse.MAX_DEPTH",)),
    Limit(
        "types of an Avro schema, written out",
        "{}",
        plain,
        "references let a small schema double again and again",
        ("codecs._avro.parse.MAX_NODES",),
    ),
    Limit("levels of an Avro value", "{}", plain, "as above", ("codecs._avro.exact.MAX_LEVELS",)),
    Limit(
        "items that take no bytes in an Avro message",
        "{}",
        plain,
        "ten bytes could ask for 2^60 of them",
        ("codecs._avro.bounds.MAX_EMPTY_ITEMS",),
    ),
    Limit(
        "what columns, symbols of enums and defaults add to the items of an Avro message",
        "{} and {} for each of the message's",
        in_bytes,
        "the bound of values and NULLs, eight bytes each; a byte may stand for a long text",
        ("codecs._avro.bounds.MAX_ADDED", "codecs._avro.bounds.ADDED_PER_BYTE"),
    ),
    Limit(
        "matching of a name by a filter (`table.include`)",
        "{} of CPU; after each text that takes so long half of that, down to {}",
        in_seconds,
        "a regular expression may backtrack for ever",
        ("codecs._java.regex._LONGEST_MATCH", "codecs._java.regex._SHORTEST_MATCH"),
    ),
    Limit(
        "repeats within repeats of a filter",
        "{}",
        plain,
        "each one more takes twice the memory",
        ("codecs._java.regex._MOST_NESTED",),
    ),
    Limit(
        "bytes that a kernel gets at once",
        "{}, or one message",
        in_bytes,
        "32-bit offsets of Arrow; larger arrays are read in slices",
        ("registry.contract.isolate_errors.MOST_BYTES",),
    ),
    Limit(
        "messages tried alone where a kernel fails everywhere",
        "{}",
        plain,
        "a format that is broken must not take for ever",
        ("registry.contract.isolate_errors._SAMPLES",),
    ),
    Limit(
        "answer of a schema registry",
        "{}",
        in_bytes,
        "a schema has some KB",
        ("codecs._confluent.client._LARGEST_ANSWER",),
    ),
    Limit(
        "wait before a schema registry is asked again",
        "{}",
        in_seconds,
        "the wait doubles each time",
        ("codecs._confluent.client._LONGEST_WAIT",),
    ),
    Limit(
        "schemas that a schema refers to",
        "{}",
        plain,
        "each is asked for",
        ("codecs._confluent.client._MOST_REFERENCES",),
    ),
    Limit(
        "ids of one batch that a registry does not know, until no more are asked for",
        "{}",
        plain,
        "messages of another registry must not stall a stream",
        ("codecs._confluent.answers._MOST_UNKNOWN",),
    ),
    Limit(
        "rows of one record, where key and value hold several each",
        "{}",
        plain,
        "all pairs are rows",
        ("registry.table.decode_records._MOST_PAIRS",),
    ),
    Limit(
        "bytes of a key repeated for each row of its value, or the other way round",
        "{} and {} for each of the record's",
        in_bytes,
        "a few bytes must not fill the memory",
        ("registry.table.decode_records._MOST_REPEATED", "registry.table.decode_records._PER_BYTE"),
    ),
    Limit(
        "levels of brackets in a computed column",
        "{}",
        plain,
        "its reader is recursive",
        ("registry.sql.expressions._MOST_NESTED",),
    ),
    Limit(
        "levels of a type in a schema or DDL",
        "{}",
        plain,
        "its reader is recursive",
        ("registry.sql.ddl._MAX_DEPTH",),
    ),
    Limit(
        "tables that a table is `LIKE`, one of another",
        "{}",
        plain,
        "its reader is recursive",
        ("registry.sql.statements._MOST_BASES",),
    ),
    Limit(
        "messages that a schema is inferred from",
        "{}",
        in_bytes,
        "a topic has no end; 1,000 of them unless told otherwise",
        ("connectors.infer.sample.MAX_BYTES",),
    ),
    Limit(
        "levels of an inferred type",
        "{}",
        plain,
        "deeper values stay text, as planners bear no more than about 100",
        ("codecs._infer.value_summary.MAX_DEPTH",),
    ),
    Limit(
        "members of an inferred ROW",
        "{}",
        plain,
        "an object of more is a map, or stays text",
        ("codecs._infer.value_summary.MAX_MEMBERS",),
    ),
    Limit(
        "columns of inferred csv",
        "{}",
        plain,
        "a text of delimiters alone would have as many columns as bytes",
        ("codecs._infer.delimited._MOST_COLUMNS",),
    ),
    Limit(
        "schemas, readers and plans that a process keeps, of each kind",
        "{}; {} of Debezium's own schemas",
        plain,
        "a stream lives for months",
        ("registry.contract.cache._BOUND", "codecs._debezium.embedded_schema._SCHEMAS"),
    ),
    Limit(
        "readers of Debezium's own schemas at one time, also within a batch",
        "{}",
        plain,
        "each has columns of its own",
        ("codecs._debezium.embedded_schema._READERS",),
    ),
    Limit(
        "registries that a process keeps clients of, and answers that each keeps",
        "{}, {}",
        plain,
        "as above",
        ("codecs._confluent.answers._CLIENTS", "codecs._confluent.answers._ANSWERS"),
    ),
    Limit(
        "message that the command line reads from a pipe",
        "{}",
        in_bytes,
        "Kafka's own limit is of this order; four letters taken for a length are mostly more",
        ("connectors.cli._framing._LONGEST",),
    ),
)


def limits_table() -> str:
    """Return the limits as a table in Markdown."""
    lines = ["| what | at most | why | where |", "| --- | --- | --- | --- |"]
    for limit in LIMITS:
        most = limit.most.format(*map(limit.unit, limit.values()))
        names: dict[str, list[str]] = {}
        for constant in limit.constants:
            module, _, name = constant.rpartition(".")
            names.setdefault(module.replace(".", "/"), []).append(f"`{name}`")
        where = "; ".join(f"`{module}.py`: {', '.join(held)}" for module, held in names.items())
        lines.append(f"| {limit.what} | {most} | {limit.why} | {where} |")
    return "\n".join(lines)
