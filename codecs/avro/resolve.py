"""Schema resolution: compile a writer's and a reader's schema into a tree of actions.

Rules: "Schema Resolution" of the Avro specification, as implemented by Java's `org.apache.avro.Resolver`.

- A part that does not match is an error only for messages that have it.
- The name of a record does not count. The name of an enum or a fixed counts, without its namespace.
- Two unions that only differ in namespaces are matched branch by branch.
- In any other union of the reader, an enum or a fixed matches the branch of its full name, and a record the only
  record. If its fields do not match, the error says which, and not only that the union has no such record.
- A union of the reader has one type, or one type and null: a table's column can have no other union.
- Timestamps, times and decimals are converted from the writer's unit or scale to the reader's, unlike in Java's
  library. A coarser unit rounds down, and a decimal that would lose digits is an error. A decimal with too many digits
  is null, as in Flink.
- What values mean must match too, unlike in Java's library: a date is not a time, a text is not a decimal, and a
  decimal is not a text (`_means_another`). A type without a logical type gets the reader's, or loses the writer's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from kvformat.codecs.avro import decimals
from kvformat.codecs.avro.logical import TIMES
from kvformat.codecs.avro.mismatch import mismatch_text, way_out
from kvformat.codecs.avro.parse import is_valid_default
from kvformat.codecs.avro.schema import BIG_DECIMAL, MISSING, NAMED, Field, Schema
from kvformat.registry.contract.cache import cached_by_identity

_PROMOTED: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_PLAIN: Final = {"enum": "string", "fixed": "bytes"}
_DECIMALS: Final = ("decimal", BIG_DECIMAL)
_DEFAULT: Final = ", or give it a default in the option 'schema' if that is set"
_COUNTS: Final = ("int", "long")


@dataclass(frozen=True, slots=True, eq=False)
class Null:
    """Reads null, which has no bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """Reads a boolean, int, long, float or double as another one. `times` and `divisor` convert the unit."""

    writer: str
    reader: str
    times: int = 1
    divisor: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class ByteString:
    """Reads a string, bytes or a fixed (then `size` is set) as a string, bytes, a fixed or a decimal."""

    reader: str
    size: int | None = None
    decimal: decimals.DecimalReading | decimals.BigDecimalReading | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Enum:
    """Reads an enum. `texts` are the reader's symbols for the writer's `names`, None for an unknown symbol."""

    texts: tuple[str | None, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """Gives a default, as a Python value that `pyarrow.array` accepts for the reader's Arrow type; maps as pairs."""

    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Fail:
    """Fails, because the schemas do not match here. `of_types`: the type of a column is the reason."""

    reason: str
    of_types: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Skip:
    """Skips a value of the writer."""

    schema: Schema


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Reads a field of the writer's record into the reader's field `target`, or skips it if that is None."""

    name: str
    target: str | None
    action: Action


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """Reads the writer's fields in order and adds the defaults of the reader's other fields."""

    steps: tuple[Step, ...]
    defaults: dict[str, Action]


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """Reads an array. An item has at least `least_size` bytes and fills `cells` columns."""

    item: Action
    least_size: int
    cells: int


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """Reads a map; the last value of a repeated key counts. A value fills `cells` columns."""

    value: Action
    cells: int


@dataclass(frozen=True, slots=True, eq=False)
class Union:
    """Reads a union of the writer, with an action for each branch."""

    branches: tuple[Action, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Reads a value into one of several columns, which has this number."""

    number: int
    action: Action


Action = Null | Number | ByteString | Enum | Constant | Fail | Skip | Record | Array | Map | Union | Choice


@cached_by_identity
def choice(action: Action, number: int) -> Choice:
    """Return a plan for one of several columns. Plans are cached."""
    return Choice(number, action)


@cached_by_identity
def plan(writer: Schema, reader: Schema, named_as_plain: bool = False, legacy: bool = True) -> Action:
    """Return the plan to read data of the writer's schema with the reader's schema. Plans are cached.

    named_as_plain: whether an enum is also read as a string, and a fixed as bytes. Java's library refuses both.
    legacy: Flink's option `timestamp_mapping.legacy`, for the types of columns in errors.
    Raises `SchemaError` if a table's column can't have the type of a part of the reader's schema.
    """
    _ = reader.arrow_type
    return _Resolver(writer, reader, named_as_plain, legacy).root_action()


class _Resolver:
    def __init__(
        self, writer: Schema, reader: Schema, named_as_plain: bool, legacy: bool = True, *, with_way_out: bool = True
    ) -> None:
        self._named_as_plain, self._legacy, self._with_way_out = named_as_plain, legacy, with_way_out
        self._writer, self._root = writer, reader
        self._names: dict[str, str] = {}
        self._fields: dict[str, dict[str, str]] = {}
        self._known: dict[tuple[int, int], Action] = {}
        if writer != reader:
            self._gather_aliases(reader, set())

    def root_action(self) -> Action:
        """Return the action that reads a datum. The datum null of a union is a message without a row, not an error."""
        w, r = self._writer, self._root
        action = self.resolve(w, r)
        if not isinstance(action, Union) or r.type != "record":
            return action
        nulls = (branch.type == "null" for branch in w.branches)
        return Union(
            tuple(
                Null() if is_null else branch_action
                for is_null, branch_action in zip(nulls, action.branches, strict=True)
            )
        )

    def resolve(self, w: Schema, r: Schema) -> Action:
        """Return the action that reads a value of `w` as `r`. Cached, because unions repeat pairs."""
        key = id(w), id(r)
        if key not in self._known:
            self._known[key] = self._complete(self._resolve(w, r), w, r)
        return self._known[key]

    def _complete(self, action: Action, w: Schema, r: Schema) -> Action:
        """Add to the error of a type what reads all values of `w`."""
        if not isinstance(action, Fail) or not action.of_types or not self._with_way_out:
            return action
        how = way_out(w, r, _reads_all, named_as_plain=self._named_as_plain, legacy=self._legacy)
        return Fail(action.reason + how)

    def _resolve(self, w: Schema, r: Schema) -> Action:
        if w.type == "union" and self._equivalent(w, r, {}):
            return Union(
                tuple(self._branch(of_w, of_r, w, r) for of_w, of_r in zip(w.branches, r.branches, strict=True))
            )
        if w.type == "union":
            return Union(tuple(self._branch(branch, r, w, r) for branch in w.branches))
        if r.type == "union":
            branch = self._same_branch(w, r) or self._promoted_branch(w, r)
            return self._mismatch(w, r) if branch is None else self._part(w, branch, r)
        if w.type == r.type:
            return self._same_type(w, r)
        if r.type not in self._promoted(w):
            return self._mismatch(w, r)
        if _means_another(w, r):
            return self._mismatch(w, r)
        if w.type == "enum":
            return Enum(w.symbols, w.symbols)
        if w.type == "fixed":
            return ByteString(r.type, w.size, self._decimal(w, r))
        if w.type in ("string", "bytes"):
            return ByteString(r.type, decimal=self._decimal(w, r))
        return self._number(w, r)

    def _branch(self, of_w: Schema, of_r: Schema, w: Schema, r: Schema) -> Action:
        """Return the action that reads a branch of `w` as one of `r`. Its error says what reads all branches."""
        return self._complete(self._part(of_w, of_r, r), w, r)

    def _part(self, w: Schema, of_r: Schema, r: Schema) -> Action:
        """Return the action that reads `w` as a branch of `r`. Its error names the type of `r`, which columns have."""
        action = self._resolve(w, of_r)
        return self._mismatch(w, r) if isinstance(action, Fail) and action.of_types else action

    def _same_type(self, w: Schema, r: Schema) -> Action:
        if w.type == "null":
            return Null()
        if _means_another(w, r):
            return self._mismatch(w, r)
        if w.type in ("string", "bytes"):
            return ByteString(r.type, decimal=self._decimal(w, r))
        if w.type == "fixed":
            if self._short_name(w) != r.name or w.size != r.size:
                return self._mismatch(w, r)
            return ByteString(r.type, w.size, self._decimal(w, r))
        if w.type == "enum":
            return self._enum(w, r)
        if w.type == "record":
            return self._record(w, r)
        if w.items is not None and r.items is not None:
            return Array(self.resolve(w.items, r.items), w.items.least_size, r.items.cells)
        if w.values is not None and r.values is not None:
            return Map(self.resolve(w.values, r.values), r.values.cells)
        return self._number(w, r)

    def _promoted(self, w: Schema) -> tuple[str, ...]:
        """Return the other types that a value of `w` is read as."""
        if w.type in _PLAIN and self._named_as_plain:
            return (_PLAIN[w.type],)
        return _PROMOTED.get(w.type, ())

    def _mismatch(self, w: Schema, r: Schema, more: str = "") -> Fail:
        if more:
            return Fail(f"Found {w}, expecting {r.full_name}{more}")
        if r is self._root and (r.optional or r).type == "record":
            return Fail(f"Found {w}, expecting a record, whose fields are the columns of the table")
        return Fail(mismatch_text(w, r, legacy=self._legacy), of_types=True)

    # --- names ------------------------------------------------------------------------------------------

    def _gather_aliases(self, r: Schema, seen: set[int]) -> None:
        """Collect the reader's aliases of types, and of fields for each record."""
        if id(r) in seen:
            return
        seen.add(id(r))
        self._names.update(dict.fromkeys(r.aliases, r.full_name))
        for f in r.fields:
            for alias in f.aliases:
                self._fields.setdefault(r.full_name, {})[alias] = f.name
        for child in r.children:
            self._gather_aliases(child, seen)
        for alias in r.aliases if r.full_name in self._fields else ():
            self._fields[alias] = self._fields[r.full_name]

    def _name(self, w: Schema) -> str:
        return self._names.get(w.full_name, w.full_name) if w.type in NAMED else w.full_name

    def _short_name(self, w: Schema) -> str:
        """Return the name without its namespace. Outside of unions, only this counts for an enum or a fixed."""
        return self._name(w).rpartition(".")[2]

    def _field_names(self, w: Schema) -> list[str]:
        """Return the names of a record's fields after the reader's aliases are applied."""
        renamed = self._fields.get(self._name(w), {}) if w.fields else {}
        return [renamed.get(f.name, f.name) for f in w.fields]

    # --- kinds ------------------------------------------------------------------------------------------

    def _number(self, w: Schema, r: Schema) -> Action:
        if w.logical is None or r.logical is None:
            return Number(w.type, r.type)
        finer = TIMES[r.logical.name].digits - TIMES[w.logical.name].digits
        return Number(w.type, r.type, 10 ** max(finer, 0), 10 ** max(-finer, 0))

    def _decimal(self, w: Schema, r: Schema) -> decimals.DecimalReading | decimals.BigDecimalReading | None:
        if r.logical is None or r.logical.name != "decimal":
            return None
        precision, scale = r.logical.precision, r.logical.scale
        if _kind(w) == BIG_DECIMAL:
            return decimals.BigDecimalReading(precision, scale)
        return decimals.DecimalReading(precision, scale, _written_scale(w, scale), overflow_as_null=True)

    def _enum(self, w: Schema, r: Schema) -> Action:
        if self._short_name(w) != r.name:
            return self._mismatch(w, r)
        return Enum(tuple(symbol if symbol in r.symbols else r.default for symbol in w.symbols), w.symbols)

    def _record(self, w: Schema, r: Schema) -> Action:
        named = list(zip(self._field_names(w), w.fields, strict=True))
        written = {name for name, _ in named}
        if len(written) < len(named):
            return self._mismatch(w, r, ", because an alias gives two fields the same name")
        defaults: dict[str, Action] = {}
        for f in r.fields:
            if f.name in written:
                continue
            if f.default is MISSING:
                return self._mismatch(w, r, f", missing required field {f.name}. Declare it without NOT NULL{_DEFAULT}")
            defaults[f.name] = _default(f)
        wanted = {f.name: f.schema for f in r.fields}
        steps = [self._step(name, f, wanted.get(name)) for name, f in named]
        return Record(tuple(steps), defaults)

    def _step(self, name: str, f: Field, wanted: Schema | None) -> Step:
        if wanted is None:
            return Step(f.name, None, Skip(f.schema))
        return Step(f.name, name, self.resolve(f.schema, wanted))

    # --- unions of the reader ---------------------------------------------------------------------------

    def _equivalent(self, w: Schema, r: Schema, seen: dict[tuple[int, int], bool]) -> bool:
        """Return whether schemas only differ in namespaces, aliases, defaults and logical types.

        Java calls this `unionEquiv`.
        """
        if w.type != r.type or (w.type in NAMED and self._short_name(w) != r.name):
            return False
        if w.type == "record":
            key = id(w), id(r)
            if key not in seen:
                seen[key] = True  # a recursive reference does not make a difference
                seen[key] = self._field_names(w) == [f.name for f in r.fields] and self._all_equivalent(
                    [f.schema for f in w.fields], [f.schema for f in r.fields], seen
                )
            return seen[key]
        return (
            w.size == r.size
            and w.symbols == r.symbols
            and self._all_equivalent(list(w.children), list(r.children), seen)
        )

    def _all_equivalent(self, ws: Sequence[Schema], rs: Sequence[Schema], seen: dict[tuple[int, int], bool]) -> bool:
        return len(ws) == len(rs) and all(self._equivalent(w, r, seen) for w, r in zip(ws, rs, strict=True))

    def _same_branch(self, w: Schema, r: Schema) -> Schema | None:
        alike = next((branch for branch in r.branches if branch.type == w.type), None)
        if alike is None or w.type not in NAMED or alike.full_name == self._name(w):
            return alike
        return alike if w.type == "record" else None

    def _promoted_branch(self, w: Schema, r: Schema) -> Schema | None:
        kinds = self._promoted(w)
        return next((branch for branch in r.branches if branch.type in kinds), None)


def _reads_all(w: Schema, r: Schema, named_as_plain: bool) -> bool:
    """Return whether a reader's schema reads all values of a writer's schema."""
    return reads_all(_Resolver(w, r, named_as_plain, with_way_out=False).resolve(w, r))


def reads_all(action: Action) -> bool:
    """Return whether no part of a plan fails."""
    return not any(isinstance(p, Fail) or (isinstance(p, Enum) and None in p.texts) for p in parts(action))


def parts(action: Action) -> Iterator[Action]:
    """Yield a plan and all plans inside of it."""
    yield action
    inner: Iterable[Action] = ()
    match action:
        case Record():
            inner = (*(step.action for step in action.steps), *action.defaults.values())
        case Array():
            inner = (action.item,)
        case Map():
            inner = (action.value,)
        case Union():
            inner = action.branches
        case Choice():
            inner = (action.action,)
    for part in inner:
        yield from parts(part)


# --- what values mean ----------------------------------------------------------------------------------------


def _kind(schema: Schema) -> str:
    """Return the name of a logical type, empty for a plain type."""
    return "" if schema.logical is None else schema.logical.name


def _means_another(w: Schema, r: Schema) -> bool:
    """Return whether values of `w` would become other values as `r`, although their types match.

    A decimal's bytes are not a text, and a text's are not a decimal. A date is not a time of a day or a timestamp.
    """
    written, wanted = _kind(w), _kind(r)
    if r.type == "string":
        return written in _DECIMALS
    if wanted == "decimal":
        return w.type == "string" or written not in ("", *_DECIMALS)
    if w.logical is None or r.logical is None or w.type not in _COUNTS or r.type not in _COUNTS:
        return False
    return TIMES[written].quantity != TIMES[wanted].quantity


def _written_scale(w: Schema, scale: int) -> int:
    """Return the scale of a writer's decimal; without a decimal the reader's, as in Java.

    A decimal whose precision is not valid still says where its point is. Java's library ignores it.
    """
    if w.logical is not None and w.logical.name == "decimal":
        return w.logical.scale
    declared = w.properties.get("scale", 0) if w.properties.get("logicalType") == "decimal" else scale
    return declared if isinstance(declared, int) and declared >= 0 else scale


# --- defaults ------------------------------------------------------------------------------------------------


def _default(f: Field) -> Action:
    if not is_valid_default(f.schema, f.default):
        return Fail(f"the default of field {f.name} is not a valid {f.schema}")
    try:
        return Constant(_value(f.schema, f.default))
    except ValueError as cause:
        return Fail(f"the default of field {f.name} can't be used: {cause}")


def _value(schema: Schema, value: Any) -> Any:
    """Convert a JSON default to the value of a `Constant`. A union takes the first branch that fits."""
    if schema.type == "union":
        return _value(next(branch for branch in schema.branches if is_valid_default(branch, value)), value)
    if schema.type in ("float", "double"):
        return float(value)
    if schema.type in ("bytes", "fixed"):
        return _bytes_value(schema, value.encode("latin-1", "replace"))
    if schema.type == "enum" and value not in schema.symbols:
        raise ValueError(f"{value} is not in the enum symbol set")
    if schema.items is not None:
        return [_value(schema.items, item) for item in value]
    if schema.values is not None:
        return [(key, _value(schema.values, item)) for key, item in value.items()]
    if schema.type == "record":
        return {f.name: _value(f.schema, value.get(f.name, f.default)) for f in schema.fields}
    return value


def _bytes_value(schema: Schema, value: bytes) -> bytes | Decimal | None:
    if schema.type == "fixed":
        value = value[: schema.size].ljust(schema.size, b"\0")
    logical = schema.logical
    if logical is None or logical.name != "decimal":
        return value
    return decimals.DecimalReading(logical.precision, logical.scale, logical.scale, overflow_as_null=False).value(value)
