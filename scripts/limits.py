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

    what: the thing that is limited. most: the limit in words, with a `{}` for each constant. unit: a function that
    formats a number. why: the reason for the limit. constants: the paths of the constants, without `kvformat.`.
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
    Limit("levels of a JSON document", "{}", plain, "Flink's limit (Jackson)", ("codecs._kernel.codes.MAX_DEPTH",)),
    Limit(
        "digits of a number in JSON",
        "{}",
        plain,
        "Flink's limit (Jackson); the time to read n digits exactly grows with n²",
        ("codecs._kernel.codes.MAX_DIGITS",),
    ),
    Limit(
        "bytes of text in one column of a batch of JSON or protobuf",
        "{}",
        in_bytes,
        "Arrow's offsets have 32 bits",
        ("codecs._kernel.codes.MOST_BYTES",),
    ),
    Limit(
        "bytes of a VARIANT, and of its metadata",
        "{}",
        in_bytes,
        "Spark's limit",
        ("codecs._kernel.variant_codes.MOST_OF_A_VARIANT",),
    ),
    Limit(
        "bytes of a VARIANT as JSON",
        "{}",
        in_bytes,
        "a long key may come often in a small value",
        ("codecs._kernel.variant_codes.MOST_OF_A_TEXT",),
    ),
    Limit(
        "values and NULLs in the rows of a message, also inside rows, arrays and maps; also those of a key that are "
        "repeated for the rows of its value",
        "{} and {} for each byte of the message; for a batch {} and as many for each byte",
        plain,
        "a message of some KB can have thousands of rows, and a table can have thousands of columns. Each value in a "
        "message takes at least one byte, so only NULLs and defaults can exceed the limit. 2,000 nearly empty rows of "
        "2,000 columns do not. The one row that every message has is not counted",
        (
            "registry.contract.cells.MOST_CELLS",
            "registry.contract.cells.CELLS_PER_BYTE",
            "registry.contract.cells.MOST_CELLS_OF_A_BATCH",
        ),
    ),
    Limit(
        "metadata repeated for the rows of a change message",
        "{} for a message, {} for a batch",
        in_bytes,
        "a message with many rows would multiply it",
        ("codecs._kernel.codes.MOST_OF_A_MESSAGE", "codecs._kernel.codes.MOST_OF_A_BATCH"),
    ),
    Limit(
        "levels of a schema in a Debezium message",
        "{}",
        plain,
        "the reader is recursive; deeper parts are read without a schema",
        ("codecs.debezium.connect_schema._DEEPEST",),
    ),
    Limit(
        "levels of a protobuf message",
        "{}",
        plain,
        "Flink's limit (protobuf-java)",
        ("codecs._kernel.protobuf_codes.MAX_LEVELS",),
    ),
    Limit(
        "missing fields that an error message of protobuf names",
        "{}",
        plain,
        "the same field may be missing in each element of a list",
        ("codecs.protobuf.required.MOST_NAMED",),
    ),
    Limit("levels of an Avro schema", "{}", plain, "the readers are recursive", ("codecs.avro.parse.MAX_DEPTH",)),
    Limit(
        "types of an Avro schema with its references resolved",
        "{}",
        plain,
        "with references, a small schema can double many times",
        ("codecs.avro.parse.MAX_NODES",),
    ),
    Limit(
        "levels of a skipped Avro value",
        "{}",
        plain,
        "the readers are recursive",
        ("codecs._kernel.avro_codes.MAX_LEVELS",),
    ),
    Limit(
        "items that take no bytes in an Avro message",
        "{}",
        plain,
        "ten bytes can declare 2^60 of them",
        ("codecs._kernel.avro_codes.MAX_EMPTY_ITEMS",),
    ),
    Limit(
        "bytes that columns, enum symbols and defaults add to the items of an Avro message",
        "{} and {} for each byte of the message",
        in_bytes,
        "the limit on values and NULLs, with eight bytes each; one byte can stand for a long text",
        ("codecs._kernel.avro_codes.MAX_ADDED", "codecs._kernel.avro_codes.ADDED_PER_BYTE"),
    ),
    Limit(
        "time to match a name with a filter (`table.include`)",
        "{} of CPU; half of that after each name that takes so long, down to {}",
        in_seconds,
        "backtracking can take exponential time",
        ("registry.java.regex._LONGEST_MATCH", "registry.java.regex._SHORTEST_MATCH"),
    ),
    Limit(
        "nested repeats in a filter",
        "{}",
        plain,
        "each further one doubles the memory",
        ("registry.java.regex_translation._MOST_NESTED",),
    ),
    Limit(
        "bytes that a kernel gets in one call",
        "{}, or one message",
        in_bytes,
        "Arrow's offsets have 32 bits; larger arrays are read in slices",
        ("registry.contract.isolate_errors.MOST_BYTES",),
    ),
    Limit(
        "messages that are tried alone when a kernel fails for all of them",
        "{}",
        plain,
        "a broken format must not block a job",
        ("registry.contract.isolate_errors._SAMPLES",),
    ),
    Limit(
        "size of a schema registry's answer",
        "{}",
        in_bytes,
        "a schema has a few KB",
        ("codecs.registries.requests.LARGEST_ANSWER",),
    ),
    Limit(
        "wait time before a schema registry is asked again",
        "{}",
        in_seconds,
        "the time doubles after each failure",
        ("codecs.registries.requests._LONGEST_WAIT",),
    ),
    Limit(
        "schemas that a schema refers to",
        "{}",
        plain,
        "each one is a request to the registry",
        ("codecs.registries.requests.MOST_REFERENCES",),
    ),
    Limit(
        "bytes of a batch of Avro messages of AWS Glue after decompression; a larger batch is read in parts",
        "{}",
        in_bytes,
        "one message has at most `max-size`, an option, but a batch has many",
        ("codecs.registries.glue_frames._MOST_OF_A_BATCH",),
    ),
    Limit(
        "schema ids that a registry does not know; after these, a batch asks for no more ids",
        "{}",
        plain,
        "messages of another registry must not block a stream",
        ("codecs.registries.cache._MOST_UNKNOWN",),
    ),
    Limit(
        "rows of one record whose key and value both give several rows",
        "{}",
        plain,
        "each pair is a row",
        ("registry.table.decode_records._MOST_PAIRS",),
    ),
    Limit(
        "bytes of a key repeated for the rows of its value, or of a value repeated for the rows of its key",
        "{} and {} for each byte of the record",
        in_bytes,
        "a few bytes must not fill the memory",
        ("registry.table.decode_records._MOST_REPEATED", "registry.table.decode_records._PER_BYTE"),
    ),
    Limit(
        "levels of brackets in a computed column",
        "{}",
        plain,
        "the reader is recursive",
        ("registry.sql.expressions._MOST_NESTED",),
    ),
    Limit(
        "levels of operators and functions in a computed column",
        "{}",
        plain,
        "evaluation is recursive",
        ("registry.sql.expressions._MOST_LEVELS",),
    ),
    Limit(
        "characters of a text that a function of a computed column makes, such as REPEAT, LPAD or PRINTF",
        "{}, and {} for each character of its arguments",
        plain,
        "a few bytes must not fill the memory; the record is a bad record",
        ("registry.expressions.rows.MOST_CHARACTERS", "registry.expressions.rows.PER_CHARACTER"),
    ),
    Limit(
        "levels of a JSON document in a computed column",
        "{}",
        plain,
        "Flink's limit; Jackson refuses more",
        ("registry.expressions.functions.json_documents.MOST_LEVELS",),
    ),
    Limit(
        "levels of a type in a schema or DDL",
        "{}",
        plain,
        "the reader is recursive",
        ("registry.contract.ddl._MAX_DEPTH",),
    ),
    Limit(
        "tables in a chain of `LIKE` clauses",
        "{}",
        plain,
        "the reader is recursive",
        ("registry.sql.statements._MOST_BASES",),
    ),
    Limit(
        "bytes of messages from which a schema is inferred",
        "{}",
        in_bytes,
        "a topic can be of any size; the default is at most 1,000 messages",
        ("connectors.infer.sample.MAX_BYTES",),
    ),
    Limit(
        "levels of an inferred type",
        "{}",
        plain,
        "deeper values become text, because query planners fail at about 100 levels",
        ("codecs.discovery.value_summary.MAX_DEPTH",),
    ),
    Limit(
        "members of an inferred ROW",
        "{}",
        plain,
        "an object with more becomes a MAP or text",
        ("codecs.discovery.value_summary.MAX_MEMBERS",),
    ),
    Limit(
        "columns of inferred csv",
        "{}",
        plain,
        "a text of delimiters only would have as many columns as bytes",
        ("codecs.csv.columns._MOST_COLUMNS",),
    ),
    Limit(
        "schemas, readers and plans in a process's caches, of each kind",
        "{}; {} of Debezium's own schemas",
        plain,
        "a stream runs for months",
        ("registry.contract.cache._BOUND", "codecs.debezium.embedded_schema._SCHEMAS"),
    ),
    Limit(
        "cached readers of Debezium's own schemas, also within a batch",
        "{}",
        plain,
        "each has its own columns",
        ("codecs.debezium.embedded_schema._READERS",),
    ),
    Limit(
        "cached clients of registries in a process, and cached answers of each",
        "{}, {}",
        plain,
        "a stream runs for months",
        ("codecs.registries.cache._CLIENTS", "codecs.registries.cache._ANSWERS"),
    ),
    Limit(
        "bytes of a message that the command line reads from a pipe",
        "{}",
        in_bytes,
        "Kafka's own limit is similar; if text is read as a length by mistake, the number is mostly larger",
        ("connectors.cli._framing._LONGEST",),
    ),
    Limit(
        "characters and values of a pipeline in YAML, also those of aliases",
        "{}, {}",
        plain,
        "PyYAML needs seconds for more; each alias is a copy",
        ("ingestion.pipeline.yaml._LONGEST", "ingestion.pipeline.yaml._MOST_VALUES"),
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
