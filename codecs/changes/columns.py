"""Propose the columns of Canal, Maxwell and Ogg: by the types that messages declare, or else by the values of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kvformat.codecs._kernel.tree import Node
from kvformat.codecs.changes.envelope import Envelope
from kvformat.codecs.changes.metadata import TEXTS
from kvformat.codecs.changes.row_samples import JsonObject, RowSamples, envelopes
from kvformat.codecs.discovery.declared_types import AS_FLINK_READS, is_binary, jdbc_type, mysql_type
from kvformat.registry.contract.samples import MessageSample, SchemaProposal
from kvformat.registry.contract.types import BYTES

_CHOOSE = "'table.include', and 'database.include', choose one"


def propose_envelopes(
    sample: MessageSample, name: str, envelope: Envelope, options: Mapping[str, Any]
) -> SchemaProposal:
    """Propose columns of the format `name` by the values of the rows after and before changes."""
    return _add_envelopes(sample, name, envelope).schema(options)


def propose_canal(
    sample: MessageSample, envelope: Envelope, options: Mapping[str, Any], bytes_option: tuple[str, str]
) -> SchemaProposal:
    """Propose columns by `mysqlType`, or else `sqlType`, or else by the values, which are all texts.

    `bytes_option` is the name and value of the option that reads BYTES as Canal writes them.
    """
    binary = set[str]()

    def declare(rows: RowSamples, message: JsonObject) -> None:
        by_mysql, by_jdbc = message.get("mysqlType"), message.get("sqlType")
        declared, to_type = (by_mysql, mysql_type) if by_mysql and isinstance(by_mysql, dict) else (by_jdbc, jdbc_type)
        for name, text in declared.items() if isinstance(declared, dict) else ():
            rows.declare(name, to_type(text, AS_FLINK_READS))
            binary.update({name} if is_binary(text) else ())

    rows = _add_envelopes(sample, "canal-json", envelope, declare)
    proposal = rows.schema(options)
    names = {name for name in binary if all(map(_is_latin, rows.values.get(name, ())))}
    option, latin = bytes_option
    if not names or proposal.options.get(option, latin) != latin:
        return proposal
    fields = tuple(replace(field, type=BYTES) if field.name in names else field for field in proposal.fields)
    return replace(proposal, fields=fields, options={**proposal.options, option: latin})


def _add_envelopes(
    sample: MessageSample,
    name: str,
    envelope: Envelope,
    declare: Callable[[RowSamples, JsonObject], None] = lambda *_: None,
) -> RowSamples:
    """Add the rows after and before changes. `declare` adds the types that an envelope contains."""
    rows = RowSamples()
    key = next(known.member for known in envelope.metadata.values() if known.type == TEXTS)
    for message in envelopes(sample, rows.notes, envelope.operation, name):
        for image in (envelope.after, envelope.before):
            images = message.get(image)
            for row in images if envelope.rows_in_arrays and isinstance(images, list) else [images]:
                rows.add(row)
        rows.add_key(message.get(key))
        if "database" in envelope.metadata:
            rows.add_table(message.get("database"), message.get("table"))
        declare(rows, message)
    rows.note_tables(_CHOOSE)
    return rows


def _is_latin(value: Node) -> bool:
    """Return whether a value is a text with a character for each byte, as Canal writes bytes."""
    return value is None or (isinstance(value, str) and max(value, default="") <= "\xff")
