"""A format as another package could define it: one `<kind><text>` per line, with errors and metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pyarrow as pa

from kvformat.registry import ChangelogMode, DecodedBatch, EncodedBatch, Format, Option


class ProbeFormat(Format):
    """Each line is a row kind and a text. A message `!reason` is an error; an empty message is skipped."""

    identifier: ClassVar[str] = "probe"
    changelog_mode = ChangelogMode.ALL
    option_specs: ClassVar[tuple[Option, ...]] = (
        Option(name="mark", default="", doc="Written before each text."),
        Option(name="password", sensitive=True, doc="A secret."),
        Option(name="size", type="memory", default=64, doc="A size."),
        Option(name="mode", type="enum", allowed=("FAST", "EXACT"), default="FAST", doc="A choice."),
    )
    metadata_types: ClassVar[Mapping[str, str]] = {"probe.length": "INT", "probe.note": "STRING NOT NULL"}

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        lists, kinds, errors = [], [], []
        for message in messages.to_pylist():
            text = None if message is None else message.decode()
            errors.append(text[1:] if text and text.startswith("!") else None)
            if text is None or errors[-1]:
                lists.append(None)
                continue
            extra = {"probe.length": len(message), "probe.note": "n"}
            lines = text.split("\n") if text else []
            kinds += [line[:2] for line in lines]
            lists.append([{schema.names[0]: line[2:]} | {key: extra[key] for key in metadata} for line in lines])
        fields = [
            pa.field(schema.names[0], pa.string()),
            *(pa.field(k, {"probe.length": pa.int32()}.get(k, pa.string())) for k in metadata),
        ]
        return DecodedBatch(
            pa.array(lists, pa.list_(pa.struct(fields))), pa.array(kinds, pa.string()), pa.array(errors, pa.string())
        )

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        kinds = ["+I"] * len(rows) if row_kinds is None else row_kinds.to_pylist()
        texts = rows.field(0).to_pylist()
        bad = [f"{text!r} can't be written" if text == "bad" else None for text in texts]
        out = [
            None if text is None or why else (kind + self.options["mark"] + text).encode()
            for kind, text, why in zip(kinds, texts, bad, strict=True)
        ]
        return EncodedBatch(pa.array(out, pa.binary()), pa.array(bad, pa.string()))
