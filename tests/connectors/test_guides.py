"""Run the code of the guides on a real broker: moving a job from Flink, and operating it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors import KafkaTable

ROOT = Path(__file__).parent.parent.parent
pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]


def _snippets(page: str, language: str, broker: Any) -> list[str]:
    """Return the code of a page in one language, with this broker and with topics of the test."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").replace("broker:9092", broker.bootstrap)
    text = re.sub(r"'topic' = '([\w-]+)'", lambda topic: f"'topic' = '{page[:4]}-{topic[1]}'", text)
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def _run(page: str, broker: Any, scope: dict[str, Any]) -> None:
    for number, snippet in enumerate(_snippets(page, "python", broker)):
        exec(compile(snippet, f"{page}, snippet {number}", "exec"), scope)


def _order(number: int) -> bytes:
    return json.dumps({"id": number, "customer": f"c{number % 7}", "price": number + 0.5}).encode()


def test_from_flink_to_spark(spark: Any, broker: Any, tmp_path: Path) -> None:
    topic, large = broker.create("from-orders", 3), broker.create("from-large-orders", 2)
    broker.send(topic, [(None, _order(n)) for n in range(150)])
    committed = _commit_all(broker, topic, "large-orders")  # Flink's work up to its last checkpoint
    assert committed == 150
    broker.send(topic, [(None, _order(n)) for n in range(150, 300)])
    broker.send(topic, [(None, b'{"id": "broken"'), (None, _order(5))])

    job_sql, _ = _snippets("from-flink.md", "sql", broker)
    scope: dict[str, Any] = {"spark": spark, "job_sql": job_sql, "lake": str(tmp_path)}
    _run("from-flink.md", broker, scope)
    assert {row.id for row in scope["good"].collect()} == set(range(300)), "all there is"
    assert sorted(row.id for row in scope["current"].collect()) == list(range(150, 300)), "nothing twice, nothing lost"
    assert len(broker.records(large)) == 150
    assert [(row.code, bytes(row.value)) for row in scope["bad"].collect()] == [("MALFORMED", b'{"id": "broken"')]
    assert {row.row_kind for row in scope["changes"].collect()} == {"+U"}
    assert scope["by_customer"].count() == 7
    assert sorted(row.id for row in scope["table"].collect()) == list(range(150, 300))


def _commit_all(broker: Any, topic: str, group: str) -> int:
    """Read a topic to its end in a group, and commit. Return the number of records."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.auto.commit": False})
    ends = {message.partition(): message.offset() + 1 for message in broker.records(topic)}
    consumer.commit(
        offsets=[TopicPartition(topic, partition, ends.get(partition, 0)) for partition in range(3)], asynchronous=False
    )
    consumer.close()
    return sum(ends.values())


def test_shell_commands_of_the_guide(broker: Any, tmp_path: Path) -> None:
    for name in ("from-orders-2", "from-large-orders-2"):
        broker.create(name)
    broker.send("from-orders-2", [(None, _order(n)) for n in range(9)])
    job_sql, followed = _snippets("from-flink.md", "sql", broker)
    (tmp_path / "job.sql").write_text(re.sub(r"('topic' = 'from-[\w-]+)'", r"\1-2'", job_sql))
    page = (ROOT / "docs" / "from-flink.md").read_text(encoding="utf-8")
    *commands, ingest = re.findall(r"^    kvformat ([^#\n]*)", page, re.MULTILINE)
    assert len(commands) == 3
    assert ingest.startswith("ingest job.sql")
    assert "AS TABLE orders" in followed
    for command in commands:
        run = subprocess.run(
            [sys.executable, "-m", "kvformat", *command.split()],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        # a test machine may not have everything that doctor checks
        assert run.returncode == 0 or command.startswith("doctor"), run.stderr
        assert run.stdout
        if command.startswith("tail"):
            assert len(run.stdout.splitlines()) == 5


def test_operating(spark: Any, broker: Any, tmp_path: Path) -> None:
    broker.send(broker.create("oper-orders"), [(None, _order(n)) for n in range(20)] + [(None, b"{"), (None, b"[1")])
    upserts = [(b'{"id":%d}' % n, b'{"id":%d,"price":1}' % n) for n in range(5)]
    broker.send(broker.create("oper-prices"), [*upserts, (b'{"id":0}', None), (b'{"id":9}', b"?")])
    scope: dict[str, Any] = {"spark": spark, "lake": str(tmp_path)}
    before = spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch")
    try:
        _run("operating.md", broker, scope)
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", before)
    assert (scope["counts"].rows, scope["counts"].bad, scope["counts"].MALFORMED) == (20, 2, 2)
    assert scope["dead"].count() == 1
    assert scope["moved"].count() == 0
    assert (scope["replayed"].letters, scope["replayed"].still_bad) == (1, 1)
    sql = "CREATE TABLE t (id BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ("
    options = "'connector' = 'upsert-kafka', 'topic' = 'oper-prices', 'key.format' = 'json', 'value.format' = 'json', "
    prices = KafkaTable.from_ddl(f"{sql}{options}'properties.bootstrap.servers' = '{broker.bootstrap}')")
    assert prices.read(spark, changelog=True, errors="capture").where("error IS NOT NULL").count() == 1
