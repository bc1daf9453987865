"""Rules of a format as an object: it is an immutable value with declared options, and shows no secrets."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from kvformat.registry.contract import discovery
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.errors import ConfigurationError, DirectionError, OptionError, UnknownFormatError
from kvformat.registry.contract.options import Option, find_option
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import quoted
from kvformat.registry.format import Format
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.testing.results import decode_results, select_columns
from kvformat.registry.testing.rules import NotApplicable, RuleBroken, rule
from kvformat.registry.testing.subject import SECRET, Case, Subject, as_array, cut

_THREADS: Final = 8

_PYTHON: Final[dict[str, type | tuple[type, ...]]] = {
    "string": str,
    "enum": str,
    "boolean": bool,
    "int": int,
    "long": int,
    "double": (int, float),
    "duration": dt.timedelta,
    "memory": int,
    "list": tuple,
    "map": Mapping,
    "format": Format,
}
"""The Python type of an option's default, by the option's type."""
_MALFORMED: Final = {
    "boolean": "maybe",
    "int": "many",
    "long": "many",
    "double": "many",
    "duration": "soon",
    "memory": "much",
    "format": "no format",
}


@rule("object")
def repr_is_a_call(subject: Subject) -> None:
    """The repr of a format is a constructor call that creates an equal format."""
    for format in _formats(subject):
        text = subject.context = repr(format)
        missing = {name: value for name, value in format._raw_options.items() if str(value) not in text}
        if any(not _is_masked(subject, name) for name in missing):
            raise RuleBroken(f"{text}: the repr lacks options that are not secrets: {', '.join(missing)}")
        if missing:
            subject.compared += 1
            continue
        evaluated = eval(text, {subject.cls.__name__: subject.cls})
        subject.check_equal(f"the value of {text}", evaluated, format)


def _is_masked(subject: Subject, name: str) -> bool:
    spec = find_option(subject.cls.option_specs, name)
    return spec is not None and spec.sensitive


def _formats(subject: Subject) -> list[Format]:
    """Return the format with the declared options and the formats of all samples."""
    return [subject.format, *(case.format for case in subject.cases)]


@rule("object")
def values(subject: Subject) -> None:
    """Formats are values. They are equal, with equal hashes, if class and options are equal, also after pickling."""
    for format in _formats(subject):
        subject.context = repr(format)
        unpickled = pickle.loads(pickle.dumps(format))
        copy = type(format)(dict(reversed(list(format._raw_options.items()))))
        for name, equal in (("the unpickled format", unpickled), ("a format with the same options", copy)):
            subject.check(repr(format), equal == format, f"{name} is not equal")
            subject.check_equal(f"{format!r}, the hash of {name}", hash(equal), hash(format))
            subject.check_equal(f"{format!r}, the options of {name}", dict(equal.options), dict(format.options))
        subject.check(repr(format), not format == None, "it equals None")  # noqa: E711, SIM201 - this tests __eq__
    for different in (_with_option(subject, spec) for spec in subject.cls.option_specs):
        if different is not None and dict(different._raw_options) != dict(subject.format._raw_options):
            problem = f"it equals {subject.format!r}, which has other options"
            subject.check(repr(different), not different == subject.format, problem)  # noqa: SIM201 - this tests __eq__


def _text_for(spec: Option) -> str:
    """Return an allowed value of the option. It differs from the default if possible."""
    if spec.allowed:
        return next((value for value in spec.allowed if value != spec.default), spec.allowed[0])
    texts = {"boolean": "false" if spec.default is True else "true", "int": "3", "long": "3", "double": "0.5"}
    return texts.get(spec.type) or {"duration": "7 s", "memory": "3 mb", "list": "a;b", "map": "a:b"}.get(
        spec.type, "x"
    )


def _with_option(subject: Subject, spec: Option) -> Format | None:
    """Return the format with one more option, or None if the options cannot be combined."""
    try:
        return subject.make({**subject.declared.options, spec.name: _text_for(spec)})
    except ConfigurationError:
        return None


@rule("object", page="robustness.md")
def secrets(subject: Subject) -> None:
    """The value of a sensitive option never appears in a repr, a text or an error."""
    specs = [spec for spec in subject.cls.option_specs if spec.sensitive]
    if not specs:
        raise NotApplicable("no option is declared as sensitive")
    for spec in specs:
        texts: dict[str, str] = {}
        try:
            value = f"a:{SECRET}" if spec.type == "map" else SECRET
            format = subject.make({**subject.declared.options, spec.name: value})
        except ConfigurationError as error:
            texts["the error of the option"] = str(error)
        else:
            unpickled = pickle.loads(pickle.dumps(format))
            texts |= {"repr": repr(format), "str": str(format), "repr(options)": repr(format.options)}
            texts |= {"the repr of the unpickled format": repr(unpickled), "vars": repr(vars(format))}
            texts |= _errors_of(subject, format)
        for name, text in texts.items():
            problem = f"{name} shows the secret: {cut(text.replace(SECRET, '<the secret>'))}"
            subject.check(f"option '{spec.name}'", SECRET not in text, problem)


def _errors_of(subject: Subject, format: Format) -> dict[str, str]:
    """Return the texts of errors of bad messages and of a wrong call."""
    texts: dict[str, str] = {}
    for case in subject.cases[:1]:
        try:
            batch = format.decode_batch(as_array(subject.bad[case.name][:20]), case.schema)
            texts |= {"an error of a message": str(batch.errors)}
            format.decode_batch(as_array([]), case.schema, metadata=["no-such-key"])
        except Exception as error:
            texts[type(error).__name__] = str(error)
    return texts


@rule("object")
def options_are_declared(subject: Subject) -> None:
    """Every option has a `doc`, and its default has the option's type and is an allowed value."""
    specs = subject.cls.option_specs
    names = [name for spec in specs for name in (spec.name, *spec.fallback)]
    subject.check_equal("option names that are declared twice", sorted({n for n in names if names.count(n) > 1}), [])
    for spec in specs:
        where = subject.context = f"option '{spec.name}'"
        subject.check(where, bool(spec.doc.strip()), "its `doc` is empty")
        subject.check(where, spec.type in _PYTHON, f"its type {spec.type!r} is unknown")
        if spec.default is not None:
            fits = isinstance(spec.default, _PYTHON[spec.type])
            subject.check(where, fits, f"its default {spec.default!r} is not of the type {spec.type}")
            allowed = not spec.allowed or spec.default in spec.allowed
            subject.check(where, allowed, f"its default {spec.default!r} is not in `allowed`")


@rule("object")
def options_are_checked(subject: Subject) -> None:
    """An unknown option raises OptionError that names the known options. A malformed value raises OptionError that
    names the option.
    """
    name = f"{subject.cls.option_specs[0].name}x" if subject.cls.option_specs else "no-such-option"
    text = _option_error(subject, name, "x")
    hint = subject.cls.option_specs[0].name if subject.cls.option_specs else "(none)"
    subject.check(f"the unknown option {name!r}", hint in text, f"the error {text!r} does not name {hint}")
    for spec in subject.cls.option_specs:
        wrong = "no-such-value" if spec.allowed else _MALFORMED.get(spec.type)
        if wrong is not None and spec.checked is None:
            text = _option_error(subject, spec.name, wrong)
            subject.check(f"option '{spec.name}'", spec.name in text, f"the error {text!r} does not name the option")


def _option_error(subject: Subject, name: str, value: str) -> str:
    try:
        subject.make({**subject.declared.options, name: value})
    except OptionError as error:
        return str(error)
    raise RuleBroken(f"option {name!r} with the value {value!r}: expected OptionError, got no error")


@rule("object")
def immutable(subject: Subject) -> None:
    """A format is immutable. Changing the dict of its options, or using the format, does not change it."""
    options = dict(subject.declared.options)
    format = subject.cls(options)
    before, state = repr(format), (hash(format), dict(format.options))
    options["a-later-option"] = "x"
    options.update(dict.fromkeys(subject.declared.options, "changed"))
    try:
        format.options["a-later-option"] = "x"  # type: ignore[index]
    except TypeError:
        subject.compared += 1
    for case in subject.cases:
        if case.sample.options is None:
            _decode_and_encode(subject, case, format)
    subject.check_equal("the repr, after the options were changed and the format was used", repr(format), before)
    subject.check_equal("hash and options, after the format was used", (hash(format), dict(format.options)), state)
    subject.check("after the format was used", format == subject.make(), "it no longer equals a new format")


def _decode_and_encode(subject: Subject, case: Case, format: Format, shift: int = 0) -> tuple[list[Any], list[Any]]:
    """Decode the messages of a case and some changed messages, and encode its rows.

    `shift` rotates messages and rows to the left. Returns the results of decoding and of encoding.
    """
    other = replace(case, format=format)
    messages = _rotated([*case.messages.to_pylist(), *subject.changed[case.name][:60]], shift)
    indices = pa.array(_rotated(list(range(len(case.rows))), shift), pa.int64())
    decoded = other.decode(messages) if subject.declared.direction != "encode" else []
    kinds = None if case.kinds is None else case.kinds.take(indices)
    encoded = other.encode(case.rows.take(indices), kinds) if subject.declared.direction != "decode" else []
    return decoded, encoded


def _rotated(values: list[Any], count: int) -> list[Any]:
    count %= max(len(values), 1)
    return [*values[count:], *values[:count]]


def _compare_both(subject: Subject, where: str, actual: tuple[list[Any], ...], expected: tuple[list[Any], ...]) -> None:
    for part, results, wanted in zip(("decoded", "encoded"), actual, expected, strict=True):
        for result, want in zip(results, wanted, strict=True):
            subject.check_equal(f"{where}, {part}", result, want)


@rule("object")
def determinism(subject: Subject) -> None:
    """The same batch gives the same results every time, also with an equal format and with an unpickled format."""
    for case in subject.each_case():
        first = _decode_and_encode(subject, case, case.format)
        others = (case.format, subject.make(case.sample.options), pickle.loads(pickle.dumps(case.format)))
        names = ("the second time", "with an equal format", "with an unpickled format")
        for name, format in zip(names, others, strict=True):
            _compare_both(subject, f"{case.name}, {name}", _decode_and_encode(subject, case, format), first)


@rule("object")
def no_state(subject: Subject) -> None:
    """The results of a batch do not depend on earlier batches, with the same schema or with another."""
    for case in subject.each_case():
        fresh, used = subject.make(case.sample.options), subject.make(case.sample.options)
        for other in subject.cases:
            if other is not case and other.sample.options == case.sample.options:
                _decode_and_encode(subject, other, used)
        if subject.declared.direction != "encode":
            for message in subject.changed[case.name][-40:]:
                used.decode_batch(as_array([message, None, *case.good]), case.schema)
        expected = _decode_and_encode(subject, case, fresh)
        _compare_both(subject, f"{case.name}, after other batches", _decode_and_encode(subject, case, used), expected)


@rule("object", page="robustness.md#threads")
def threads(subject: Subject) -> None:
    """8 threads that share a format get the same results as a single thread. Each uses another order of messages."""
    for case in subject.each_case():
        expected = _decode_and_encode(subject, case, case.format)

        def run(shift: int, case: Case = case) -> tuple[list[Any], list[Any]]:
            return _decode_and_encode(subject, case, case.format, shift)

        with ThreadPoolExecutor(_THREADS) as pool:
            for shift, actual in enumerate(pool.map(run, range(_THREADS * 2))):
                wanted = tuple(_rotated(part, shift) for part in expected)
                _compare_both(subject, f"{case.name}, by thread {shift}", actual, wanted)


@rule("object")
def one_way(subject: Subject) -> None:
    """A decode-only or encode-only format raises DirectionError for the other direction. It raises OptionError if its
    options are the reason.
    """
    calls: dict[str, Callable[[Case], object]] = {
        "encode": lambda case: case.format.encode_batch(case.rows[:0], case.schema),
        "decode": lambda case: case.format.decode_batch(as_array([]), case.schema),
    }
    for case in subject.cases:
        for direction, call in calls.items():
            subject.context = f"{case.name}, {direction} of an empty batch"
            expected = "no error" if subject.declared.direction in ("both", direction) else "DirectionError"
            try:
                call(case)
                outcome = "no error"
            except (DirectionError, OptionError):
                outcome = "DirectionError"
            subject.check_equal(subject.context, outcome, expected)


@contextmanager
def registered(subject: Subject) -> Iterator[None]:
    """Register the format, so that tables find it by its name."""
    try:
        is_registered = discovery.format_class(subject.identifier) is subject.cls
    except UnknownFormatError:
        is_registered = False
    if is_registered:
        yield
        return
    before = discovery._registered.get(subject.identifier)
    discovery._registered[subject.identifier] = subject.cls
    try:
        yield
    finally:
        if before is None:
            del discovery._registered[subject.identifier]
        else:
            discovery._registered[subject.identifier] = before


def kafka_table(subject: Subject, case: Case, part: str) -> KeyValueFormat:
    """Create a Kafka table with the sample's columns in its key or value. The other part is one BYTES column of raw."""
    other = "key" if part == "value" else "value"
    columns = [f"{quoted(field.name)} {field.type}" for field in row_type(case.schema).fields]
    raw_column = f"{_spare_name(case)} BYTES"
    name = subject.identifier
    options = {
        "connector": "kafka",
        "topic": "t",
        f"{part}.format": name,
        f"{other}.format": "raw",
        "value.fields-include": "EXCEPT_KEY",
    }
    options |= {f"{part}.{name}.{key}": value for key, value in case.format._raw_options.items()}
    options["key.fields"] = ";".join(case.schema.names) if part == "key" else _spare_name(case)
    return KeyValueFormat(", ".join([*columns, raw_column]), options)


def _spare_name(case: Case) -> str:
    """Return a column name that the sample does not have."""
    name = "spare"
    while name in case.schema.names:
        name += "_"
    return name


@rule("object", page="key-value.md", needs=("decode",))
def key_and_value(subject: Subject) -> None:
    """A table may use the format as its value, and an insert-only format as its key. Another format as key raises
    ConfigurationError.
    """
    with registered(subject):
        for case in subject.cases:
            good, expected = case.good, case.decode(case.good)
            for part in ("key", "value"):
                subject.context = f"{case.name}, as the {part} of a table"
                if part == "key" and subject.format.changelog_mode is not ChangelogMode.INSERT_ONLY:
                    _check_key_error(subject, case)
                    continue
                raw = as_array([b"x"] * len(good))
                keys, values = (as_array(good), raw) if part == "key" else (raw, as_array(good))
                batch = kafka_table(subject, case, part).decode_batch(keys, values)
                results = decode_results(replace(batch, rows=select_columns(batch.rows, range(len(case.schema.names)))))
                subject.check_decoded(subject.context, good, results, expected)


def _check_key_error(subject: Subject, case: Case) -> None:
    try:
        kafka_table(subject, case, "key").decode_batch(as_array([]), as_array([]))
    except ConfigurationError:
        subject.compared += 1
    else:
        problem = "expected ConfigurationError, because the format is not insert-only"
        raise RuleBroken(f"{subject.context}: {problem}")
