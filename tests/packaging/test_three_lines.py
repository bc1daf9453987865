"""The README's first lines in an environment with the wheel, without a jar: a topic becomes rows."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.packaging.conftest import QUICK_JAVA, ROOT, Environment

pytestmark = [pytest.mark.services]

SESSION = f"""
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
spark = builder.config("spark.driver.extraJavaOptions", "{QUICK_JAVA}").getOrCreate()
"""
LINES = re.search(r"```py\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
TOLD = """
rows = spark.read.format("kvformat").option("ddl", ddl).load()
found = [[row.order_id, str(row.pay_amount)] for row in rows.collect()]
print("RESULT", json.dumps(found), spark.conf.get("spark.jars", ""))
"""


@pytest.mark.spark
def test_three_lines_read_a_topic(installed: Environment, broker: Any) -> None:
    topic = f"orders-{installed.folder.name}"
    broker.send(broker.create(topic), [(None, b'{"order_id":"a-1","pay_amount":12.5}')])
    assert LINES is not None
    lines = LINES[1].replace("'topic' = 'orders'", f"'topic' = '{topic}'").replace("localhost:9092", broker.bootstrap)
    assert topic in lines
    assert broker.bootstrap in lines
    python = str(installed.executable)
    told = installed.python("-c", SESSION + lines + TOLD, PYSPARK_PYTHON=python, PYSPARK_DRIVER_PYTHON=python)
    (line,) = (line for line in told.splitlines() if line.startswith("RESULT "))
    rows, _, jars = line.removeprefix("RESULT ").rpartition(" ")
    assert json.loads(rows) == [["a-1", "12.50"]]
    assert jars == ""
    assert "a-1" in told.partition("RESULT")[0], "show() printed the row"
