"""The upkeep of a table: small files are joined, and files that no reader needs are removed.

Checkpoints and old commits are deltalake's: it writes a checkpoint after each `delta.checkpointInterval` commits, and
then removes commits older than `delta.logRetentionDuration`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from pyarrow import fs as arrow_fs

from kvformat.registry.streams.delta.files import PREFIX, TARGET_BYTES, DataFile
from kvformat.registry.streams.delta.log import DeltaLog
from kvformat.registry.streams.delta.storage import TableStorage

_LOG = logging.getLogger("kvformat.delta")
_ORPHAN_SECONDS = 24 * 3600  # age of a file that is in no commit: its writer was killed, or would be too late
_SMALL_FILES = 4  # files below half of the target size that are not joined yet


def keep_up(storage: TableStorage, version: int, every: int) -> None:
    """Compact and clean the table if the number of its version is a multiple of `every`; 0 is never.

    A failure is logged: the rows are written, and the next run repeats the work.
    """
    if not every or version % every:
        return
    try:
        log = DeltaLog.open(storage)
        if log is None:
            return
        if sum(file.size < TARGET_BYTES // 2 for file in log.files()) > _SMALL_FILES:
            log.compact(TARGET_BYTES)
        log.vacuum()
        _remove_orphans(storage, log)
    except Exception as error:  # deltalake raises errors of its store, too
        _LOG.warning("the upkeep of the Delta table at '%s' failed: %s", storage.uri, type(error).__name__)


def _remove_orphans(storage: TableStorage, log: DeltaLog) -> None:
    """Remove our files that are in no commit, and so old that nobody commits them."""
    known = log.known_files()
    oldest = time.time() - _ORPHAN_SECONDS
    names = [
        info.base_name
        for info in storage.files().get_file_info(arrow_fs.FileSelector("", recursive=False))
        if info.is_file and info.base_name.startswith(PREFIX) and info.mtime_ns / 1e9 < oldest
    ]
    _remove(storage, [name for name in names if name not in known])


def discard(storage: TableStorage, files: Iterable[DataFile]) -> None:
    """Remove the files of a failed commit, unless they are in the log: a store may fail after the commit."""
    try:
        log = DeltaLog.open(storage)
    except Exception as error:  # deltalake raises errors of its store, too
        _LOG.warning("files of the Delta table at '%s' are left: %s", storage.uri, type(error).__name__)
        return
    known = set() if log is None else log.known_files()
    _remove(storage, [file.name for file in files if file.name not in known])


def _remove(storage: TableStorage, names: list[str]) -> None:
    files = storage.files()
    for name in names:
        try:
            files.delete_file(name)
        except OSError as error:
            _LOG.warning("cannot remove the file %s of the table at '%s': %s", name, storage.uri, type(error).__name__)
