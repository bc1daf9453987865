"""`kvformat tables`: the Delta tables below a path, without Spark."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click
from pyarrow import fs as arrow_fs

from kvformat.connectors.cli._output import json_option, show, table, write_json
from kvformat.ingestion.targets.delta_path import DROPPED_PROPERTY, table_of_folder, writer_of
from kvformat.ingestion.targets.target import OWNER_PROPERTY, TABLE_PROPERTY, batch_of
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.streams.delta.log import DeltaLog
from kvformat.registry.streams.delta.storage import TableStorage


@dataclass(frozen=True)
class _DeltaTable:
    """A table. rows: None if a file does not say it. batch: that of the last write, None if no query writes it."""

    table: str
    rows: int | None
    files: int
    bytes: int
    version: int
    batch: int | None
    written: str


@click.command()
@click.argument("path")
@json_option("A line of JSON for each table.")
def tables_command(path: str, as_json: bool) -> None:
    """Show the Delta tables that an ingestion writes below PATH: rows, files, and the last batch.

    Needs no Spark. Credentials of an object store come from the environment, such as AWS_ACCESS_KEY_ID.
    """
    tables = sorted(_tables(TableStorage.of(path)), key=lambda each: each.table)
    if not tables:
        raise ConfigurationError(f"there are no Delta tables at '{path}'")
    if as_json:
        write_json(asdict(each) for each in tables)
        return
    rows = [
        (
            each.table,
            "?" if each.rows is None else f"{each.rows:,}",
            f"{each.files:,}",
            f"{each.bytes:,}",
            str(each.version),
            "" if each.batch is None else str(each.batch),
            each.written,
        )
        for each in tables
    ]
    show(*table(("table", "rows", "files", "bytes", "version", "batch", "last file"), rows))


def _tables(lake: TableStorage) -> Iterator[_DeltaTable]:
    folders = lake.files().get_file_info(arrow_fs.FileSelector("", allow_not_found=True))
    for name in (info.base_name for info in folders if info.type == arrow_fs.FileType.Directory):
        log = DeltaLog.open(lake.below(name))
        if log is None or log.properties.get(DROPPED_PROPERTY) == "true":
            continue
        files = log.files()
        counts = [file.rows for file in files if file.rows is not None]
        parts = json.loads(log.properties.get(TABLE_PROPERTY, "null"))
        owner = log.properties.get(OWNER_PROPERTY)
        position = -1 if owner is None else log.position(writer_of(owner))
        last = max((file.written for file in files), default=None)
        yield _DeltaTable(
            ".".join(parts) if parts else table_of_folder(name),
            sum(counts) if len(counts) == len(files) else None,
            len(files),
            sum(file.size for file in files),
            log.version,
            batch_of(position),
            "" if last is None else dt.datetime.fromtimestamp(last / 1000, dt.UTC).isoformat(" ", "seconds"),
        )
