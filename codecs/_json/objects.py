"""Objects at many cursors: members in the order that the batch's producers use, then in any order."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kvformat.codecs._columnar import Ints, Literal, Mask, Window
from kvformat.codecs._json import bits
from kvformat.codecs._json.containers import SkipNode, after_colon
from kvformat.codecs._json.learn import Layout, learn, with_keys
from kvformat.codecs._json.node import JsonBytes, Node, Payload, Scanned, is_null, put
from kvformat.codecs._json.texts import read_text

_MOST_PASSES = 64
_RELEARN = 16
_SMALLEST = 3


@dataclass(frozen=True, slots=True)
class _Step:
    """One key of a layout: the text up to its value, and who reads that. `field` is None for keys without a column."""

    field: int | None
    node: Node
    literal: Literal
    opening: Literal


@dataclass(frozen=True, slots=True)
class _Plan:
    """The steps through an object. A cursor that has not read a member yet stands `lead` bytes before the brace."""

    steps: tuple[_Step, ...]
    lead: int


class RowNode(Node):
    """ROW: a JSON object. The payload is that of its fields, one after another."""

    def __init__(self, names: list[str], nodes: list[Node], kind: pa.DataType, *, fail_on_missing: bool) -> None:
        self.nodes = nodes
        self.kind = kind
        self.fail_on_missing = fail_on_missing
        self.dtypes = (bool, *(dtype for node in nodes for dtype in node.dtypes))
        # a name that cannot stand in a message unescaped is never matched; its messages are refused
        plain = [json.dumps(name, ensure_ascii=False) == f'"{name}"' for name in names]
        self.keys = [name.encode() if fine else None for name, fine in zip(names, plain, strict=True)]
        self.literals = [Literal(b'"' + key + b'"') if key is not None else None for key in self.keys]
        self._skip = SkipNode()
        self._plans: dict[Layout, _Plan] = {}

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        return _Members(self, batch, window.position).read()

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        columns, at = [], 1
        for node in self.nodes:
            columns.append(node.build(batch, payload[at : at + len(node.dtypes)]))
            at += len(node.dtypes)
        valid = payload[0]
        mask = None if valid.all() else pa.array(~valid)
        if not columns:
            return pa.array([{} if there else None for there in valid.tolist()], self.kind)
        return pa.StructArray.from_arrays(columns, fields=list(self.kind), mask=mask)

    def plan(self, batch: JsonBytes, position: Ints) -> _Plan:
        """The steps that fit some of these objects."""
        sample = position[[0, len(position) // 2, len(position) - 1]]
        known = [key for key in self.keys if key is not None]
        layout = with_keys(learn(batch.raw, sample.tolist()) or Layout(()), known)
        plan = self._plans.get(layout)
        if plan is None:
            if len(self._plans) > 64:
                self._plans.clear()
            plan = self._plans[layout] = self._make_plan(layout)
        return plan

    def _make_plan(self, layout: Layout) -> _Plan:
        fields = {key: number for number, key in enumerate(self.keys) if key is not None}
        lead = max(0, len(layout.comma) - len(layout.open))
        steps = []
        for key in layout.keys:
            field = fields.get(key)
            text = b'"' + key + b'"' + layout.colon
            opening = Literal(layout.open + text, lead)
            node = self.nodes[field] if field is not None else self._skip
            steps.append(_Step(field, node, Literal(layout.comma + text), opening))
        return _Plan(tuple(steps), lead)


class _Members:
    """The members of the objects at many cursors.

    A cursor stands behind the last value read. Where no member was read yet (`fresh`) it stands `lead` bytes before
    the brace, so that the values behind both texts of a step begin at the same distance. A row that is refused
    or does not take part in a step reads along with another one, its leader: so that a step can take
    whole columns as they are.
    """

    def __init__(self, node: RowNode, batch: JsonBytes, position: Ints) -> None:
        self._node, self._batch = node, batch
        self._start = position
        count = len(position)
        self._count = count
        self._ok = np.ones(count, bool)
        self._valid = np.ones(count, bool)
        self._done = np.zeros(count, bool)
        self._fresh = np.ones(count, bool)
        self._values: list[Payload | None] = [None] * len(node.nodes)
        self._seen: list[Mask | None] = [None] * len(node.nodes)
        self._plan = node.plan(batch, position)
        self._position = position - self._plan.lead

    def read(self) -> Scanned:
        self._first_pass()
        for _ in range(_MOST_PASSES):
            rows = self._close(np.flatnonzero(self._ok & ~self._done))
            if not len(rows):
                break
            if len(rows) < _SMALLEST * self._batch.few:
                self._ok[rows] = False
                break
            if _RELEARN * len(rows) >= self._count:
                self._learn_anew(rows)
            before = self._position[rows]
            self._later_pass(rows)
            stuck = rows[(self._position[rows] == before) & self._ok[rows]]
            if len(stuck):
                self._odd_member(stuck)
        self._ok &= self._done
        if self._node.fail_on_missing:
            for seen in self._seen:
                self._ok &= ~self._valid | (False if seen is None else seen)
        return self._result()

    def _result(self) -> Scanned:
        bad = np.flatnonzero(~self._ok)
        self._position[bad] = self._start[bad]
        self._valid[bad] = False
        payload: Payload = [self._valid]
        for node, values in zip(self._node.nodes, self._values, strict=True):
            payload += values if values is not None else node.empty(self._count)
        return Scanned(self._position, self._ok, payload)

    def _learn_anew(self, rows: Ints) -> None:
        """Take the order of keys from the rows that are left: theirs is another one."""
        plan = self._node.plan(self._batch, self._start[rows])
        if plan.lead == self._plan.lead:
            self._plan = plan

    def _first_pass(self) -> None:
        """The steps of the plan with all rows."""
        window: Window | None = None
        for step in self._plan.steps:
            window = window or self._batch.window(self._position)
            match = self._match(step, window, self._fresh)
            count = np.count_nonzero(match)
            if count == 0:
                continue
            if 2 * count < self._count:
                rows = np.flatnonzero(match)
                self._step(step, rows, window.select(rows))
                window = window.move(rows, self._position[rows])
            else:
                self._whole_step(step, window, match, None if count == self._count else np.flatnonzero(~match))
                window = None

    def _match(self, step: _Step, window: Window, fresh: Mask) -> Mask:
        if fresh.all():
            return window.has(step.opening)
        match = window.has(step.literal)
        if fresh.any():
            # where no member was read yet, a comma is no way to begin
            np.copyto(match, window.has(step.opening), where=fresh)
        return match

    def _whole_step(self, step: _Step, window: Window, match: Mask, away: Ints | None) -> None:
        """A step of all rows but those `away`, which read along and then return."""
        leader = int(match.argmax())
        if away is not None:
            kept, fresh = self._position[away], self._fresh[away]
            window = window.replace(away, leader)
        end, ok, payload = step.node.scan(self._batch, window.after(step.literal.length))
        if not ok.all():
            ok[~match] = True
            bad = np.flatnonzero(~ok)
            self._ok[bad] = False
            end[bad] = end[int((ok & match).argmax())]
        if away is not None:
            end[away] = kept
            if payload:
                payload[0][away] = False
        self._position = end
        self._fresh = np.zeros(self._count, bool)
        if away is not None:
            self._fresh[away] = fresh
        if step.field is not None:
            self._values[step.field] = payload
            self._seen[step.field] = match

    def _step(self, step: _Step, rows: Ints, window: Window) -> None:
        """A step of some rows, whose cursors the window has."""
        self._member(step.field, step.node, rows, window.after(step.literal.length))

    def _member(self, field: int | None, node: Node, rows: Ints, window: Window) -> None:
        """The value of a member of some rows."""
        end, ok, payload = node.scan(self._batch, window)
        self._position[rows] = end
        self._fresh[rows] = False
        if field is not None:
            values, seen = self._values[field], self._seen[field]
            if values is None or seen is None:
                values = self._values[field] = node.empty(self._count)
                seen = self._seen[field] = np.zeros(self._count, bool)
            ok &= ~seen[rows]
            seen[rows] = True
            put(values, rows, payload)
        if not ok.all():
            self._ok[rows[~ok]] = False

    def _close(self, rows: Ints) -> Ints:
        """Finish the objects that end here; returns the rows that have more."""
        at, found = bits.skip_blanks(self._batch, self._position[rows])
        closed = (found == bits.CLOSE_OBJECT) & ~self._fresh[rows]
        done = rows[closed]
        self._position[done] = at[closed] + 1
        self._done[done] = True
        return rows[~closed] if len(done) else rows

    def _later_pass(self, rows: Ints) -> None:
        """The steps of the plan with what is left."""
        window = self._batch.window(self._position[rows])
        fresh = self._fresh[rows]
        for step in self._plan.steps:
            match = self._match(step, window, fresh)
            if not match.any():
                continue
            chosen = np.flatnonzero(match)
            mine = rows[chosen]
            self._step(step, mine, window.select(chosen))
            fresh[chosen] = False
            window = window.move(chosen, self._position[mine])

    def _odd_member(self, rows: Ints) -> None:
        """The next member of rows that no step fits: other blanks, a key of no column, no member at all."""
        batch = self._batch
        fresh = self._fresh[rows]
        at, found = bits.skip_blanks(batch, self._position[rows] + fresh * self._plan.lead)
        going = found == np.where(fresh, bits.OPEN_OBJECT, bits.COMMA)
        self._null_or_refused(rows[~going], at[~going], fresh[~going])
        rows, fresh = rows[going], fresh[going]
        at, found = bits.skip_blanks(batch, at[going] + 1)
        empty = fresh & (found == bits.CLOSE_OBJECT)
        self._position[rows[empty]] = at[empty] + 1
        self._done[rows[empty]] = True
        rows, at = rows[~empty], at[~empty]
        if not len(rows):
            return
        window = batch.window(at)
        _, quote, ok, escaped = read_text(batch, window)
        if escaped is not None:
            ok &= ~escaped
        value, colon = after_colon(batch, quote + 1)
        ok &= colon
        self._ok[rows[~ok]] = False
        rest = ok
        for field, literal in enumerate(self._node.literals):
            mine = ok & window.has(literal) if literal else None
            if mine is not None and mine.any():
                rest = rest & ~mine
                self._member(field, self._node.nodes[field], rows[mine], batch.window(value[mine]))
        if rest.any():
            self._member(None, SkipNode(), rows[rest], batch.window(value[rest]))

    def _null_or_refused(self, rows: Ints, at: Ints, fresh: Mask) -> None:
        if not len(rows):
            return
        null = fresh & is_null(self._batch.window(at)) & (at == self._start[rows])
        self._position[rows[null]] = at[null] + 4
        self._done[rows[null]] = True
        self._valid[rows[null]] = False
        self._ok[rows[~null]] = False
