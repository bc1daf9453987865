"""The README's first example in an environment with the wheel, without a jar: a topic becomes rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.environments import ROOT, Environment
from tests.support.sessions import JAVA

pytestmark = [pytest.mark.services]

SESSION = f"""
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
spark = builder.config("spark.driver.extraJavaOptions", "{JAVA}").getOrCreate()
"""
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE = re.search(r"```py\n(.*?)```\n\n```text\n(.*?)\n```", README, re.DOTALL)
MESSAGES = (b'{"order_id":"a-1","pay_amount":12.5}', b'{"order_id":"a-2","pay_amount":"free"}')


@pytest.mark.spark
def test_the_first_example_prints_what_the_readme_shows(installed: Environment, broker: Any) -> None:
    topic = f"orders-{installed.folder.name}"
    broker.send(broker.create(topic), [(None, message) for message in MESSAGES])
    assert EXAMPLE is not None
    lines, shown = EXAMPLE.groups()
    lines = lines.replace("'topic' = 'orders'", f"'topic' = '{topic}'").replace("localhost:9092", broker.bootstrap)
    assert topic in lines
    assert broker.bootstrap in lines
    python = str(installed.executable)
    told = installed.python(
        "-c",
        SESSION + lines + '\nprint("JARS", spark.conf.get("spark.jars", ""))',
        PYSPARK_PYTHON=python,
        PYSPARK_DRIVER_PYTHON=python,
    )
    assert shown in told
    assert "JARS \n" in told


INGEST = """
from kvformat import ingest, read_table
source = {{"topic": {topic!r}, "properties.bootstrap.servers": {servers!r}, "value.format": "json"}}
source["scan.startup.mode"] = "earliest-offset"
end = {{"trigger": {{"availableNow": True}}, "checkpoint_location": {folder!r} + "/checkpoint"}}
ingest(spark, source, {folder!r} + "/lake", **end).awaitTermination()
print("TABLE", read_table(spark, {folder!r} + "/lake", {topic!r}).orderBy("order_id").collect())
"""


@pytest.mark.spark
def test_ingestion_needs_no_jar(installed: Environment, broker: Any, tmp_path: Path) -> None:
    """Not for its first look at the newest records either, which finds both columns before the first batch."""
    topic = f"ingested-{installed.folder.name}"
    broker.send(broker.create(topic), [(None, message) for message in MESSAGES])
    python = str(installed.executable)
    told = installed.python(
        "-c",
        SESSION + INGEST.format(topic=topic, servers=broker.bootstrap, folder=str(tmp_path)),
        PYSPARK_PYTHON=python,
        PYSPARK_DRIVER_PYTHON=python,
    )
    assert "TABLE [Row(order_id='a-1', pay_amount='12.5'), Row(order_id='a-2', pay_amount='free')]" in told
