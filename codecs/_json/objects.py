"""Objects at many cursors: members in the order that the batch's producers use.

What is laid out in another way is refused, unless the places of all keys are known (`JsonBytes.keys`): then it is
read in any order.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kvformat.codecs._columnar import Ints, Literal, Mask, Window
from kvformat.codecs._json import bits
from kvformat.codecs._json.anyorder import KeyedMembers
from kvformat.codecs._json.containers import SkipNode
from kvformat.codecs._json.keys import Keys
from kvformat.codecs._json.learn import Layout, learn, with_keys
from kvformat.codecs._json.node import JsonBytes, Node, Payload, Scanned, clear, is_null, put

_SAMPLES = 7
_FIRST_STEPS = 3
_MANY = 512
_MOST_PLANS = 64
_ENOUGH = 40


@dataclass(frozen=True, slots=True)
class _Step:
    """One key of a layout: the text up to its value, and who reads that. `field` is None for keys without a column.

    A window that begins `pad` bytes before the cursor has the value's words as they are, without shifts.
    """

    field: int | None
    node: Node
    literal: Literal
    opening: Literal
    pad: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """The steps through an object. A cursor that has not read a member yet stands `lead` bytes before the brace.

    `mixed`: objects are laid out in so many ways that it is no use to try.
    """

    steps: tuple[_Step, ...]
    lead: int
    mixed: bool


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
        self._skip = SkipNode()
        self._plans: dict[Layout, _Plan] = {}
        self._learned: Layout | None = None

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        if batch.keys is None:
            return _Members(self, batch, window.position, window).read()
        position = window.position
        if 2 * np.count_nonzero(self.fits_layout(batch, position)) < len(position):
            return self._scan_in_any_order(batch, batch.keys, position)
        found = _Members(self, batch, position).read()
        rows = np.flatnonzero(~found.ok)
        if len(rows) >= max(batch.few, 1):
            others = self._scan_in_any_order(batch, batch.keys, position[rows])
            found.end[rows], found.ok[rows] = others.end, others.ok
            put(found.payload, rows, others.payload)
        return found

    def _scan_in_any_order(self, batch: JsonBytes, keys: Keys, position: Ints) -> Scanned:
        if not keys.worth_it():
            return Scanned(position.copy(), np.zeros(len(position), bool), self.empty(len(position)))
        if (position[1:] > position[:-1]).all():
            return KeyedMembers(self, batch, keys, position).read()
        # some rows only read along with another one, at the same place
        position, places = np.unique(position, return_inverse=True)
        end, ok, payload = KeyedMembers(self, batch, keys, position).read()
        return Scanned(end[places], ok[places], [column[places] for column in payload])

    def fits_layout(self, batch: JsonBytes, position: Ints) -> Mask:
        plan = self.plan(batch, position)
        fits = np.zeros(len(position), bool)
        if not plan.mixed:
            window = batch.window(position - plan.lead)
            for step in plan.steps[:_FIRST_STEPS]:
                fits |= window.has(step.opening) & (window.after(step.opening.length).first() > ord(" "))
        return fits

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
        samples = min(_SAMPLES if len(position) >= _MANY else 3, len(position))
        sample = position[np.linspace(0, len(position) - 1, samples).astype(np.int64)]
        known = [key for key in self.keys if key is not None]
        learned = self._learned = learn(batch.raw, sample.tolist(), self._learned)
        layout = with_keys(learned or Layout(()), known)
        plan = self._plans.get(layout)
        if plan is None:
            if len(self._plans) > _MOST_PLANS:
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
            pad = -(opening.length + node.margin) % 8
            steps.append(_Step(field, node, Literal(layout.comma + text), opening, pad))
        return _Plan(tuple(steps), lead, layout.mixed)


class _Members:
    """The members of the objects at many cursors.

    A cursor stands behind the last value read. Where no member was read yet (`fresh`) it stands `lead` bytes before
    the brace, so that the values behind both texts of a step begin at the same distance. A row that is refused
    or does not take part in a step reads along with another one, its leader: so that a step can take
    whole columns as they are.
    """

    def __init__(self, node: RowNode, batch: JsonBytes, position: Ints, window: Window | None = None) -> None:
        self._node, self._batch = node, batch
        self._start = position
        count = len(position)
        self._count = count
        self._ok = np.ones(count, bool)
        self._valid = np.ones(count, bool)
        self._fresh = np.ones(count, bool)
        self._some_fresh = True
        self._values: list[Payload | None] = [None] * len(node.nodes)
        self._seen: list[Mask | None] = [None] * len(node.nodes)
        self._plan = node.plan(batch, position)
        self._position = position - self._plan.lead
        # what lies behind the cursors may be at hand
        self._window = window if window and not self._plan.lead and window.reach(0) >= _ENOUGH else None

    def read(self) -> Scanned:
        if self._plan.mixed:
            self._ok[:] = False
        else:
            self._steps()
            self._close()
        return self._result()

    def _result(self) -> Scanned:
        if self._node.fail_on_missing:
            for seen in self._seen:
                self._ok &= ~self._valid | (False if seen is None else seen)
        bad = np.flatnonzero(~self._ok)
        self._position[bad] = self._start[bad]
        self._valid[bad] = False
        payload: Payload = [self._valid]
        for node, values in zip(self._node.nodes, self._values, strict=True):
            payload += values if values is not None else node.empty(self._count)
        return Scanned(self._position, self._ok, payload)

    def _steps(self) -> None:
        """The steps of the plan with all rows."""
        window = self._window
        for step in self._plan.steps:
            if window is None:
                window = self._batch.window(self._position - step.pad).after(step.pad)
            match = self._match(step, window)
            count = np.count_nonzero(match)
            if count == 0:
                continue
            if 2 * count < self._count:
                rows = np.flatnonzero(match)
                self._step(step, rows, window.select(rows))
                # a window that was given is still used by others
                window = None if window is self._window else window.move(rows, self._position[rows])
            else:
                self._whole_step(step, window, match, None if count == self._count else np.flatnonzero(~match))
                window = None

    def _match(self, step: _Step, window: Window) -> Mask:
        if not self._some_fresh:
            return window.has(step.literal)
        fresh = self._fresh
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
            clear(payload, away)
        self._position = end
        if self._some_fresh:
            self._fresh = np.zeros(self._count, bool)
            if away is not None:
                self._fresh[away] = fresh
            self._some_fresh = away is not None and bool(fresh.any())
        if step.field is not None:
            self._values[step.field] = payload
            self._seen[step.field] = match

    def _step(self, step: _Step, rows: Ints, window: Window) -> None:
        """A step of some rows, whose cursors the window has."""
        end, ok, payload = step.node.scan(self._batch, window.after(step.literal.length))
        self._position[rows] = end
        self._fresh[rows] = False
        if not ok.all():
            self._ok[rows[~ok]] = False
        if step.field is not None:
            values = self._values[step.field] = step.node.empty(self._count)
            put(values, rows, payload)
            seen = self._seen[step.field] = np.zeros(self._count, bool)
            seen[rows] = True

    def _close(self) -> None:
        """Finish the objects that end here; refuse what has more."""
        at, found = bits.skip_blanks(self._batch, self._position)
        closed = (found == bits.CLOSE_OBJECT) & ~self._fresh
        self._position = at + 1
        if not closed.all():
            fresh = np.flatnonzero(self._fresh & self._ok)
            self._ok &= closed
            if len(fresh):
                self._close_empty(fresh)

    def _close_empty(self, rows: Ints) -> None:
        """Rows without a member: `{}` and null, else refused."""
        position = self._start[rows]
        null = is_null(self._batch.window(position))
        at, found = bits.skip_blanks(self._batch, position + 1)
        closed = (found == bits.CLOSE_OBJECT) & (self._batch.byte(position) == bits.OPEN_OBJECT)
        self._position[rows] = np.where(null, position + 4, at + 1)
        self._valid[rows[null]] = False
        self._ok[rows] = null | closed
