"""What `explain` says of CREATE TABLE ... AS TABLE: `kvformat ingest` runs and describes these statements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kvformat.connectors.cli._output import note, show, tell, write_json
from kvformat.connectors.kafka import KafkaTable
from kvformat.registry.contract.errors import KvFormatError
from kvformat.registry.sql.create_as_table import following_tables

__all__ = ["following_tables", "without_jobs"]


def without_jobs(
    text: str, names: list[str], jobs: Mapping[str, str], ddl: Path, options: Mapping[str, str], as_json: bool
) -> list[str]:
    """Say how the statements CREATE TABLE ... AS TABLE among the names are run, and return the other names.

    `jobs` are all targets of such statements, each with the table that it follows. A table that is followed is returned
    only if it can be read by itself.
    """
    others = []
    told = False
    for name in names:
        target = next((target for target in jobs if _is_name(name, target)), None)
        if target is not None:
            _tell_of_job(target, jobs[target], ddl, as_json)
            told = True
            continue
        try:
            KafkaTable.from_ddl(text, table=name, options=dict(options))
        except KvFormatError as error:
            if any(_is_name(name.rpartition(".")[2], source) for source in jobs.values()):
                _tell_of_followed(name, error, ddl, as_json)
                continue
        others.append(name)
    if told and others and not as_json:
        show("")
    return others


def _tell_of_job(target: str, source: str, ddl: Path, as_json: bool) -> None:
    run = f"kvformat ingest {ddl} --explain"
    if as_json:
        write_json([{"table": target, "follows": source, "explained_by": run}])
    else:
        show(f"table {target} follows {source}. Run the statement with 'kvformat ingest {ddl}'; '{run}' describes it")


def _tell_of_followed(name: str, error: KvFormatError, ddl: Path, as_json: bool) -> None:
    """Say why a table that another one follows is not explained by itself."""
    if as_json:
        tell({"table": name, "not_a_table_by_itself": str(error)})
    else:
        note(
            f"table '{name}' is followed by a CREATE TABLE ... AS TABLE; 'kvformat ingest {ddl} --explain' describes "
            f"it. It can't be read as a table by itself: {error}"
        )


def _is_name(name: str, table: str) -> bool:
    """Whether a name is that of a table, with or without its catalog and database."""
    plain, full = name.replace("`", ""), table.replace("`", "")
    return plain == full or full.endswith(f".{plain}")
