"""The page for SQL users: views of topics, a server for JDBC, and the lake without Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kvformat.ingestion import ingest
from tests.support import services

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow, pytest.mark.once]
PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
ORDERS = """CREATE TABLE orders (customer STRING, price INT) WITH ('connector' = 'kafka', 'topic' = 'sql-orders',
  'properties.bootstrap.servers' = '{bootstrap}', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE prices (id INT, n INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka',
  'topic' = 'sql-prices', 'properties.bootstrap.servers' = '{bootstrap}', 'key.format' = 'json',
  'value.format' = 'json')
"""


@pytest.fixture(scope="module")
def place(spark: Any, broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files and the lake that the page names."""
    folder = tmp_path_factory.mktemp("sql")
    for topic in ("sql-orders", "sql-prices", "sql-shop"):
        broker.create(topic)
    (folder / "tables.sql").write_text(ORDERS.format(bootstrap=broker.bootstrap))
    broker.send("sql-orders", [(None, b'{"customer":"a","price":1}'), (None, b'{"customer":"a","price":2}')])
    broker.send("sql-prices", [(b'{"id":1}', b'{"id":1,"n":1}'), (b'{"id":1}', b'{"id":1,"n":2}')])
    message = '{"before":null,"after":{"id":%d},"op":"c","source":{"db":"shop","table":"%s"}}'
    tables = [(None, (message % (n, table)).encode()) for n in range(3) for table in ("orders", "items")]
    broker.send("sql-shop", tables)
    source = {"type": "kafka", "topic": "sql-shop", "properties.bootstrap.servers": broker.bootstrap}
    source |= {"scan.startup.mode": "earliest-offset", "value.format": "debezium-json"}
    by_id = [{"source-table": r"\.*.\.*", "primary-keys": "id"}]
    query = ingest(
        spark,
        source,
        str(folder / "lake"),
        checkpoint_location=folder / "checkpoint",
        transform=by_id,
        trigger={"availableNow": True},
    )
    assert query.awaitTermination(300)
    return folder


def snippets(language: str, folder: Path) -> list[str]:
    """Return the page's code in a language, with the paths of the test."""
    code = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [one.replace("/etc/kafka", str(folder)).replace('"/lake', f'"{folder}/lake') for one in code]


def test_a_view_shows_newer_records_when_it_is_created_again(spark: Any, broker: Any, place: Path) -> None:
    (statements,) = snippets("sql", place)
    create, select = (text for text in statements.split(";") if text.strip())

    def shown() -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(select).collect()]

    spark.sql(create)
    assert shown() == [("a", 3)]
    broker.send("sql-orders", [(None, b'{"customer":"a","price":4}')])
    assert shown() == [("a", 3)]
    spark.sql(create)
    assert shown() == [("a", 7)]
    spark.sql("INSERT INTO orders VALUES ('a', 10)")
    spark.sql(create)
    assert shown() == [("a", 17)]


def test_views_of_all_tables_show_current_rows(spark: Any, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    register, _, lake = snippets("python", place)
    exec(compile(register, "sql.md", "exec"), {"spark": spark})
    assert [tuple(row) for row in spark.sql("SELECT * FROM prices").collect()] == [(1, 2)]
    exec(compile(lake, "sql.md", "exec"), {})
    assert "│            3 │" in capsys.readouterr().out


def test_a_jdbc_client_sees_topics_and_the_lake(place: Path, tmp_path: Path) -> None:
    """Spark's own client connects to the server of the page."""
    import pyspark

    _, server, _ = snippets("python", place)
    port = services.free_port()
    (tmp_path / "sql_server.py").write_text(server.replace('"10000"', f'"{port}"'))
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    with open(tmp_path / "log", "wb") as log:
        running = subprocess.Popen(
            [sys.executable, "sql_server.py"], cwd=tmp_path, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            ask = (
                "SELECT concat('found ', (SELECT count(*) FROM shop_orders), ' ', (SELECT sum(price) > 2 FROM orders))"
            )
            command = [home / "bin" / "beeline", "--silent=true", "-u", f"jdbc:hive2://127.0.0.1:{port}", "-e", ask]
            deadline, told = time.monotonic() + 240, ""
            while "found 3 true" not in told and time.monotonic() < deadline and running.poll() is None:
                told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120).stdout
            assert "found 3 true" in told, (tmp_path / "log").read_text()[-5000:]
        finally:
            running.terminate()
            running.wait(60)
