"""The parts of an Avro schema that the columns of a table read: for the option `on-new-schema`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.avro.resolve import Action, Number, Record, parts, plan, reads_all
from kvformat.codecs.avro.schema import Schema
from kvformat.codecs.avro.types import schema_text
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import FlinkType, nullable

READ_ENUM_AND_FIXED = "read-enum-and-fixed"


@dataclass(frozen=True)
class AvroReading:
    """How the rows of a record schema are read. `plain` is the option `read-enum-and-fixed`."""

    record: Schema
    plain: bool
    legacy: bool

    def changed(self, row: FlinkType) -> list[str]:
        """Return the columns of a row that do not read all values, or cut off digits, whatever the options are."""
        return self._fields(row, True, lambda action: not reads_all(action) or _cuts_digits(action))

    def option(self, row: FlinkType) -> str:
        """Return the option without which columns of a row are not read, as a sentence; empty if none is needed."""
        if self.plain:
            return ""
        without = self._fields(row, False, lambda action: not reads_all(action))
        with_option = self._fields(row, True, lambda action: not reads_all(action))
        names = ", ".join(name for name in without if name not in with_option)
        return f"Set '{READ_ENUM_AND_FIXED}' = 'true', which {names} needs" if names else ""

    def _fields(self, row: FlinkType, plain: bool, is_wrong: Callable[[Action], bool]) -> list[str]:
        try:
            reader = parse_schema(schema_text(nullable(row), legacy=self.legacy))
            action = plan(self.record, reader, plain, self.legacy)
        except SchemaError:
            return []
        steps = action.steps if isinstance(action, Record) else ()
        return [step.target for step in steps if step.target is not None and is_wrong(step.action)]


def _cuts_digits(action: Action) -> bool:
    return any(isinstance(part, Number) and part.divisor > 1 for part in parts(action))
