"""Mutants that are wrong as objects: equality, copies, options, secrets, and what they keep of earlier batches."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from kvformat.registry import ConfigurationError, DecodedBatch, Option, OptionError
from tests.registry.testing.good import Good, in_capitals


class ReprWithMoreOptions(Good):
    identifier = "repr-with-more-options"
    rule = "repr_is_a_call"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self._raw_options) | {'fail-on-missing-field': 'true'}!r})"


class EqualInSpiteOfOptions(Good):
    identifier = "equal-in-spite-of-options"
    rule = "values"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return 1


class EqualsNone(Good):
    identifier = "equals-none"
    rule = "values"
    __hash__ = Good.__hash__

    def __eq__(self, other: object) -> bool:
        return other is None or super().__eq__(other)


class OtherAfterPickling(Good):
    identifier = "other-after-pickling"
    rule = "determinism"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._unpickled, (dict(self._raw_options),)

    @classmethod
    def _unpickled(cls, options: dict[str, Any]) -> OtherAfterPickling:
        made = cls(options)
        made._is_copy = True
        return made

    _is_copy = False

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        batch = super().read(messages, schema)
        return in_capitals(batch) if self._is_copy else batch


class TheFirstOneShouts(Good):
    identifier = "the-first-one-shouts"
    rule = "determinism"
    _count = itertools.count()

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self._number = next(self._count)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._numbered, (dict(self._raw_options), self._number)

    @classmethod
    def _numbered(cls, options: dict[str, Any], number: int) -> TheFirstOneShouts:
        made = cls(options)
        made._number = number
        return made

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        batch = super().read(messages, schema)
        return batch if self._number else in_capitals(batch)


class RemembersSchemas(Good):
    identifier = "remembers-schemas"
    rule = "no_state"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        known = self.__dict__.setdefault("_known", [])
        known += [schema] * (schema not in known)
        batch = super().read(messages, schema)
        return in_capitals(batch) if len(known) > 1 else batch


class DefaultThatIsNotAllowed(Good):
    identifier = "default-that-is-not-allowed"
    rule = "options_are_declared"
    option_specs = (*Good.option_specs, Option(name="more", allowed=("a", "b"), default="c", doc="A letter."))


class TwoOptionsOfOneName(Good):
    identifier = "two-options-of-one-name"
    rule = "options_are_declared"
    option_specs = (*Good.option_specs, Option(name="more", fallback=("password",), doc="A secret, too."))


class OptionOfNoType(Good):
    identifier = "option-of-no-type"
    rule = "options_are_declared"
    option_specs = (*Good.option_specs, Option(name="more", type="text", doc="A text."))  # type: ignore[arg-type]


class TakesAnyValue(Good):
    identifier = "takes-any-value"
    rule = "options_are_checked"

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        try:
            super().__init__(options)
        except OptionError as error:
            if error.reason is None:  # it does not concern a value
                raise
            super().__init__({})


class SecretInStr(Good):
    identifier = "secret-in-str"
    rule = "secrets"

    def __str__(self) -> str:
        return f"with {self.options['password']}"


class SecretBesideTheOptions(Good):
    identifier = "secret-beside-the-options"
    rule = "secrets"

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self._password = self.options["password"]


class SecretInTheErrorOfItsOption(Good):
    identifier = "secret-in-the-error-of-its-option"
    rule = "secrets"

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        if self.options["password"] is not None:
            raise ConfigurationError(f"{self.options['password']} is too short")
