"""The rules of a format as an object: a value without secrets, with declared options, that keeps nothing of a batch."""

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
from kvformat.registry.contract.format import Format
from kvformat.registry.contract.options import Option
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import quoted
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.testing.answers import answers, with_columns
from kvformat.registry.testing.rules import Breach, LeftOut, rule
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
"""What the default of an option of each type is."""
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
    """The repr of a format is a constructor call that gives an equal format."""
    for format in _objects(subject):
        text = subject.doing = repr(format)
        shown = {name: value for name, value in format._given.items() if str(value) not in text}
        if any(not _is_masked(subject, name) for name in shown):
            raise Breach(f"{text}: all options that are no secrets were expected in it, but {', '.join(shown)} is not")
        if shown:
            subject.compared += 1
            continue
        again = eval(text, {subject.cls.__name__: subject.cls})
        subject.same(f"the value of {text}", again, format)


def _is_masked(subject: Subject, name: str) -> bool:
    spec = next((spec for spec in subject.cls.option_specs if spec.keys({name: ""})), None)
    return spec is not None and spec.sensitive


def _objects(subject: Subject) -> list[Format]:
    """The formats of all samples, and the one with the options that all have."""
    return [subject.format, *(case.format for case in subject.cases)]


@rule("object")
def values(subject: Subject) -> None:
    """Formats are values: equal if class and options are, with equal hashes, also after pickling."""
    for format in _objects(subject):
        subject.doing = repr(format)
        again = pickle.loads(pickle.dumps(format))
        twin = type(format)(dict(reversed(list(format._given.items()))))
        for name, other in (("what was pickled", again), ("one of the same options", twin)):
            subject.same(f"{format!r}, {name}: whether it is equal", other == format, True)
            subject.same(f"{format!r}, {name}: its hash", hash(other), hash(format))
            subject.same(f"{format!r}, {name}: its options", dict(other.options), dict(format.options))
        subject.same(f"{format!r}: whether it equals None", format == None, False)  # noqa: E711 - its __eq__ is asked
    different = [_with_option(subject, spec) for spec in subject.cls.option_specs]
    for other in different:
        if other is not None and dict(other._given) != dict(subject.format._given):
            subject.same(f"whether {other!r} equals {subject.format!r}", other == subject.format, False)


def _text_for(spec: Option) -> str:
    """A value that the option may have, other than its default where there is one."""
    if spec.allowed:
        return next((value for value in spec.allowed if value != spec.default), spec.allowed[0])
    texts = {"boolean": "false" if spec.default is True else "true", "int": "3", "long": "3", "double": "0.5"}
    return texts.get(spec.type) or {"duration": "7 s", "memory": "3 mb", "list": "a;b", "map": "a:b"}.get(
        spec.type, "x"
    )


def _with_option(subject: Subject, spec: Option) -> Format | None:
    """The format with one more option; None if that goes together with nothing else."""
    try:
        return subject.make({**subject.declared.options, spec.name: _text_for(spec)})
    except ConfigurationError:
        return None


@rule("object", page="robustness.md")
def secrets(subject: Subject) -> None:
    """The value of an option that is declared as a secret is in no repr, no text and no error."""
    specs = [spec for spec in subject.cls.option_specs if spec.sensitive]
    if not specs:
        raise LeftOut("no option is declared as a secret")
    for spec in specs:
        texts: dict[str, str] = {}
        try:
            value = f"a:{SECRET}" if spec.type == "map" else SECRET
            format = subject.make({**subject.declared.options, spec.name: value})
        except ConfigurationError as error:
            texts["the error of the option"] = str(error)
        else:
            again = pickle.loads(pickle.dumps(format))
            texts |= {"repr": repr(format), "str": str(format), "repr(options)": repr(format.options)}
            texts |= {"the repr of what was pickled": repr(again), "vars": repr(vars(format))}
            texts |= _errors_of(subject, format)
        for name, text in texts.items():
            where = f"option '{spec.name}', {name}, {cut(text.replace(SECRET, '<the secret>'))}"
            subject.same(f"{where}: whether the secret is in it", SECRET in text, False)


def _errors_of(subject: Subject, format: Format) -> dict[str, str]:
    """The texts of errors that bad messages and bad calls give."""
    found: dict[str, str] = {}
    for case in subject.cases[:1]:
        try:
            batch = format.decode_batch(as_array(subject.bad[case.name][:20]), case.schema)
            found |= {"an error of a message": str(batch.errors)}
            format.decode_batch(as_array([]), case.schema, metadata=["no-such-key"])
        except Exception as error:
            found[type(error).__name__] = str(error)
    return found


@rule("object")
def options_are_declared(subject: Subject) -> None:
    """Every option has a text for the docs, and a default of the Python type that its values have."""
    specs = subject.cls.option_specs
    names = [name for spec in specs for name in (spec.name, *spec.fallback)]
    subject.same("the names of options that are there twice", sorted({n for n in names if names.count(n) > 1}), [])
    for spec in specs:
        subject.doing = f"option '{spec.name}'"
        subject.same(f"option '{spec.name}', whether it has a `doc`", bool(spec.doc.strip()), True)
        subject.same(f"option '{spec.name}', whether its type is known", spec.type in _PYTHON, True)
        if spec.default is not None:
            fits = isinstance(spec.default, _PYTHON[spec.type])
            subject.same(f"option '{spec.name}', whether {spec.default!r} is a {spec.type}", fits, True)
            allowed = not spec.allowed or spec.default in spec.allowed
            subject.same(f"option '{spec.name}', whether its default {spec.default!r} is allowed", allowed, True)


@rule("object")
def options_are_checked(subject: Subject) -> None:
    """An option that is unknown or malformed is refused by an OptionError that says what there is."""
    name = f"{subject.cls.option_specs[0].name}x" if subject.cls.option_specs else "no-such-option"
    text = _refusal(subject, name, "x")
    hint = subject.cls.option_specs[0].name if subject.cls.option_specs else "(none)"
    subject.same(f"whether the error of the unknown option {name!r}, {text!r}, names {hint}", hint in text, True)
    for spec in subject.cls.option_specs:
        wrong = "no-such-value" if spec.allowed else _MALFORMED.get(spec.type)
        if wrong is not None and spec.checked is None:
            text = _refusal(subject, spec.name, wrong)
            subject.same(f"whether the error {text!r} names the option {spec.name}", spec.name in text, True)


def _refusal(subject: Subject, name: str, value: str) -> str:
    try:
        subject.make({**subject.declared.options, name: value})
    except OptionError as error:
        return str(error)
    raise Breach(f"option {name!r} with the value {value!r}: an OptionError was expected, but none came")


@rule("object")
def immutable(subject: Subject) -> None:
    """A format is immutable: nothing that is given to it, taken from it or done with it changes it."""
    given = dict(subject.declared.options)
    format = subject.cls(given)
    before, state = repr(format), (hash(format), dict(format.options))
    given["a-later-option"] = "x"
    given.update(dict.fromkeys(subject.declared.options, "changed"))
    try:
        format.options["a-later-option"] = "x"  # type: ignore[index]
    except TypeError:
        subject.compared += 1
    _use(subject, format)
    subject.same("the repr, after options were changed and the format was used", repr(format), before)
    subject.same("hash and options, after it was used", (hash(format), dict(format.options)), state)
    subject.same("whether it still equals a new one", format == subject.make(), True)


def _use(subject: Subject, format: Format) -> None:
    """Decode and encode with a format, the options of which fit all samples that have none."""
    for case in subject.cases:
        if case.sample.options is None:
            _answered(subject, case, format)


def _answered(subject: Subject, case: Case, format: Format, turned: int = 0) -> tuple[list[Any], list[Any]]:
    """All that comes of a case: of its messages and some changed ones, of its rows; so many of them go to the end."""
    other = replace(case, format=format)
    messages = _turned([*case.messages.to_pylist(), *subject.changed[case.name][:60]], turned)
    places = pa.array(_turned(list(range(len(case.rows))), turned), pa.int64())
    decoded = other.decode(messages) if subject.declared.direction != "encode" else []
    kinds = None if case.kinds is None else case.kinds.take(places)
    encoded = other.encode(case.rows.take(places), kinds) if subject.declared.direction != "decode" else []
    return decoded, encoded


def _turned(values: list[Any], count: int) -> list[Any]:
    count %= max(len(values), 1)
    return [*values[count:], *values[:count]]


def _same_as(subject: Subject, where: str, found: tuple[list[Any], ...], expected: tuple[list[Any], ...]) -> None:
    for part, ones, wanted in zip(("decoded", "encoded"), found, expected, strict=True):
        for one, want in zip(ones, wanted, strict=True):
            subject.same(f"{where}, {part}", one, want)


@rule("object")
def determinism(subject: Subject) -> None:
    """The same batch gives the same answers again, also from an equal format and from a pickled one."""
    for case in subject.cases:
        subject.doing = case.name
        first = _answered(subject, case, case.format)
        others = (case.format, subject.make(case.sample.options), pickle.loads(pickle.dumps(case.format)))
        for name, format in zip(("once more", "by an equal format", "by a pickled format"), others, strict=True):
            _same_as(subject, f"{case.name}, {name}", _answered(subject, case, format), first)


@rule("object")
def no_state(subject: Subject) -> None:
    """No batch depends on those before it, of the same schema or of another one."""
    for case in subject.cases:
        subject.doing = case.name
        fresh, used = subject.make(case.sample.options), subject.make(case.sample.options)
        for other in subject.cases:
            if other is not case and other.sample.options == case.sample.options:
                _answered(subject, other, used)
        if subject.declared.direction != "encode":
            for message in subject.changed[case.name][-40:]:
                used.decode_batch(as_array([message, None, *case.good]), case.schema)
        expected = _answered(subject, case, fresh)
        _same_as(subject, f"{case.name}, after other batches", _answered(subject, case, used), expected)


@rule("object", page="robustness.md#threads")
def threads(subject: Subject) -> None:
    """8 threads that share a format get the answers that one gets, each of messages in another order."""
    for case in subject.cases:
        subject.doing = case.name
        expected = _answered(subject, case, case.format)

        def run(turned: int, case: Case = case) -> tuple[list[Any], list[Any]]:
            return _answered(subject, case, case.format, turned)

        with ThreadPoolExecutor(_THREADS) as pool:
            for turned, found in enumerate(pool.map(run, range(_THREADS * 2))):
                wanted = tuple(_turned(part, turned) for part in expected)
                _same_as(subject, f"{case.name}, by thread {turned}", found, wanted)


@rule("object")
def one_way(subject: Subject) -> None:
    """A format that only reads, or only writes, refuses the other way by a DirectionError, or an OptionError that says
    why it does so with these options.
    """
    calls: dict[str, Callable[[Case], object]] = {
        "encode": lambda case: case.format.encode_batch(case.rows[:0], case.schema),
        "decode": lambda case: case.format.decode_batch(as_array([]), case.schema),
    }
    for case in subject.cases:
        for direction, call in calls.items():
            subject.doing = f"{case.name}, {direction} of an empty batch"
            expected = "served" if subject.declared.direction in ("both", direction) else "refused"
            try:
                call(case)
                found = "served"
            except (DirectionError, OptionError):
                found = "refused"
            subject.same(subject.doing, found, expected)


@contextmanager
def known(subject: Subject) -> Iterator[None]:
    """The format can be found by its name, as tables find it."""
    try:
        there = discovery.format_class(subject.identifier) is subject.cls
    except UnknownFormatError:
        there = False
    if there:
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


def table(subject: Subject, case: Case, part: str) -> KeyValueFormat:
    """A Kafka table whose key, or value, has the sample's columns; the other part is one BYTES column of raw."""
    other = "key" if part == "value" else "value"
    columns = [f"{quoted(field.name)} {field.type}" for field in row_type(case.schema).fields]
    beside = f"{_beside(case)} BYTES"
    name = subject.identifier
    options = {
        "connector": "kafka",
        "topic": "t",
        f"{part}.format": name,
        f"{other}.format": "raw",
        "value.fields-include": "EXCEPT_KEY",
    }
    options |= {f"{part}.{name}.{key}": value for key, value in case.format._given.items()}
    options["key.fields"] = ";".join(case.schema.names) if part == "key" else _beside(case)
    return KeyValueFormat(", ".join([*columns, beside]), options)


def _beside(case: Case) -> str:
    name = "beside"
    while name in case.schema.names:
        name += "_"
    return name


@rule("object", page="key-value.md")
def key_and_value(subject: Subject) -> None:
    """In a table a format serves as the value, and as the key too if it has only inserts; else the key is refused."""
    subject.reads()
    with known(subject):
        for case in subject.cases:
            good, expected = case.good, case.decode(case.good)
            for part in ("key", "value"):
                subject.doing = f"{case.name}, as the {part} of a table"
                if part == "key" and subject.format.changelog_mode is not ChangelogMode.INSERT_ONLY:
                    _key_is_refused(subject, case)
                    continue
                made = table(subject, case, part)
                beside = as_array([b"x"] * len(good))
                keys, values = (as_array(good), beside) if part == "key" else (beside, as_array(good))
                batch = made.decode_batch(keys, values)
                found = answers(replace(batch, rows=with_columns(batch.rows, range(len(case.schema.names)))))
                subject.same_answers(subject.doing, good, found, expected)


def _key_is_refused(subject: Subject, case: Case) -> None:
    try:
        table(subject, case, "key").decode_batch(as_array([]), as_array([]))
    except ConfigurationError:
        subject.compared += 1
    else:
        raise Breach(f"{subject.doing}: a ConfigurationError was expected, as its rows are not only inserts")
