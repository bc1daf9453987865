"""Which source reads a table, and why; without Spark and without a broker."""

from __future__ import annotations

import json
import runpy
import sys
import types
from typing import Any

import pytest

import pyspark_kvformat
from kvformat.connectors import KafkaTable, source_choice
from kvformat.connectors.explain import explained
from kvformat.connectors.source_choice import choose
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.key_value_format import KeyValueFormat

GIVEN = {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "b:1", "format": "json"}
GIVEN |= {"scan.startup.mode": "earliest-offset"}
JKS = {"properties.security.protocol": "SSL", "properties.ssl.truststore.location": "/t.jks"}


def table(**options: str) -> KeyValueFormat:
    return KeyValueFormat("id INT", GIVEN | options).planned()


@pytest.mark.parametrize(
    ("options", "more", "why"),
    [
        ({}, {}, None),
        (JKS, {}, r"only Java's client can: .*properties\.ssl\.truststore"),
        ({"properties.security.protocol": "SASL_SSL"}, {}, "only Java's client can: .*GSSAPI"),
        *(
            (
                {"ingestion.ignore-errors": "true", "ingestion.error-tolerance.max-count": most},
                {},
                "'ingestion.error-tolerance.max-count' counts",
            )
            for most in ("3", "0")
        ),
        ({"ingestion.ignore-errors": "true"}, {}, None),
        ({}, {"spark_options": {"minPartitions": 3, "failondataloss": False}}, None),
        ({}, {"spark_options": {"kafkaConsumer.pollTimeoutMs": 5}}, "spark_options has 'kafkaConsumer.pollTimeoutMs'"),
    ],
)
def test_the_data_source_reads_where_it_can(options: dict[str, str], more: dict[str, Any], why: str | None) -> None:
    found = choose(table(**options), "auto", streaming=False, **more)
    if why is None:
        assert found.source == "python"
        assert choose(table(**options), "python", streaming=False, **more) == found
        return
    assert found.source == "spark"
    with pytest.raises(ConfigurationError, match=f"source='python': {why}.*Leave source out, or set it to 'spark'"):
        choose(table(**options), "python", streaming=False, **more)


def test_current_times_of_a_stream_are_repeated_by_spark_only() -> None:
    ddl = "CREATE TABLE t (id INT, now AS CURRENT_TIMESTAMP) WITH ({})"
    kv = KeyValueFormat.from_ddl(ddl.format(", ".join(f"'{key}' = '{text}'" for key, text in GIVEN.items())))
    assert choose(kv, "auto", streaming=False).source == "python"
    assert choose(kv, "auto", streaming=True).source == "spark"


def classic(version: str = "4.3.0", python: str = sys.executable) -> Any:
    """Return a session whose workers run a Python."""
    return types.SimpleNamespace(version=version, sparkContext=types.SimpleNamespace(pythonExec=python))


@pytest.mark.parametrize(("version", "source"), [("4.1.3", "spark"), ("4.2.0", "python"), ("4.3.0", "python")])
def test_streams_need_limits(version: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_choice, "missing_module", lambda *_: None)
    session = classic(version)
    assert choose(table(), "auto", streaming=True, spark=session).source == source
    assert choose(table(), "auto", streaming=False, spark=session).source == "python"


def test_workers_need_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_choice, "missing_module", lambda *_: "No module named 'confluent_kafka'")
    found = choose(table(), "auto", streaming=False, spark=classic())
    assert found.source == "spark"
    assert "Spark's workers lack confluent-kafka (No module named 'confluent_kafka')" in found.why


def test_the_driver_needs_the_python_of_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an archive of an environment, of a job that is submitted from another folder."""
    monkeypatch.setattr(source_choice, "missing_module", lambda *_: None)
    session = classic(python="./env/bin/python")
    found = choose(table(), "auto", streaming=False, spark=session)
    assert found.source == "spark"
    assert "there is no './env/bin/python' here: submit the job from the folder that has it" in found.why
    assert choose(table(), "auto", streaming=False, spark=classic(python="python3")).source == "python"


@pytest.mark.parametrize(
    ("lines", "source"),
    [
        ([], None),
        (["v1", '{"batchWatermarkMs":0,"conf":{"a":"b"}}'], None),
        (["v1", '{"batchWatermarkMs":0}', '{"t":{"0":5}}'], "spark"),
        (["v1", '{"batchWatermarkMs":0}', json.dumps({"t": {"0": 5}, "$topic_ids": {"t": "x"}})], "python"),
        (['{"other":{"0":1}}', json.dumps({"t": {"0": 5}, "$topic_ids": {}})], "python"),
    ],
)
def test_a_checkpoint_decides(lines: list[str], source: str | None) -> None:
    expected = source or "python"
    assert choose(table(), "auto", streaming=True, checkpoint=lines).source == expected
    other: Any = "spark" if expected == "python" else "python"
    if source is None:
        assert choose(table(), other, streaming=True, checkpoint=lines).source == other
    else:
        with pytest.raises(ConfigurationError, match=f"the checkpoint has offsets of the source '{source}'"):
            choose(table(), other, streaming=True, checkpoint=lines)


def test_another_name_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="source must be 'auto', 'python' or 'spark', not 'jvm'"):
        choose(table(), "jvm", streaming=False)  # type: ignore[arg-type]


def test_explain_names_the_source_and_its_reason() -> None:
    told = KafkaTable("id INT", GIVEN).explain()
    frozen = "by the data source 'kvformat', in Python: it needs no jar, and decodes where it reads; the end is that of"
    assert frozen in told
    found = explained(table(**JKS))["reading"]["batch"]["by"]
    assert found.startswith("Spark's Kafka source: only Java's client can: ")


class _Broken(types.ModuleType):
    """A module with an error that is no ImportError, as of a library that was compiled for another NumPy."""

    def __getattr__(self, name: str) -> Any:
        raise ValueError("numpy.dtype size changed") if name == "KvformatDataSource" else AttributeError(name)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (None, "import of .* halted"),
        (types.ModuleType("x"), "cannot import name"),
        (_Broken("x"), "dtype size changed"),
    ],
)
def test_spark_finds_other_data_sources_if_ours_cannot_be_imported(
    module: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark imports each module `pyspark_*`. An exception of one would end its search."""
    assert runpy.run_path(pyspark_kvformat.__file__)["DefaultSource"].name() == "kvformat"
    monkeypatch.setitem(sys.modules, "kvformat.connectors.data_source.source", module)
    with pytest.warns(ImportWarning, match=f"Spark can't use the data source 'kvformat': .*{why}"):
        found = runpy.run_path(pyspark_kvformat.__file__)
    assert "DefaultSource" not in found
