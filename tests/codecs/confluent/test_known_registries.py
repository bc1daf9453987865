"""The table of schema registries: what follows from a line of it."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kvformat.codecs.registries import known
from kvformat.codecs.registries.apicurio_frames import CONTENT_ID, EIGHT, ApicurioFraming
from kvformat.codecs.registries.framing import Frames, Framing, layout
from kvformat.connectors import inspect_topic
from kvformat.connectors.infer import inspection, schema_uses
from kvformat.registry.authoring import HeaderNames, Part, SchemaRegistry

_SIZE = 3


class AcmeFraming(Framing):
    """A frame of `ac` and an id of two bytes, which may be in a header."""

    text: ClassVar[str] = "ac and the id of a schema"
    headers: ClassVar[Mapping[Part, HeaderNames]] = {"key": "acme-key-id", "value": "acme-id"}
    kinds: ClassVar[tuple[str, ...]] = ("acme",)

    def prefix(self, schema_id: Any) -> bytes:
        return b"\xac" + int(schema_id).to_bytes(2, "big")

    def read(self, messages: pa.BinaryArray, present: npt.NDArray[np.bool_], *, only_ids: bool = False) -> Frames:
        if not len(messages):
            return Frames(messages, np.zeros(0, np.int64), present, present, messages, str, size=_SIZE)
        data, starts, _, long = layout(messages, present, _SIZE)
        ids = data[starts + 1].astype(np.int64) * 256 + data[starts + 2]
        return Frames(messages, ids, long & (data[starts] == 0xAC), present, messages, str, size=_SIZE)

    def add_header(self, messages: pa.BinaryArray, headers: pa.BinaryArray | pa.StructArray) -> pa.BinaryArray:
        return pc.coalesce(pc.binary_join_element_wise(b"\xac", headers, messages, b""), messages)

    @classmethod
    def kind_of(cls, message: bytes, *, in_header: bool) -> str:
        return "acme" if len(message) > _SIZE and message[0] == 0xAC else ""


@pytest.fixture
def with_acme(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a registry to the table."""
    framings = (*known.FRAMINGS, AcmeFraming())
    for module in (known, schema_uses, inspection):
        monkeypatch.setattr(module, "FRAMINGS", framings)


@pytest.mark.usefixtures("with_acme")
def test_the_ids_of_a_new_registry_are_shown() -> None:
    messages = [b"\xac\0\7\2", b"\xac\0\x09\2", b"\xac\0\7\4"]
    assert [(use.schema, use.messages) for use in inspect_topic(messages).schemas] == [("7", 2), ("9", 1)]


@pytest.mark.usefixtures("with_acme")
def test_the_headers_of_a_new_registry_are_noted() -> None:
    headers = [[{"key": "acme-id", "value": b"\0\7"}], [{"key": "other", "value": b"\0\7"}]]
    result = inspect_topic([b"\2", b"\2"], headers=headers)
    assert [(use.schema, use.messages) for use in result.schemas] == [("7", 1)]
    assert "the schema's id is in the header 'acme-id' of 1 records" in result.notes


def test_other_messages_have_no_such_ids() -> None:
    assert inspect_topic([b"\xac\0\7\2", b"\xac\0\7\4"]).schemas == ()


def test_a_frame_belongs_to_one_registry() -> None:
    of_kind = {framing.kinds[0]: framing for framing in known.FRAMINGS}
    confluent, glue, apicurio = (of_kind[kind] for kind in ("confluent", "glue", "apicurio"))
    wide = ApicurioFraming(EIGHT, CONTENT_ID, "")
    heads = {
        "confluent": confluent.prefix(7),
        "glue": glue.prefix(str(uuid.uuid4())),
        "apicurio long id": wide.prefix(7),
        "": b"\xac\0\7",
    }
    for kind, head in heads.items():
        kinds = [framing.kind_of(head + b"\2", in_header=False) for framing in known.FRAMINGS]
        assert [name for name in kinds if name] == [kind] * bool(kind)
        assert known.kind_of_frame(head + b"\2") == kind
        assert not kind or any(kind in framing.kinds for framing in known.FRAMINGS)
    for part in ("key", "value"):
        assert len(apicurio.id_headers(part)) == 2  # the third one is the encoding
        assert confluent.id_headers(part) == (confluent.headers[part],)
        assert glue.id_headers(part) == ()


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(bytes(5), id="the id 0"),
        pytest.param(bytes(9), id="the id 0 in eight bytes"),
        pytest.param(b"\3\0" + uuid.uuid5(uuid.NAMESPACE_DNS, "a").bytes, id="a UUID that AWS does not make"),
    ],
)
def test_ids_that_no_registry_gives_are_no_frame(head: bytes) -> None:
    assert known.kind_of_frame(head + b"\2") == ""


def test_each_client_is_a_registry() -> None:
    assert len(known.CLIENTS) >= 6
    for scheme, entry_point in known.CLIENTS.items():
        module, _, name = entry_point.partition(":")
        assert issubclass(getattr(importlib.import_module(module), name), SchemaRegistry), scheme
