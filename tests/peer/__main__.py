"""The command line of the comparison with real Flink: `scripts/flink_peer --help`."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import importlib.metadata
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvformat.registry import KvFormatError
from kvformat.registry.contract.errors import KafkaSinkWarning
from tests.peer.cdc_sink import Sunk, write_and_read
from tests.peer.compare import Compared, Differs, Peers
from tests.peer.documented import plan
from tests.peer.flink import VERSION, Failed, Flink
from tests.peer.moving import Moved, move
from tests.peer.once import write_and_read_once
from tests.peer.tables import TABLES
from tests.support import services

PAGE = Path(__file__).parent.parent.parent / "docs" / "flink-peer.md"
MOVING, DOCUMENTED, SINK, ONCE = "moving", "documented", "cdc-sink", "once"
_MARKED = re.compile(r"(<!-- flink-peer -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> int:
    """Run the comparison. Returns the exit code: 1 if something differs."""
    names = [*(table.name for table in TABLES), SINK, MOVING, ONCE, DOCUMENTED]
    parser = argparse.ArgumentParser(
        prog="scripts/flink_peer", description="Let real Flink and this library write and read the same Kafka topics."
    )
    parser.add_argument("--rows", type=int, default=1000, help="of each table (default: 1000)")
    parser.add_argument("--seed", type=int, default=1, help="what all chance comes from (default: 1)")
    parser.add_argument("--only", action="append", choices=names, help="what is tried (default: all); may be repeated")
    parser.add_argument("--write", action="store_true", help=f"write the result into docs/{PAGE.name}")
    given = parser.parse_args()
    chosen = given.only or names
    if given.write and set(chosen) != set(names):
        parser.error("--write needs the results of all tables")
    compared: list[Compared] = []
    moved: Moved | None = None
    sunk: list[Sunk] = []
    statements = 0
    failures = 0
    with tempfile.TemporaryDirectory() as folder, _peers(Path(folder)) as peers:
        for name in chosen:
            try:
                if name == SINK:
                    for one in write_and_read(peers, given.seed, given.rows):
                        sunk.append(one)
                        print(f"{name:20} {one}", flush=True)
                elif name == MOVING:
                    moved = move(peers, 40 * given.rows, Path(folder, "checkpoint"))
                    print(f"{name:20} {moved}", flush=True)
                elif name == ONCE:
                    once = write_and_read_once(peers, 40 * given.rows)
                    print(f"{name:20} {once}", flush=True)
                elif name == DOCUMENTED:
                    statements = plan(peers.flink)
                    print(f"{name:20} {statements:6} statements planned by Flink", flush=True)
                else:
                    table = next(table for table in TABLES if table.name == name)
                    compared.append(peers.compare(table, table.rows(given.seed, given.rows)))
                    print(f"{name:20} {compared[-1].records:6} records equal", flush=True)
            except (Differs, Failed, KvFormatError) as error:
                failures += 1
                print(f"{name:20} {type(error).__name__}: {error}", flush=True)
    print(f"{failures} of {len(chosen)} differ")
    if given.write and not failures and moved is not None:
        page = PAGE.read_text(encoding="utf-8")
        report = _report(compared, sunk, moved, statements, given.seed)
        PAGE.write_text(_MARKED.sub(lambda m: f"{m[1]}{report}\n{m[2]}", page), encoding="utf-8")
    return int(failures > 0)


@contextlib.contextmanager
def _peers(folder: Path) -> Iterator[Peers]:
    """Run a broker, a registry, Spark and Flink inside the `with` block."""
    for name in ("broker", "registry", "flink"):
        (folder / name).mkdir()
    broker, registry = services.KafkaBroker(folder / "broker"), services.SchemaRegistry(folder / "registry")
    broker.start()
    registry.start()
    spark = _spark()
    try:
        with Flink(folder / "flink") as flink, warnings.catch_warnings():
            warnings.simplefilter("ignore", KafkaSinkWarning)  # the report mentions this warning
            yield Peers(flink, spark, broker, registry.url)
    finally:
        spark.stop()
        registry.kill()
        broker.kill()


def _spark() -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.jars": services.jars("spark-kafka"),
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.timeType.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("kvformat and Flink")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _report(compared: list[Compared], sunk: list[Sunk], moved: Moved, statements: int, seed: int) -> str:
    """Return the tables of the page."""
    lines = ["| table | key | value | columns | written by each | records, all equal | rows read, all equal |"]
    lines.append("| --- | --- | --- | ---: | ---: | ---: | ---: |")
    for one in compared:
        options = one.table.options
        key, value = options.get("key.format", ""), options.get("value.format") or options["format"]
        what = f"{one.written:,} {'changes' if one.table.changes else 'rows'}"
        cells = [f"`{one.table.name}`", key, value, str(len(one.table.read.fields)), what, f"2 x {one.records:,}"]
        lines.append(f"| {' | '.join([*cells, f'4 x {one.read:,}'])} |")
    versions = (
        f"Flink {VERSION} with {', '.join(sorted(path.stem for path in services.fetched('flink').glob('*.jar')))}, "
        f"{', '.join(sorted(path.stem for path in services.fetched('broker').glob('kafka_*.jar')))}, "
        f"PySpark {importlib.metadata.version('pyspark')}, seed {seed}"
    )
    sums = [sum(one.records for one in compared), sum(one.read for one in compared)]
    return "\n".join(
        [
            *lines,
            "",
            f"{len(compared)} tables, {2 * sums[0]:,} records, {4 * sums[1]:,} rows read: {versions}, "
            f"{dt.datetime.now(dt.UTC).date().isoformat()}.",
            "",
            "| `tables_to_topics`, value | key | records by | changes | records | changes read by Flink, all equal |",
            "| --- | --- | --- | ---: | ---: | ---: |",
            *(
                f"| {one.format} | {one.key} | `{one.strategy}` | {one.changes:,} | {one.records:,} | {one.changes:,} |"
                for one in sunk
            ),
            "",
            f"Moving over: Flink took {moved.flink:,} records and committed its group's offsets, the stream here took "
            f"the other {moved.ours:,}, and after a restart {moved.later:,} later ones. Each is there once.",
            "",
            f"The documentation: Flink took all {statements} statements of Flink SQL in the README and these pages.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
