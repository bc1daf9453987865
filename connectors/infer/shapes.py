"""What a single message looks like, by its bytes alone: one of `SHAPES`. No bytes raise."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvformat.codecs._confluent import PREFIX
from kvformat.codecs._debezium.connect_schema import ConnectSchema, image_schema_from_json
from kvformat.codecs._json.document_reader import JsonSyntaxError
from kvformat.codecs._kernel.tree import Node
from kvformat.connectors.infer.avro import CONTAINER, schema_id_of
from kvformat.connectors.infer.sample import Documents, is_wrapped
from kvformat.connectors.infer.text import is_utf8

CONFLUENT, CONFLUENT_JSON, TEXT, OTHER_TEXT, BINARY = "confluent", "confluent json", "text", "other text", "binary"
UTF16, BROKEN, CONNECT, JSON = "utf-16", "broken json", "connect", "json"
TOMBSTONE = "tombstone"
"""A null that Connect's JsonConverter writes as JSON; it has no line in `SHAPES`, as no format reads it alone."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What messages of a shape are.

    format: that reads them, or where none does (`readable`) what they are. are: in words, after "n of m messages".
    sure: how sure that is, from 0 to 1. remedy: what to do where no format reads them.
    alone: whether they may be rows alone of Debezium, changes by the key of the record. marked: whether a member says
    that a row is deleted, so that no tombstone is needed. wrapped: whether they are objects of schema and payload.
    """

    format: str
    are: str
    sure: float = 1.0
    readable: bool = True
    remedy: str = ""
    alone: bool = False
    marked: bool = False
    wrapped: bool = False


def _packed(name: str) -> Shape:
    return Shape(name, f"are {name} data", 1.0, False, "Decompress them before: no format reads them as they are")


_TRANSFORM = "Debezium's transformation ExtractNewRecordState"
MARKED = f"with members such as __op or __deleted, which {_TRANSFORM} adds to rows"
NAMED = f"named NAME.Value or with types io.debezium.*, as {_TRANSFORM} leaves the schemas of its rows"
NULLS_OF_CONNECT = (
    "; other messages are the text null, as Kafka Connect's JsonConverter without schemas writes the deletes of "
    f"{_TRANSFORM}"
)
"""What else says that rows are Debezium's, where nothing in them does."""

SHAPES = {
    "json": Shape("json", "are JSON objects"),
    "json array": Shape("json", "are JSON arrays of objects, a row each"),
    "rows alone": Shape("json", f"are JSON objects {MARKED}", alone=True),
    "rows alone, deleted": Shape("json", f"are JSON objects {MARKED}", alone=True, marked=True),
    "rows alone with schema": Shape(
        "json", f"are JSON objects of schema and payload, {NAMED}", alone=True, wrapped=True
    ),
    "rows alone with schema, deleted": Shape(
        "json", f"are JSON objects of schema and payload {MARKED}", alone=True, marked=True, wrapped=True
    ),
    CONNECT: Shape(
        "json", "are JSON objects of schema and payload, as Kafka Connect writes rows with schemas.enable", wrapped=True
    ),
    "mongodb": Shape(
        "json",
        "have op, and before or after as a text: Debezium's MongoDB connector. debezium-json reads objects only; "
        "json reads the envelope, with the document as text",
    ),
    "debezium": Shape("debezium-json", "are JSON objects with op, and before or after: Debezium without schemas"),
    "debezium with schema": Shape(
        "debezium-json", "are JSON objects of schema and payload, the latter with op: Debezium with schemas"
    ),
    "canal": Shape("canal-json", "are JSON objects with type and an array data, as Canal writes them"),
    "maxwell": Shape("maxwell-json", "are JSON objects with type and an object data, as Maxwell writes them"),
    "ogg": Shape("ogg-json", "are JSON objects with op_type, and before or after: Oracle GoldenGate"),
    BROKEN: Shape(
        "broken JSON", "begin like JSON, but are none", 1.0, False, '`errors="capture"` says what is wrong with each'
    ),
    CONFLUENT: Shape("avro-confluent", "begin with 00 and a schema id, Confluent's frame", 0.9),
    CONFLUENT_JSON: Shape(
        "json-schema",
        "begin with 00 and a schema id, Confluent's frame, and go on as JSON: Confluent's JSON Schema serializer",
        1.0,
        False,
        "No format reads JSON behind five other bytes: cut these off before, `substring(value, 6)` in Spark, then json",
    ),
    "avro file": Shape(
        "avro file", "are Avro container files", 1.0, False, "Flink's formats read single datums, not whole files"
    ),
    "avro single object": Shape(
        "avro single object",
        "begin with C3 01, Avro's single-object encoding",
        0.9,
        False,
        "Cut off the ten bytes of its header, then avro with the schema of the fingerprint",
    ),
    **{name: _packed(name) for name in ("gzip", "zstd", "snappy", "lz4", "bzip2", "xz", "zip", "parquet")},
    "java": Shape("java", "are objects of Java's serialization", 1.0, False, "Only Java reads them"),
    UTF16: Shape("raw", "are text in UTF-16", 0.9),
    TEXT: Shape("raw", "are text", 0.6),
    OTHER_TEXT: Shape("raw", "are text, but not in UTF-8", 0.5),
    BINARY: Shape("raw", "are bytes of no form that can be told: plain Avro or Protobuf, for two, look like this", 0.3),
}

_MAGIC = (
    (CONTAINER, "avro file"),
    (b"\xc3\x01", "avro single object"),
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xff\x06\x00\x00sNaPpY", "snappy"),
    (b"\x82SNAPPY\x00", "snappy"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"LZ4Block", "lz4"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"PK\x03\x04", "zip"),
    (b"PAR1", "parquet"),
    (b"\xac\xed\x00\x05", "java"),
)
_SINGLE_OBJECT_HEADER = 10
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
MARKS_OF_ROWS = frozenset(("__op", "__deleted", "__table", "__source_ts_ms", "__ts_ms", "__lsn"))
_OWN_MESSAGES, _OWN_TYPES = "io.debezium.", ("io.debezium.data.", "io.debezium.time.")
_DEBEZIUM_OPS = ("c", "r", "u", "d", "t", "m")
_MAXWELL = ("insert", "update", "delete", "bootstrap-insert", "bootstrap-start", "bootstrap-complete")


def shape_of(message: bytes, documents: Documents) -> str:
    """The shape of a message that is not blank."""
    for magic, shape in _MAGIC:
        if message.startswith(magic) and (shape != "avro single object" or len(message) > _SINGLE_OBJECT_HEADER):
            return BINARY if shape == "bzip2" and is_utf8(message) else shape
    if message[:1] == b"\0" and len(message) > PREFIX and (schema_id_of(message) or 0) > 0:
        found = _json(message, documents)  # in UTF-16 it may begin with 00, too
        if isinstance(found, dict | list):
            return _shape_of_json(found)
        return CONFLUENT_JSON if isinstance(_json(message[PREFIX:], documents), dict | list) else CONFLUENT
    found = _json(message, documents)
    if isinstance(found, dict | list):
        return _shape_of_json(found)
    if found is None and message.strip() == b"null":
        return TOMBSTONE
    if message.startswith((b"\xff\xfe", b"\xfe\xff")):
        return UTF16
    if is_utf8(message):
        if _CONTROL.search(message):
            return BINARY
        return BROKEN if message.lstrip()[:1] in (b"{", b"[") and found is None else TEXT
    if not _CONTROL.search(message) and 3 * len(_NOT_ASCII.findall(message)) <= len(message):
        return OTHER_TEXT
    return BINARY


def _json(message: bytes, documents: Documents) -> Node:
    try:
        return documents.read(message)
    except JsonSyntaxError:
        return None


def _shape_of_json(tree: Node) -> str:
    if isinstance(tree, list):
        if len(tree) != 1 or not isinstance(tree[0], dict):
            return "json array" if all(isinstance(row, dict) for row in tree) else TEXT
        tree = tree[0]
    assert isinstance(tree, dict)
    if is_wrapped(tree):
        return _shape_of_wrapped(tree["schema"], tree["payload"])
    if _is_debezium(tree):
        return "mongodb" if any(isinstance(tree.get(name), str) for name in ("before", "after")) else "debezium"
    if isinstance(tree.get("op_type"), str) and ("before" in tree or "after" in tree):
        return "ogg"
    if isinstance(tree.get("data"), dict) and tree.get("type") in _MAXWELL and _is_of(tree, "database"):
        return "maxwell"
    if isinstance(tree.get("data", 0), list | None) and str(tree.get("type")).isupper() and _is_of(tree, "isDdl"):
        return "canal"
    return _alone(tree) if MARKS_OF_ROWS & tree.keys() else JSON


def _shape_of_wrapped(schema: Node, payload: Node) -> str:
    if not isinstance(payload, dict):
        return TOMBSTONE
    if _is_debezium(payload):
        return "debezium with schema"
    is_row = bool(MARKS_OF_ROWS & payload.keys()) or is_named_by_debezium(image_schema_from_json(schema, flat=True))
    return _alone(payload, " with schema") if is_row else CONNECT


def _alone(row: dict[str, Node], carrier: str = "") -> str:
    return f"rows alone{carrier}, deleted" if "__deleted" in row else f"rows alone{carrier}"


def is_named_by_debezium(said: ConnectSchema | None) -> bool:
    """Whether a schema of rows is Debezium's: named NAME.Value, or with its types; its other messages are none."""
    if said is None or said.name.startswith(_OWN_MESSAGES):
        return False
    return said.name.endswith(".Value") or any(part.name.startswith(_OWN_TYPES) for part in said.fields.values())


def _is_debezium(tree: dict[str, Node]) -> bool:
    return tree.get("op") in _DEBEZIUM_OPS and ("before" in tree or "after" in tree or "source" in tree)


def _is_of(tree: dict[str, Node], mark: str) -> bool:
    """Whether an object of type and data is an envelope: it has a mark, or nothing else, as Flink writes it."""
    return mark in tree or tree.keys() <= {"type", "data", "old"}
