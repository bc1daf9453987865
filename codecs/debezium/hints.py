"""Hints at the end of errors of Debezium's messages: which option to set, or what to change at the source."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._json_documents import without_array
from kvformat.codecs.changes.envelope import BatchReader, ChangeSettings, Envelope
from kvformat.codecs.changes.upsert import OR_UPSERT_HINT
from kvformat.codecs.debezium.connect_schema import image_schema_from_json, parse_json
from kvformat.registry.contract.batches import DecodedBatch

NO_BEFORE_HINT = (
    ". Postgres sends it only after ALTER TABLE ... REPLICA IDENTITY FULL; with another database, check that its log "
    "has whole rows (MySQL: binlog_row_image=FULL)" + OR_UPSERT_HINT
)
"""The end of an error: what to do if a message lacks the row before a change."""
MONGODB_HINT = (
    ". The message comes from MongoDB, whose documents are texts, mostly without the one before a change. Let the "
    "connector write rows (the transform ExtractNewDocumentState) and set 'flattened' to true, or read `op` and "
    "`after` as columns of type STRING by format json"
)
_OWN_TYPE = (
    r"^field '[^']*': cannot read .* as (?:DECIMAL|DATE|TIME|TIMESTAMP|TIMESTAMP_LTZ|BYTES|DOUBLE|BOOLEAN)(?:\(|$)"
)
"""The start of an error of a column type for which Debezium has types of its own."""
_IMAGE = r"^field '(?:payload\.)?(?:before|after)': "
"""The start of an error about the whole row before or after a change."""


class HintingReader:
    """Adds hints to the errors of a reader: for messages of MongoDB, and for values of Debezium's own types.

    `typed` says that the reader reads Debezium's own types, so that the second hint is not needed.
    """

    def __init__(self, reader: BatchReader, envelope: Envelope, settings: ChangeSettings, *, typed: bool) -> None:
        self._reader, self._envelope, self._wrapped, self._typed = reader, envelope, settings.wrapped, typed

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """One list of rows per message, as the reader gives it; its errors have hints."""
        batch = self._reader.read(messages)
        if batch.errors is None:
            return batch
        texts: list[str | None] = batch.errors.to_pylist()
        pattern = _IMAGE if self._typed else f"{_IMAGE}|{_OWN_TYPE}"
        for place in np.flatnonzero(np.asarray(pc.match_substring_regex(batch.errors, pattern).fill_null(False))):
            texts[place] = self._with_hint(str(texts[place]), messages[place].as_py())
        return replace(batch, errors=pa.array(texts, pa.string()))

    def _with_hint(self, error: str, message: bytes) -> str:
        if not re.match(_IMAGE, error):
            return error + self._type_hint(error, message)
        if _is_from_mongodb(parse_json(message), wrapped=self._wrapped):
            return error.removesuffix(self._envelope.no_before_hint) + MONGODB_HINT
        return error

    def _type_hint(self, error: str, message: bytes) -> str:
        how = "set 'types' = 'debezium' to read it"
        if not self._wrapped:
            return (
                f". If it is one of Debezium's own types, {how}, and set 'decimal.handling.mode' and "
                "'time.precision.mode' to the connector's"
            )
        column = re.sub(r"^field 'payload\.(.*?)': .*", r"\1", error, flags=re.DOTALL)
        if not self._envelope.flattened:
            column = column.partition(".")[2]
        image = image_schema_from_json(_schema_of(parse_json(message)), flat=self._envelope.flattened)
        schema = None if image is None else image.fields.get(column) or image.fields.get(re.split(r"[.\[]", column)[0])
        return f". By the message's schema it is {schema}: {how}" if schema is not None else ""


def _is_from_mongodb(message: Any, *, wrapped: bool) -> bool:
    message = without_array(message)
    event = message.get("payload") if wrapped and isinstance(message, dict) else message
    source = event.get("source") if isinstance(event, dict) else None
    return isinstance(source, dict) and source.get("connector") == "mongodb"


def _schema_of(message: Any) -> Any:
    """Return the schema of a message, or of the message in an array of one. None if there is no schema."""
    message = without_array(message)
    return message.get("schema") if isinstance(message, dict) else None
