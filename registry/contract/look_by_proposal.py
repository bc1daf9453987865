"""The default of `looker`: the table is the topic, and its columns are those that `propose_schema` proposes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from kvformat.registry.contract.common_types import holds
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.look import KnownTable, Looked, LookRequest, SeenColumn
from kvformat.registry.contract.samples import MessageSample, SchemaProposal
from kvformat.registry.contract.types import FlinkField, nullable

_MOST_LOOKED_AT = 1_000
"""Messages of a topic in a batch for which columns are proposed. Decoding shows the errors of the others."""
_NO_TABLE = KnownTable({})


class ProposalLooker:
    """Looks at messages by the columns that a format proposes for them; see `Looker`."""

    def __init__(self, propose: Callable[[MessageSample], SchemaProposal], request: LookRequest) -> None:
        self._propose, self._request = propose, request

    def look(self, messages: pa.BinaryArray, topics: pa.StringArray) -> Looked:
        """Return what the messages contribute."""
        encoded = topics.dictionary_encode()
        numbers = np.asarray(encoded.indices.fill_null(-1))
        present = np.asarray(messages.is_valid()) & (numbers >= 0)
        columns: list[SeenColumn] = []
        tables = [(str(topic),) for topic in encoded.dictionary.to_pylist()]
        for number, table in enumerate(tables):
            at = np.flatnonzero(present & (numbers == number))
            known = self._request.known.get(table, _NO_TABLE)
            for place, field in enumerate(self._columns(messages, at[:_MOST_LOOKED_AT])):
                t = nullable(self._request.fixed.get(field.name, field.type))
                there = known.columns.get(field.name)
                is_held = there is not None and (field.name in self._request.fixed or holds(there, t))
                if not is_held:
                    columns.append(SeenColumn(table, field.name, (t,), int(at[0]), place))
        indices = pa.array(numbers.astype(np.int32), pa.int32(), mask=~present)
        return Looked(tuple(tables), indices, tuple(sorted(columns, key=lambda c: (c.message, c.place))))

    def _columns(self, messages: pa.BinaryArray, at: np.ndarray) -> tuple[FlinkField, ...]:
        if not len(at):
            return ()
        values = tuple(messages.take(pa.array(at)).to_pylist())
        try:
            return self._propose(MessageSample(values, part=self._request.part)).fields
        except SchemaError:
            return ()
