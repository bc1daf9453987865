"""Fuzz cases: formats with options and a schema, and tables of key and value, each with messages.

The name of a case determines its content, so that another process can create it, and failures are reproducible:

    json/vectors/12    schema, options and messages of a case of fixtures/flink-2.3
    json/rows/7        a random schema, random options and random rows, written by the format itself (7: the seed)
    json/known/3       a case of tests/support/json_mutation.py
    debezium-json/schemas/5    messages with several schemas or schema ids in one batch (schemas.py)
    key-value/interop/5   a table of fixtures/interop with Flink's records
"""

from __future__ import annotations

import abc
import atexit
import base64
import contextlib
import functools
import json
import lzma
import os
import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from kvformat.registry import ConfigurationError, DecodedBatch, Format, KeyValueFormat, Option, get_format
from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.types import FlinkType
from tests.fuzz import mutation, schemas
from tests.support import json_mutation, vectors
from tests.support import random_rows as rows

FORMATS = (
    *("csv", "json", "avro", "avro-confluent", "raw"),
    *("debezium-json", "canal-json", "maxwell-json", "ogg-json", "debezium-avro-confluent"),
    *("protobuf", "json-registry", "proto-registry", "avro-glue", "avro-apicurio"),
)
_OF_REGISTRIES = ("avro-confluent", "json-registry", "proto-registry", "avro-glue", "avro-apicurio")
WITHOUT_FLINK = ("json-registry", "proto-registry", "avro-glue", "avro-apicurio")
"""Formats that Flink itself does not have, so that none of its answers are recorded."""
TABLES = "key-value"
Message = tuple[bytes | None, ...]
"""The parts of a message: its value, or key and value."""

_KNOWN = 40  # maximum number of start messages of a case
_TRIES = 60


class Case(abc.ABC):
    """A format or a table, with messages for it."""

    def __init__(self, name: str, reader: object, known: Sequence[Message]) -> None:
        self.name, self.reader = name, reader
        self.known = list(known)

    @abc.abstractmethod
    def decode(self, parts: Sequence[pa.Array]) -> DecodedBatch:
        """Decode the parts of messages."""

    @abc.abstractmethod
    def encode(
        self, rows: pa.StructArray, kinds: pa.StringArray | None
    ) -> tuple[Sequence[pa.Array], pa.StringArray | None]:
        """Encode rows. Returns the parts of the messages and the errors.

        Raises `ConfigurationError` if the case can only decode.
        """

    def rows(self, batch: DecodedBatch) -> pa.StructArray:
        """Return all rows of a batch as input for `encode`."""
        return batch.rows.flatten()

    @property
    @abc.abstractmethod
    def formats(self) -> Sequence[str]:
        """Return the format of each part."""

    @property
    def is_lossless(self) -> bool:
        """Return whether rows are unchanged after encoding and decoding.

        They may change in some cases: VARIANT is written without the zeros at the end of numbers, csv writes NULL and
        an empty text the same way, raw writes `?` for characters outside its charset, a filter skips rows without
        metadata, json may omit NULL fields, protobuf leaves NULLs and defaults out, and forms of timestamps may have
        fewer digits.
        """
        options = repr(self.reader)
        misses = "fail-on-missing-field': 'true'" in options and "ignore-null-fields': 'true'" in options
        misses |= "timestamp-format.patterns'" in options
        return not {"csv", "raw", "protobuf"} & set(self.formats) and ".include'" not in options and not misses

    def message(self, rng: random.Random) -> Message:
        """Return a good message."""
        return rng.choice(self.known)

    def changed(self, rng: random.Random, message: Message) -> Message:
        """Return the message with one part changed or null."""
        at = rng.randrange(len(message))
        others = [part for known in self.known[:10] if (part := known[at]) is not None] or [b""]
        part = message[at]
        new = None if rng.random() < 0.02 else mutation.changed(rng, self.formats[at], part or b"", others)
        return (*message[:at], new, *message[at + 1 :])

    def arrays(self, messages: Sequence[Message]) -> list[pa.Array]:
        """Return the parts of messages as arrays."""
        return [pa.array([message[i] for message in messages], pa.binary()) for i in range(len(self.formats))]

    def __repr__(self) -> str:
        return f"case({self.name!r})"


class FormatCase(Case):
    """A format with options."""

    def __init__(
        self, name: str, format: Format, schema: str, known: Sequence[bytes | None], metadata: tuple[str, ...] = ()
    ) -> None:
        super().__init__(name, format, [(message,) for message in known])
        self.format, self.schema, self.metadata = format, schema, metadata

    @property
    def formats(self) -> Sequence[str]:
        return [self.format.identifier]

    def decode(self, parts: Sequence[pa.Array]) -> DecodedBatch:
        (messages,) = parts
        return self.format.decode_batch(messages, self.schema, metadata=self.metadata)

    @property
    def is_lossless(self) -> bool:
        return super().is_lossless and "VARIANT" not in self.schema

    def rows(self, batch: DecodedBatch) -> pa.StructArray:
        """Without metadata."""
        rows = batch.rows.flatten()
        count = rows.type.num_fields - len(self.metadata)
        if not self.metadata:
            return rows
        return pa.StructArray.from_arrays([rows.field(i) for i in range(count)], fields=list(rows.type)[:count])

    def encode(
        self, rows: pa.StructArray, kinds: pa.StringArray | None
    ) -> tuple[Sequence[pa.Array], pa.StringArray | None]:
        batch = self.format.encode_batch(rows, self.schema, row_kinds=kinds)
        return [batch.messages], batch.errors


class TableCase(Case):
    """A table with key and value."""

    def __init__(self, name: str, table: KeyValueFormat, known: Sequence[Message]) -> None:
        super().__init__(name, table, known)
        self.table = table

    @property
    def formats(self) -> Sequence[str]:
        given = self.table.options
        value = given.get("value.format") or given["format"]
        return [given.get("key.format", "raw"), value]

    def decode(self, parts: Sequence[pa.Array]) -> DecodedBatch:
        keys, values = parts
        return self.table.decode_batch(keys, values)

    @property
    def is_lossless(self) -> bool:
        return super().is_lossless and "VARIANT" not in str(self.table.columns)

    def encode(
        self, rows: pa.StructArray, kinds: pa.StringArray | None
    ) -> tuple[Sequence[pa.Array], pa.StringArray | None]:
        batch = self.table.encode_batch(rows, row_kinds=kinds)
        keys = pa.nulls(len(rows), pa.binary()) if batch.keys is None else batch.keys
        return [keys, batch.values], batch.errors


@functools.cache
def case(name: str) -> Case:
    """Create the case with this name."""
    format, kind, number = name.split("/")
    made: Case = _MAKERS[kind](name, format, int(number))
    return made


def names(format: str, rng: random.Random) -> str:
    """Return the name of a random case of a format or of the tables."""
    counts = {"rows": 0 if format == "protobuf" else 10**6}  # its rows are those of a class, which the vectors have
    if format == TABLES:
        counts["interop"] = len(_interop())
    else:
        counts["vectors"] = len(_recorded(format))
        counts["known"] = len(_generated(format))
        counts["schemas"] = 10**6 if format in schemas.FORMATS else 0
        counts["records"] = 10**6 if format in _OF_REGISTRIES else 0
    kind = rng.choice([kind for kind, count in counts.items() if count])
    return f"{format}/{kind}/{rng.randrange(counts[kind])}"


# --- recorded messages ----------------------------------------------------------------------------------


@functools.cache
def _recorded(format: str) -> list[vectors.Case]:
    """Return the decode cases of the vectors."""
    found: list[vectors.Case] = []
    if format in WITHOUT_FLINK:
        return found
    for recorded in vectors.cases(format):
        if recorded["direction"] == "decode" and "factory_error" not in recorded and recorded["messages"]:
            found.append(recorded)
    return found


def _of_vectors(name: str, format: str, number: int) -> Case:
    recorded = _recorded(format)[number]
    url = _registry(name, {int(id): text for id, text in recorded.get("registry", {}).items()})
    options = {key: value.replace("{registry}", url).split(",file:")[0] for key, value in recorded["options"].items()}
    messages = [vectors.message_bytes(message["in"]) for message in recorded["messages"]]
    made = vectors.format_of(recorded) if format == "protobuf" else get_format(format, options)
    return FormatCase(name, made, vectors.columns(recorded), messages, tuple(recorded.get("metadata", ())))


@functools.cache
def _generated(format: str) -> list[json_mutation.Case]:
    return [known for known in json_mutation.CASES if known.format == format]


def _of_mutation(name: str, format: str, number: int) -> Case:
    known, rng = _generated(format)[number], random.Random(number)
    messages = [known.whole(rng) for _ in range(_KNOWN)]
    return FormatCase(name, known.made(), known.schema, messages, known.metadata)


@functools.cache
def _interop() -> list[dict[str, Any]]:
    path = vectors.FIXTURES / "interop" / "cases.jsonl.xz"
    with lzma.open(path, "rt", encoding="ascii") as lines:
        return [recorded for recorded in map(json.loads, lines) if recorded["records"]]


def _of_interop(name: str, format: str, number: int) -> Case:
    recorded = _interop()[number]
    url = _registry(name, {int(id): json.dumps(schema) for id, schema in recorded["schemas"].items()})
    ddl = recorded["ddl"].replace("{registry}", url).replace("{bootstrap}", "127.0.0.1:1")
    known = [tuple(_decoded64(record[part]) for part in ("key", "value")) for record in recorded["records"]]
    return TableCase(name, KeyValueFormat.from_ddl(ddl), known)


def _decoded64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


# --- random messages ------------------------------------------------------------------------------------

_CHARACTERS = (",", ";", "|", "\t", "#", "'", '"', "\\", "é", "\u4e16")
_TEXTS_OF = {
    "record-name": ("com.shop.Order", "A"),
    "field-delimiter": (",", ";", "|", "\\t", "\\u0001", "é"),
    "quote-character": _CHARACTERS,
    "array-element-delimiter": _CHARACTERS,
    "escape-character": _CHARACTERS,
    "null-literal": ("", "n/a", "null", "NULL", ","),
    "map-null-key.literal": ("null", "", "é"),
    "database.include": (".*", "shop", "(a|b)+"),
    "table.include": (".*", "orders.*"),
    "timestamp-format.patterns": (
        "SQL; ISO-8601; epoch-millis",
        "epoch-seconds; epoch-millis; epoch-micros; yyyyMMddHHmmssSSS",
        "dd/MM/yyyy hh:mm:ss a[.SSS][ VV]; yyyy-MM-dd'T'HH:mm:ss[.SSSSSSSSS][XXX][X]; epoch-nanos",
        "d.M.yyyy H:m[:s[,SSS]][ xx]; yyyy-MM-dd HH:mm:ss.SSSSSS; yyyy-MM-dd HH:mm:ss[.SSSSSS]",
    ),
    "timestamp-format.zone": ("Europe/Berlin", "+05:30"),
    "invalid-text": ("error", "replace"),  # `keep` returns invalid text on purpose
    "charset": (
        "UTF-8",
        "UTF-16",
        "UTF-16LE",
        "ISO-8859-1",
        "US-ASCII",
        "windows-1252",
        "GB18030",
        "Shift_JIS",
        "Big5",
    ),
}


def _option(rng: random.Random, option: Option) -> str | None:
    """Return a random value of the option, or None for options that are set elsewhere."""
    if option.type == "boolean":
        return rng.choice(["true", "false"])
    values = _TEXTS_OF.get(option.name) or option.allowed
    return rng.choice(values) if values else None


def _options(rng: random.Random, name: str, format: str) -> dict[str, str]:
    found = {"url": _registry(name, {})} if format.endswith(_OF_REGISTRIES) else {}
    for option in type(get_format(format, found)).option_specs:
        value = _option(rng, option) if rng.random() < 0.25 else None
        if value is not None:
            found[option.name] = value
    if "avro" in format:
        found["variant-columns"] = "c0;c1;c2;c3;c4;c5"
    if found.get("subject-name-strategy", "topic-name").rpartition(".")[2] not in ("topic-name", "TopicNameStrategy"):
        return found | {"subject-topic": "t"}
    return found | _subject(format)


def _of_rows(name: str, format: str, number: int) -> Case:
    rng = random.Random(name)
    for attempt in range(_TRIES):
        # later attempts are simpler, because formats refuse some types and some combinations of options
        options = _options(rng, name, format) if attempt < _TRIES // 2 else _plain(name, format)
        columns = 1 if format == "raw" else None
        scalars = rows.WITH_VARIANT if attempt < _TRIES // 3 else rows.SCALARS
        text = rows.schema(rng, columns=columns, depth=0 if attempt > _TRIES // 3 else 2, scalars=scalars)
        try:
            made = FormatCase(name, get_format(format, options), text, [])
            made.decode(made.arrays([]))
            made.known = _written(made, parse_schema(text), rng)
        except ConfigurationError:
            continue
        return made
    raise AssertionError(f"no schema for {name}")


def _plain(name: str, format: str) -> dict[str, str]:
    return {"url": _registry(name, {}), **_subject(format)} if format.endswith(_OF_REGISTRIES) else {}


def _subject(format: str) -> dict[str, str]:
    """Return options with which a format registers the schemas that it writes."""
    if format == "avro-glue":
        return {"schema.name": "s", "schema.autoRegistration": "true"}
    return {"subject": "s"} if format.endswith(_OF_REGISTRIES) else {}


def _of_records(name: str, format: str, number: int) -> Case:
    """Return a case with messages of three types, of which the table has one or two, or a column for each."""
    rng, url = random.Random(name), _registry(name, {})
    tables, known = dict[str, str](), list[Message]()
    for record in rng.sample(("com.shop.Order", "com.shop.Refund", "Item"), 3):
        options = {"url": url, "record-name": record, "subject-name-strategy": "record-name"}
        for attempt in range(_TRIES):
            tables[record] = rows.schema(rng, columns=rng.randint(1, 4), depth=attempt < _TRIES // 2)
            with contextlib.suppress(ConfigurationError):
                one = FormatCase(name, get_format(format, options), tables[record], [])
                one.decode(one.arrays([]))
                known += _written(one, parse_schema(tables[record]), rng)[: _KNOWN // 3]
                break
    rng.shuffle(known)
    options = {"url": url, "subject-name-strategy": "record-name", "other-messages": rng.choice(["error", "skip"])}
    named = dict(zip("abc", tables, strict=False))
    if rng.random() < 0.5:
        record, table = rng.choice(list(tables.items()))
        options["record-name"] = record
    else:
        options["record-columns"] = ",".join(f"{column}:{record}" for column, record in named.items())
        shown = rng.sample(list(named), rng.randint(1, 3))
        table = ", ".join(f"{column} ROW<{tables[named[column]]}>" for column in shown)
    made = FormatCase(name, get_format(format, options), table, [])
    made.known = known
    return made


def _written(made: Case, row: FlinkType, rng: random.Random) -> list[Message]:
    """Return messages of random rows, without rows that cannot be encoded."""
    values = rows.rows(rng, row, _KNOWN)
    kinds = pa.array(rng.choices(["+I", "-U", "+U", "-D"], k=_KNOWN), pa.string())
    try:
        parts, errors = made.encode(values, kinds)
    except ConfigurationError:  # a case that can only decode starts with the messages of another case
        return [(b"{}",) * len(made.formats)]
    messages = zip(*(part.to_pylist() for part in parts), strict=True)
    bad = [False] * _KNOWN if errors is None else errors.is_valid().to_pylist()
    found = [message for message, failed in zip(messages, bad, strict=True) if not failed]
    return found or [(b"",) * len(made.formats)]


def _of_schemas(name: str, format: str, number: int) -> Case:
    rng, framed = random.Random(name), format in ("avro-glue", "avro-apicurio")
    text, columns = schemas.table(rng, "avro-confluent" if framed else format)
    metadata: tuple[str, ...] = ()
    if format == "debezium-json":
        options = schemas.json_options(rng)
        messages = schemas.json_messages(rng, columns, "flattened" in options, _KNOWN)
        metadata = ("schema",) if rng.random() < 0.2 else ()
    elif format == "avro-confluent" and rng.random() < 0.5:
        text, texts, messages = schemas.nested(rng, _KNOWN)
        options = {"url": _registry(name, texts)}
    elif framed:
        texts, messages = schemas.avro_messages(rng, columns, False, _KNOWN)
        messages = [mutation.reframed(rng, format, message) for message in messages]
        options = {"url": _registry(name, texts)}
    else:
        options = schemas.avro_options(rng, format)
        envelope = format != "avro-confluent" and "flattened" not in options
        texts, messages = schemas.avro_messages(rng, columns, envelope, _KNOWN)
        options["url"] = _registry(name, texts)
    return FormatCase(name, get_format(format, options), text, messages, metadata)


def _of_table(name: str, format: str, number: int) -> Case:
    rng = random.Random(name)
    for attempt in range(_TRIES):
        key, value = rng.choice(FORMATS[:5]), rng.choice([format for format in FORMATS if format != "protobuf"])
        scalars = rows.WITH_VARIANT if attempt < _TRIES // 3 else rows.SCALARS
        depth = 0 if key == "csv" or attempt > 9 else 1
        text = rows.schema(rng, columns=rng.randint(2, 5), depth=depth, scalars=scalars)
        count = 1 if key == "raw" else rng.randint(1, text.count(" c") or 1)
        fields = [f"c{i}" for i in range(count)]
        upsert = rng.random() < 0.4
        options = {"connector": "upsert-kafka" if upsert else "kafka", "key.format": key, "value.format": value}
        options |= {} if upsert else {"key.fields": ";".join(fields)}
        if rng.random() < 0.6:
            options["value.fields-include"] = "EXCEPT_KEY"
        for part, of in (("key", key), ("value", value)):
            chosen = _options(rng, f"{name}/{part}", of) if rng.random() < 0.5 else _plain(f"{name}/{part}", of)
            options |= {f"{part}.{of}.{option}": text for option, text in chosen.items()}
        try:
            made = TableCase(name, KeyValueFormat(text, options, primary_key=fields if upsert else ()), [])
            made.decode(made.arrays([]))
            made.known = _written(made, parse_schema(text), rng)
        except ConfigurationError:
            continue
        return made
    raise AssertionError(f"no table for {name}")


_MAKERS: dict[str, Any] = {
    "vectors": _of_vectors,
    "known": _of_mutation,
    "interop": _of_interop,
    "schemas": _of_schemas,
    "records": _of_records,
    "rows": lambda name, format, number: (_of_table if format == TABLES else _of_rows)(name, format, number),
}


FOLDER_VARIABLE = "KVFORMAT_FUZZ_FOLDER"
"""The environment variable with the folder of schema registries. Error messages contain the path of the registry."""


@functools.cache
def registries() -> Path:
    """Return the folder of all schema registries: that of the process that started this one, or a temporary one."""
    if FOLDER_VARIABLE in os.environ:
        return Path(os.environ[FOLDER_VARIABLE])
    folder = Path(tempfile.mkdtemp(prefix="kvformat-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _registry(name: str, known: dict[int, str]) -> str:
    """Return the URL of a schema registry in the case's own folder."""
    folder = registries() / name.replace("/", "-")
    folder.mkdir(exist_ok=True)
    for schema_id, text in known.items():
        for file in (schema_id, mutation.guid_of(schema_id)):
            (folder / f"{file}.avsc").write_text(text, encoding="utf-8")
    return f"file:{folder}"
