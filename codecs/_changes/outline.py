"""Messages that are the same text around the members that are read: everything but these is compared, not read.

    {"before":  ...  ,"after":  ...  ,"source":{"version":...,"ts_ms":123},"ts_ms":123,"op":  ...  }
    template   hole  template  hole  template                                               hole  template

The outline is learned from messages that the usual reader took, and kept for the batches to come. What does not fit
is left to the usual reader, so an outline decides about speed alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kvformat.codecs._changes.templates import Template, parts_of
from kvformat.codecs._columnar import Ints, Window
from kvformat.codecs._json.learn import members
from kvformat.codecs._json.node import JsonBytes, Node, Payload, Scanned, put

_SAMPLES = 16
_FEWEST = 3
_LONGEST = 16384

Name = tuple[bytes, ...]
"""The keys that lead to a member."""


class Hole(NamedTuple):
    """A member that is read: by whom, and where its payload is in that of the message."""

    node: Node
    place: slice


class OutlineNode(Node):
    """A message as `usual` reads it, faster where it fits the outline. Immutable but for that.

    `inner` are the objects that members are looked for in, besides the message itself; each has its own place for
    whether it is there.
    """

    def __init__(self, usual: Node, holes: Mapping[Name, Hole], inner: Mapping[Name, int]) -> None:
        self.dtypes = usual.dtypes
        self._usual, self._holes, self._inner = usual, holes, inner
        self.learned: _Outline | None = None

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        if len(window) < len(batch.start) or batch.keys is not None:
            # what earlier passes over the batch left is out of the ordinary
            return self._usual.scan(batch, window)
        outline = self.learned
        found = outline.read(batch, window.position, self) if outline is not None else None
        if found is None:
            found = self._usual.scan(batch, window)
            self.learned = self._learn(batch, window.position, found)
            return found
        others = np.flatnonzero(~found.ok)
        if len(others) >= max(batch.few, 1):
            end, ok, payload = self._usual.scan(batch, window.select(others))
            found.end[others], found.ok[others] = end, ok
            put(found.payload, others, payload)
        return found

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        return self._usual.build(batch, payload)

    def present(self, payload: Payload) -> Payload:
        """The columns that say whether the message and the objects in it are there."""
        return [payload[0], *(payload[place] for place in self._inner.values())]

    def _learn(self, batch: JsonBytes, position: Ints, found: Scanned) -> _Outline | None:
        """The outline of most of the messages that were taken; None where they differ in more than numbers."""
        good = np.flatnonzero(np.logical_and.reduce([found.ok, *self.present(found.payload)]))
        sample = good[np.linspace(0, len(good) - 1, min(_SAMPLES, len(good))).astype(np.int64)]
        cuts = [self._cut(batch.raw, int(position[row]), int(found.end[row])) for row in sample.tolist()]
        alike: Counter[object] = Counter(cut.likeness for cut in cuts if cut)
        if not alike:
            return None
        (common, count), *_ = alike.most_common(1)
        if count < _FEWEST or 2 * count <= len(cuts):
            return None
        chosen = [cut for cut in cuts if cut and cut.likeness == common]
        templates = [Template(parts) for parts in zip(*(cut.texts for cut in chosen), strict=True)]
        if not all(template.is_simple for template in templates):
            return None
        return _Outline(templates, [self._holes[name] for name in chosen[0].names])

    def _cut(self, raw: bytearray, start: int, end: int) -> _Cut | None:
        """A message cut into the texts around its holes; None where that can't be done."""
        found = self._find(raw, start, ())
        if found is None or len({name for name, _, _ in found}) < len(found):
            return None
        bounds = [start, *(at for _, *hole in found for at in hole), end]
        texts = [bytes(raw[first:stop]) for first, stop in zip(bounds[::2], bounds[1::2], strict=True)]
        if sum(map(len, texts)) > _LONGEST:
            return None
        return _Cut([name for name, _, _ in found], [parts_of(text) for text in texts])

    def _find(self, raw: bytearray, start: int, around: Name) -> list[tuple[Name, int, int]] | None:
        """The holes in an object, in order, each with its position and end."""
        found: list[tuple[Name, int, int]] = []
        for key, begin, end in members(raw, start) or ():
            name = (*around, key)
            if name in self._holes:
                found.append((name, begin, end))
            elif name in self._inner:
                inside = self._find(raw, begin, name)
                if inside is None:
                    return None
                found += inside
        return found or None


class _Cut(NamedTuple):
    """A message in pieces: the names of its holes, and the parts of the texts around them."""

    names: list[Name]
    texts: list[list[bytes]]

    @property
    def likeness(self) -> object:
        """What messages have in common that fit the same outline."""
        return tuple(self.names), tuple(tuple(parts[::2]) for parts in self.texts)


class _Outline:
    """Templates, and the holes between each two of them."""

    def __init__(self, templates: list[Template], holes: list[Hole]) -> None:
        *self._openings, self._closing = templates
        self._holes = holes

    def read(self, batch: JsonBytes, position: Ints, node: OutlineNode) -> Scanned | None:
        """Read the messages that begin at a position; None if less than half of them fit."""
        start, ok = position, np.ones(len(position), bool)
        payload = node.empty(len(position))
        for template, hole in zip(self._openings, self._holes, strict=True):
            window, fits = template.read(batch, position)
            ok &= fits
            count = np.count_nonzero(ok)
            if 2 * count < len(ok) or not count:
                return None
            if count < len(ok):
                # what is refused reads along with another one, so that whole columns can be taken
                window = window.replace(np.flatnonzero(~ok), int(ok.argmax()))
            position, fits, payload[hole.place] = hole.node.scan(batch, window)
            ok &= fits
        window, fits = self._closing.read(batch, position)
        ok &= fits
        if 2 * np.count_nonzero(ok) < len(ok):
            return None
        for present in node.present(payload):
            present[:] = ok
        return Scanned(np.where(ok, window.position, start), ok, payload)
