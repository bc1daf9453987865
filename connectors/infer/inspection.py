"""`inspect_topic`: what a topic holds, from some of its records."""

from __future__ import annotations

import codecs
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kvformat.codecs._avro import parse_schema
from kvformat.codecs._confluent import Refused, schemas_by_id
from kvformat.codecs._debezium.connect_schema import image_schema_from_avro
from kvformat.codecs._debezium.options import FLATTENED
from kvformat.codecs.avro_confluent import AvroConfluentFormat
from kvformat.connectors.infer import shapes
from kvformat.connectors.infer.avro import schema_id_of
from kvformat.connectors.infer.infer import schema_of
from kvformat.connectors.infer.inferred import InferredSchema, shown_options
from kvformat.connectors.infer.proposal import Deletes, propose, start_options
from kvformat.connectors.infer.sample import SAMPLE, Documents, MessageSample, sample_of
from kvformat.connectors.infer.shapes import SHAPES, Shape, shape_of
from kvformat.connectors.infer.text import delimiter_of, is_utf8
from kvformat.connectors.infer.types import Notes
from kvformat.registry.contract.errors import ConfigurationError, SchemaError, SchemaRegistryError
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.types import FlinkField, FlinkType

_MOST = 100_000  # records
_MOST_IDS = 100  # of schemas, the most frequent ones: each is a question to the registry
_CSV_SHARE, _CSV_RECORDS, _CSV_COLUMNS = 0.9, 3, 3
_WIDTHS = {4: "INT", 8: "BIGINT"}
DEBEZIUM = "debezium-avro-confluent"
_ROWS_MARKED, _ROWS_NAMED = "rows alone, deleted", "rows alone"
_ROWS_ALONE = (_ROWS_MARKED, _ROWS_NAMED)
_SIGN_BYTES = (0x00, 0xFF)  # that a number begins with, unless it is huge
_DOUBLE_BYTES = (0x3F, 0x40, 0xBF, 0xC0)


@dataclass(frozen=True, slots=True)
class FormatGuess:
    """What some of the keys or values are.

    part: 'key' or 'value'. format: the format that reads them, or what they are where none does (`readable`).
    confidence: from 0 to 1, the share of such messages times how sure it is. reason: why, with counts.
    options: what the format has to be told, without a prefix; secrets are masked.
    """

    part: Part
    format: str
    confidence: float
    reason: str
    options: Mapping[str, str] = field(default_factory=dict)
    readable: bool = True


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a topic holds.

    guesses: the most confident first, those of values before those of keys. ddl: a CREATE TABLE for
    `KeyValueFormat.from_ddl` that reads the records of the first guess, None where there is none. notes: what to know
    of it. counts: of `messages`, `nulls` (tombstones), `empty` ones, with keys of `keys` and `null keys`, and where
    there are any of `nulls as JSON` (tombstones as Kafka Connect's JsonConverter writes some).
    """

    guesses: tuple[FormatGuess, ...]
    ddl: str | None
    notes: tuple[str, ...]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Group:
    """Messages of one shape: where they are among all, and what more is known of them."""

    shape: Shape
    places: tuple[int, ...]
    reason: str
    options: Mapping[str, Any] = field(default_factory=dict)
    column: str = ""  # the type of the only column, of `raw`, where it is a number
    plain: _Group | None = None  # how to read rows alone where no key says of which row they are

    def schema(self, part: Part, sample: MessageSample) -> InferredSchema:
        """The columns of the messages; the only one of `raw` is named like the part of the record."""
        values = tuple(sample.values[place] for place in self.places)
        keys = None if sample.keys is None else tuple(sample.keys[place] for place in self.places)
        found = schema_of(MessageSample(values, keys), self.shape.format, self.options)
        if self.shape.format == "raw":
            (column,) = found.fields
            found = replace(found, fields=(FlinkField(part, FlinkType(self.column) if self.column else column.type),))
        if self.shape.wrapped and self.shape.format == "json":
            rows = tuple(column for column in found.fields if column.name != "schema")
            found = replace(found, fields=rows, notes=(*found.notes, "Connect's schema in each message is left out"))
        return found


def inspect_topic(
    values: Any,
    keys: Any = None,
    *,
    name: str = "topic",
    topic: str | None = None,
    bootstrap: str | None = None,
    registry: str | Mapping[str, Any] | None = None,
) -> Inspection:
    """What the records of a topic are, and a table that reads them.

    `values` and `keys` are iterables or Arrow arrays of messages (bytes, None for a null one), of which at most 64 MiB
    are looked at; or `values` is a batch DataFrame, of which a job collects 1,000 records. `name` is the table's name,
    `topic` and `bootstrap` go into its options. `registry` is the URL of a schema registry, or the options of
    `avro-confluent` with it; it is asked what the ids in messages stand for. Secrets among them come out masked.

    Never raises for messages, whatever they are; `ConfigurationError` for what gives none, and for bad options.
    """
    sample = sample_of(values, keys, SAMPLE if hasattr(values, "isStreaming") else _MOST)
    options = {"url": registry} if isinstance(registry, str) else dict(registry or {})
    notes = Notes()
    if sample.cut:
        notes.add(sample.cut)
    looker = _Looker(options, notes)
    parts: dict[Part, Sequence[bytes | None]] = {"value": sample.values, "key": sample.keys or ()}
    groups = {part: looker.groups(part, messages) for part, messages in parts.items()}
    chosen = {part: _schema(part, groups[part], sample, notes) for part in groups}
    guesses = [guess for part in groups for guess in _guesses(part, groups[part])]
    ddl = None
    if chosen["value"] is not None:
        deletes = Deletes(
            tombstones=None in sample.values or looker.tombstones > 0, marked=groups["value"][0].shape.marked
        )
        start = start_options(name, topic, bootstrap)
        ddl = propose(sample, chosen["value"], chosen["key"], deletes, notes, name=name, start=start)
        if ddl is not None and (topic is None or bootstrap is None):
            notes.add("say in the table where the topic is: topic and properties.bootstrap.servers")
    for part, schema in chosen.items():
        if schema is not None:
            at = next(i for i, guess in enumerate(guesses) if guess.part == part and guess.readable)
            guesses[at] = replace(guesses[at], options=schema.prefixed(""))
    counts = _counts(sample) | ({"nulls as JSON": looker.tombstones} if looker.tombstones else {})
    return Inspection(tuple(guesses), ddl, notes.texts(), counts)


def _counts(sample: MessageSample) -> dict[str, int]:
    counts = {
        "messages": len(sample.values),
        "nulls": sum(value is None for value in sample.values),
        "empty": sum(value is not None and not value.strip() for value in sample.values),
    }
    if sample.keys is not None:
        nulls = sum(key is None for key in sample.keys)
        counts |= {"keys": len(sample.keys) - nulls, "null keys": nulls}
    return counts


def _guesses(part: Part, groups: Sequence[_Group]) -> Iterator[FormatGuess]:
    there = sum(len(group.places) for group in groups)
    for group in groups:
        shape = group.shape
        confidence = round(shape.sure * len(group.places) / there, 3)
        options = shown_options(shape.format, group.options) if shape.readable else {}
        yield FormatGuess(part, shape.format, confidence, group.reason, options, shape.readable)


def _schema(part: Part, groups: list[_Group], sample: MessageSample, notes: Notes) -> InferredSchema | None:
    """The columns of the most frequent messages, where a format reads them."""
    if not groups:
        return None
    group = groups[0]
    if not group.shape.readable:
        notes.add(f"no table is proposed for the {part}: it is no format of Flink's. {group.shape.remedy}")
        return None
    of_part = sample if part == "value" else MessageSample(sample.keys or ())
    try:
        found = group.schema(part, of_part)
        if group.plain is not None and not found.primary_key:
            groups[0] = group.plain
            found = group.plain.schema(part, of_part)
            notes.add(
                "nothing says which row an update or delete is of, as the keys of the records name no columns: the "
                "table takes each message for a row of its own"
            )
    except (ConfigurationError, SchemaRegistryError) as error:
        notes.add(f"no columns of the {part}: {error}")
        return None
    for note in found.notes:
        notes.add(f"{part}: {note}")
    return found


class _Looker:
    """Sorts messages by shape; `registry` are options of `avro-confluent`, without a url where there is none."""

    def __init__(self, registry: Mapping[str, Any], notes: Notes) -> None:
        self._options, self._notes = registry, notes
        self._settings = AvroConfluentFormat(registry).settings if registry.get("url") else None
        self.tombstones = 0  # of values, those that are null as JSON

    def groups(self, part: Part, messages: Sequence[bytes | None]) -> list[_Group]:
        """The messages of each shape, the most frequent one first; null and blank ones are in none.

        Nor are values that are null as JSON, where other values are JSON.
        """
        documents, places = Documents(), dict[str, list[int]]()
        for place, message in enumerate(messages):
            if message is not None and message.strip():
                shape = shape_of(message, documents)
                places.setdefault(shape, []).append(place)
                if message.startswith(codecs.BOM_UTF8):
                    self._notes.add(
                        f"{part}: some begin with UTF-8's byte order mark: JSON is read without it, text with it"
                    )
                elif shape in SHAPES and SHAPES[shape].format.endswith("json") and 0 in message[:2] + message[-2:]:
                    self._notes.add(
                        f"{part}: some are JSON in UTF-16 or UTF-32, which is read, but by few others than Flink"
                    )
        nulls = places.pop(shapes.TOMBSTONE, [])
        if part == "value" and any(SHAPES[shape].format.endswith("json") for shape in places):
            self.tombstones = len(nulls)
        elif nulls:
            places.setdefault(shapes.TEXT, []).extend(nulls)
        there = sum(map(len, places.values()))
        if {*places} <= {shapes.BINARY, shapes.CONFLUENT, shapes.TEXT}:
            present = {place: message for place, message in enumerate(messages) if message and message.strip()}
            numbers = self._numbers(part, present)
            if numbers is not None and not self._knows(places.get(shapes.CONFLUENT, []), messages):
                return [numbers]
        found = [
            group
            for shape, at in places.items()
            for group in self._of_shape(part, shape, {place: messages[place] or b"" for place in at}, there)
        ]
        return sorted(found, key=lambda group: (-len(group.places), -group.shape.sure))

    def _of_shape(self, part: Part, shape: str, messages: Mapping[int, bytes], there: int) -> list[_Group]:
        if shape == shapes.CONFLUENT:
            return self._confluent(part, messages, there)
        known, options = SHAPES[shape], dict[str, Any]()
        reason = f"{_share(messages, there, part)} {known.are}"
        if shape == shapes.TEXT:
            found = _csv(list(messages.values()))
            if found is not None:
                known, more = found
                reason = f"{_share(messages, there, part)} {known.are}{more}"
        elif shape == shapes.UTF16:
            options["charset"] = "UTF-16"
        elif shape == shapes.OTHER_TEXT:
            options["charset"] = "windows-1252" if any(_has_c1(m) for m in messages.values()) else "ISO-8859-1"
            reason += f", {options['charset']} perhaps"
        reason += f". {known.remedy}" if known.remedy else ""
        group = _Group(known, tuple(messages), reason, options)
        if part == "value" and (known.alone or (shape == shapes.JSON and self.tombstones)):
            return [self._alone(group, "debezium-json", "" if known.alone else shapes.NULLS_OF_CONNECT)]
        return [group]

    def _alone(self, group: _Group, format: str, why: str = "") -> _Group:
        """Rows as changes of an upsert table, with the way to read them as rows beside."""
        options = {**group.options, FLATTENED.name: "true"}
        shape = replace(group.shape, format=format)
        return replace(group, shape=shape, reason=group.reason + why, options=options, plain=group)

    def _numbers(self, part: Part, messages: Mapping[int, bytes]) -> _Group | None:
        """Keys or values that are all numbers of 4 or 8 bytes, as Kafka's own serializers write them."""
        sizes = set(map(len, messages.values()))
        size = sizes.pop() if len(sizes) == 1 else 0
        if size not in _WIDTHS or all(is_utf8(m) and not _has_control(m) for m in messages.values()):
            return None
        heads = {message[0] for message in messages.values()}
        if heads.issubset(_DOUBLE_BYTES) and size == struct.calcsize("d"):
            kind, word = "DOUBLE", "a DOUBLE"
        elif heads.issubset(_SIGN_BYTES):
            kind, word = _WIDTHS[size], f"a whole number ({_WIDTHS[size]})"
        else:
            return None
        are = f"have {size} bytes, the first always one of {word} in big-endian order, as Kafka's serializers write it"
        reason = f"{_share(messages, len(messages), part)} {are}"
        return _Group(Shape("raw", are, 0.7), tuple(messages), reason, {}, kind)

    def _knows(self, places: Sequence[int], messages: Sequence[bytes | None]) -> bool:
        """Whether the registry knows what would be the schema id of one of these messages."""
        if self._settings is None or not places:
            return False
        ids = Counter(schema_id_of(messages[place] or b"") or 0 for place in places)
        try:
            answers = schemas_by_id(self._settings, [schema_id for schema_id, _ in ids.most_common(_MOST_IDS)])
        except SchemaRegistryError:
            return False
        return any(_kind(answer) != "unknown" for answer in answers.values())

    def _confluent(self, part: Part, messages: Mapping[int, bytes], there: int) -> list[_Group]:
        """By what the registry says of the ids."""
        ids = {place: schema_id_of(message) or 0 for place, message in messages.items()}
        usual = Counter(ids.values()).most_common(_MOST_IDS)
        shown = ", ".join(str(schema_id) for schema_id, _ in usual[:5]) + (", ..." if len(usual) > 5 else "")
        known = SHAPES[shapes.CONFLUENT]
        if self._settings is None:
            self._notes.add(
                "give a schema registry, and it is asked what the ids stand for: Avro, JSON Schema, Protobuf"
            )
            reason = f"{_share(messages, there, part)} {known.are} ({shown}); no registry was asked what they stand for"
            return [_Group(known, tuple(messages), reason)]
        try:
            answers = schemas_by_id(self._settings, [schema_id for schema_id, _ in usual])
        except SchemaRegistryError as error:
            self._notes.add(str(error))
            return [_Group(known, tuple(messages), f"{_share(messages, there, part)} {known.are} ({shown})")]
        kinds: dict[str, list[int]] = {}
        for place, schema_id in ids.items():
            kinds.setdefault(_kind(answers.get(schema_id)), []).append(place)
        return [self._confluent_group(part, kind, places, there, shown) for kind, places in kinds.items()]

    def _confluent_group(self, part: Part, kind: str, places: list[int], there: int, shown: str) -> _Group:
        known, start = (
            SHAPES[shapes.CONFLUENT],
            f"{_share(places, there, part)} {SHAPES[shapes.CONFLUENT].are} ({shown})",
        )
        if kind == "AVRO":
            return _Group(replace(known, sure=1.0), tuple(places), f"{start}; they are Avro", self._options)
        if kind == "DEBEZIUM":
            changes = replace(known, format=DEBEZIUM, sure=1.0)
            return _Group(changes, tuple(places), f"{start}; they are Debezium's changes in Avro", self._options)
        if kind in _ROWS_ALONE:
            rows = replace(known, sure=1.0, marked=kind == _ROWS_MARKED)
            reason = f"{start}; they are Avro {shapes.MARKED if rows.marked else shapes.NAMED}"
            plain = _Group(rows, tuple(places), reason, self._options)
            return plain if part == "key" else self._alone(plain, DEBEZIUM)
        if kind == "unknown":
            why = f"{start}, but the registry does not know their ids: perhaps another registry, or other bytes"
            return _Group(
                Shape("binary", known.are, 0.3, False, "Look for the registry of the producer"), tuple(places), why
            )
        remedy = (
            "The format protobuf reads messages without this frame"
            if kind == "PROTOBUF"
            else SHAPES[shapes.CONFLUENT_JSON].remedy
        )
        name = {"PROTOBUF": "protobuf", "JSON": "json-schema"}.get(kind, kind.lower())
        shape = Shape(name, known.are, 1.0, False, remedy)
        return _Group(shape, tuple(places), f"{start}; the registry says {kind}. {remedy}")


def _kind(answer: str | Refused | None) -> str:
    """The kind of schema that a registry has for an id."""
    if isinstance(answer, str):
        return _kind_of_avro(answer)
    _, mark, kind = (answer.reason if answer is not None else "").partition("is no Avro schema but ")
    return kind.split()[0] if mark and kind else "unknown"


def _kind_of_avro(answer: str) -> str:
    """Whether a schema is that of Debezium's changes in Avro, or of its rows alone."""
    try:
        schema = parse_schema(answer, check_defaults=False)
    except SchemaError:
        return "AVRO"
    names = {field.name for field in schema.fields}
    if names >= {"before", "after", "op"}:
        return "DEBEZIUM"
    if "__deleted" in names:
        return _ROWS_MARKED
    said = image_schema_from_avro(schema, flat=True)
    named = said is not None and shapes.is_named_by_debezium(replace(said, name=schema.full_name))
    return _ROWS_NAMED if named or shapes.MARKS_OF_ROWS & names else "AVRO"


def _share(messages: Any, there: int, part: Part) -> str:
    return f"{len(messages)} of {there} {'keys' if part == 'key' else 'messages'}"


def _csv(messages: list[bytes]) -> tuple[Shape, str] | None:
    """csv, for texts that a delimiter parts into equally many columns."""
    delimiter, width, share = delimiter_of(messages)
    enough = len(messages) >= _CSV_RECORDS or width >= _CSV_COLUMNS
    if width < 2 or share < _CSV_SHARE or not enough:
        return None
    name = {"\t": "a tab"}.get(delimiter, f"'{delimiter}'")
    return Shape("csv", "are text", 0.8), f", {share:.0%} of which has {width} columns with {name} between"


def _has_c1(message: bytes) -> bool:
    return any(0x80 <= byte < 0xA0 for byte in message)


def _has_control(message: bytes) -> bool:
    return any(byte < 0x20 or byte == 0x7F for byte in message)
