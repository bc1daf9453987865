"""Options that changes need because of what the messages leave out.

    changelog.mode      upsert, where there is no row before an update: PostgreSQL's default replica identity sends
                        none, and of a deleted row nothing but its key
    unchanged.columns   keep, where a placeholder stands for a large column that an update left as it was

The sample is decoded with and without them, so that the rules hold for each format that has the options.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._rows import error_count
from kvformat.codecs.changes.unchanged import KEEP, PLACEHOLDER_OPTION, UNCHANGED_OPTION
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.samples import MessageSample, SchemaProposal
from kvformat.registry.format import Format

_WHY = "as with PostgreSQL's default replica identity"


def add_needed_options(
    proposal: SchemaProposal, sample: MessageSample, name: str, upsert: tuple[str, str]
) -> SchemaProposal:
    """Add the options to a proposal of the format of a name, each with a note; options that are given stay.

    `upsert` is the option, and its value, for changes without the rows before them.
    """
    if not proposal.fields:
        return proposal
    return _with_unchanged(_with_changelog_mode(proposal, sample, name, upsert), sample, name)


def _with_unchanged(proposal: SchemaProposal, sample: MessageSample, name: str) -> SchemaProposal:
    """Add 'unchanged.columns' = 'keep' where messages have the placeholder of Debezium."""
    format = get_format(name, proposal.options)
    placeholder = format.options.get(PLACEHOLDER_OPTION.name)
    if placeholder is None or UNCHANGED_OPTION.name in proposal.options or not proposal.primary_key:
        return proposal
    count = sum(str(placeholder).encode() in message for message in sample.present())
    keeping = {**proposal.options, UNCHANGED_OPTION.name: KEEP}
    usual_errors = error_count(_decoded(proposal, sample, format))
    if not count or error_count(_decoded(proposal, sample, get_format(name, keeping))) > usual_errors:
        return proposal
    note = (
        f"{count} messages have {placeholder} in place of columns that did not change: '{UNCHANGED_OPTION.name}' = "
        f"'{KEEP}' tells them from values"
    )
    return replace(proposal, options=keeping, notes=(*proposal.notes, note))


def _decoded(proposal: SchemaProposal, sample: MessageSample, format: Format) -> DecodedBatch:
    return format.decode_batch(sample.array(), proposal.ddl)


def _with_changelog_mode(
    proposal: SchemaProposal, sample: MessageSample, name: str, mode: tuple[str, str]
) -> SchemaProposal:
    """Add 'changelog.mode' = 'upsert' and a note, where the sample has changes without the row before them.

    Without a PRIMARY KEY there is no such table: then the note alone says what is missing.
    """
    usual = get_format(name, proposal.options)
    if usual.changelog_mode is not ChangelogMode.ALL or mode[0] in proposal.options:
        return proposal
    upsert = {**proposal.options, mode[0]: mode[1]}
    batch = _decoded(proposal, sample, usual)
    bare = error_count(batch) - error_count(_decoded(proposal, sample, get_format(name, upsert)))
    if bare > 0 and not proposal.primary_key:
        note = (
            f"{bare} changes come without the row before them, {_WHY}: '{mode[0]}' = '{mode[1]}' reads them, "
            "which needs a PRIMARY KEY, and the keys of the records name none"
        )
        return replace(proposal, notes=(*proposal.notes, note))
    if bare > 0:
        note = f"{bare} changes come without the row before them, {_WHY}: they are read by the PRIMARY KEY"
    elif proposal.primary_key and _deletions_have_keys_only(batch, proposal.primary_key):
        note = f"deleted rows have nothing but their key, {_WHY}: changes are read by the PRIMARY KEY"
    else:
        return proposal
    return replace(proposal, options=upsert, notes=(*proposal.notes, note))


def _deletions_have_keys_only(batch: DecodedBatch, key: tuple[str, ...]) -> bool:
    """Whether no deleted row has a value beside its key, though other rows have."""
    rows, kinds = batch.rows.values, batch.row_kinds
    if kinds is None:
        return False
    deleted = pc.equal(kinds, "-D")
    others = [pc.struct_field(rows, i) for i, field in enumerate(rows.type) if field.name not in key]
    if not pc.any(deleted).as_py() or not others:
        return False
    return not _any_value(others, deleted) and _any_value(others, pc.invert(deleted))


def _any_value(columns: list[pa.Array], where: pa.BooleanArray) -> bool:
    """Whether a column has a value in one of the rows."""
    return any(pc.any(pc.and_(where, column.is_valid()), min_count=0).as_py() for column in columns)
