"""The property of a look with known tables: the compiled check is the Python rule, and messages do not mix.

What messages contribute to the schemas of their tables is merged, so a look at all of them must contribute what looks
at some of them and then at the others do. A look at messages whose columns are known contributes no type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from kvformat.codecs.changes import discover as change_data
from kvformat.codecs.json import discover as json_rows
from kvformat.registry import ConfigurationError, SchemaRegistryError
from kvformat.registry.authoring import LookRequest
from kvformat.registry.contract.look import Looked, Looker
from kvformat.registry.contract.look_by_proposal import ProposalLooker
from tests.fuzz.cases import FormatCase
from tests.fuzz.properties import Batch
from tests.support.looking import Known, merged, types_of


def known_tables(batch: Batch) -> None:
    """A look with known tables contributes the same with the compiled kernel and by the rule, at once and in parts."""
    if not isinstance(batch.case, FormatCase) or isinstance(_looker(batch, {}), ProposalLooker | None):
        return  # proposals are for a sample as a whole
    places = range(len(batch.messages))
    some = [at for at in places if batch.lot(at) % 3 == 0]
    others = [at for at in places if batch.lot(at) % 3]
    try:
        known = merged({}, _look(batch, some, {}))
    except (ConfigurationError, SchemaRegistryError):
        return
    found = _look(batch, places, known)
    with _without_kernel():
        by_rule = _look(batch, places, known)
    after = merged(known, found)
    assert _told(found) == _told(by_rule)
    assert _types(after) == _types(merged(known, by_rule))
    assert _types(after) == _types(merged(known, _look(batch, others, known)))
    assert not [column for column in _look(batch, places, after).columns if column.types]


def _looker(batch: Batch, known: Known) -> Looker | None:
    assert isinstance(batch.case, FormatCase)
    try:
        return batch.case.format.looker(LookRequest(known))
    except ConfigurationError:  # such as the option 'schema', which names the columns
        return None


def _look(batch: Batch, places: Sequence[int], known: Known) -> Looked:
    looker = _looker(batch, known)
    assert looker is not None
    messages = pa.array([batch.messages[at][0] for at in places], pa.binary())
    topics = pa.array(["topic"] * len(messages), pa.string())
    return looker.look(messages, topics)


@contextmanager
def _without_kernel() -> Iterator[None]:
    before = change_data.COMPILED, json_rows.COMPILED
    try:
        change_data.COMPILED = json_rows.COMPILED = False
        yield
    finally:
        change_data.COMPILED, json_rows.COMPILED = before


def _told(looked: Looked) -> Any:
    """Return the table, the change and the error of each message, and the keys."""
    tables = [None if place is None else looked.tables[place] for place in looked.indices.to_pylist()]
    return tables, dict(looked.changes), dict(looked.errors), set(looked.keys)


def _types(known: Known) -> Any:
    return {name: types for name, types in types_of(known).items() if types}
