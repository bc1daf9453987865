"""Looks at messages of a schema registry with a table for each type of records.

00  00 00 00 01  ...     schema 1 is com.shop.Order        the table com.shop.Order, whatever the topic is
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kvformat.codecs.avro.schema import PRIMITIVES
from kvformat.codecs.discovery.findings import Findings
from kvformat.codecs.registries.registry import AVRO
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.look import Looked, Looker, LookRequest

if TYPE_CHECKING:
    from kvformat.codecs.registry_formats.record_format import RecordFormat


_NO_TABLE = -2  # the number of messages that are not records


class RecordLooker:
    """Looks at messages of several types; see `Looker`. `inner` gets the name of the type in place of the topic."""

    def __init__(self, format: RecordFormat, inner: Looker) -> None:
        self._format, self._inner = format, inner

    def look(self, messages: pa.BinaryArray, topics: pa.StringArray) -> Looked:
        """Return what the messages contribute."""
        types = self._format.record_types(messages)
        others = Findings(len(messages), LookRequest())
        is_avro = self._format.kind == AVRO
        for number, name in enumerate(types.names):
            if is_avro and name in (*PRIMITIVES, "array", "map"):
                for message in np.flatnonzero(types.which == number).tolist() if name != "null" else ():
                    others.fail(
                        message,
                        Reason(ErrorCode.TABLE_ID, f"the message has the type {name}, and only records have tables"),
                    )
                types.which[types.which == number] = _NO_TABLE
        names = pa.array(types.names, pa.string()).take(pa.array(types.which, mask=types.which < 0))
        looked = self._inner.look(messages, names)
        for message, (_, reason) in types.errors.items():
            others.fail(message, reason)
        for message in np.flatnonzero((types.which == -1) & np.asarray(messages.is_valid())).tolist():
            if message not in types.errors:
                others.leave_to_decoding(message)
        others.decide(self._format, messages)
        return replace(looked, errors=dict(sorted({**looked.errors, **others.looked().errors}.items())))
