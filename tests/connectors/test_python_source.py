"""What a `KafkaTable` tells the data source `kvformat`, without Spark: options that the data source knows."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.utils import to_str

from kvformat.connectors import python_source
from kvformat.connectors.data_source.options import parse
from kvformat.connectors.data_source.source import KvformatDataSource
from kvformat.registry.contract.errors import BrokerError, OptionError
from kvformat.registry.key_value_format import KeyValueFormat

GIVEN = {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "b:1", "format": "json"}
GIVEN |= {"scan.startup.mode": "earliest-offset"}


class Session:
    """A session whose readers keep what they are told. Its time zone is that of New York."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}
        self.conf = {"spark.sql.session.timeZone": "America/New_York"}
        self.registered: list[Any] = []
        self.dataSource = self

    def register(self, source: Any) -> None:
        self.registered.append(source)

    def _reader(self, kind: str) -> Session:
        self.told = {"kind": kind}
        return self

    read = property(lambda self: self._reader("batch"))
    readStream = property(lambda self: self._reader("stream"))

    def format(self, name: str) -> Session:
        self.told["format"] = name
        return self

    def schema(self, schema: Any) -> Session:
        self.told["schema"] = schema
        return self

    def option(self, name: str, value: Any) -> Session:
        return self.options(**{name: value})

    def options(self, **given: Any) -> Session:
        texts = {name.lower(): to_str(value) for name, value in given.items()}
        self.told.setdefault("options", {}).update(texts)
        return self

    def load(self) -> Session:
        return self


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(python_source, "check_workers", lambda _: None)
    monkeypatch.setattr("kvformat.registry.table.decode_frame.finished", lambda stage, rows, streaming: rows)
    return Session()


def table() -> KeyValueFormat:
    return KeyValueFormat("id INT", GIVEN).planned()


@pytest.mark.parametrize("streaming", [False, True])
def test_the_arguments_of_a_table_are_options_of_the_data_source(session: Any, streaming: bool) -> None:
    callers = {"minPartitions": 5, "failOnDataLoss": False, "maxOffsetsPerTrigger": None, "time_zone": "UTC"}
    arguments: dict[str, Any] = {"metadata": {"at, then:": "timestamp"}, "errors": "capture", "row_index": True}
    python_source.decoded(session, table(), callers, streaming=streaming, **arguments)
    assert (session.told["kind"], session.told["format"]) == ("stream" if streaming else "batch", "kvformat")
    options = parse(session.told["options"])
    given = ("errors", "row_index", "time_zone", "minPartitions", "failOnDataLoss", "maxOffsetsPerTrigger")
    assert [options.values[name] for name in given] == ["capture", True, "America/New_York", 5, False, None]
    assert dict(options.metadata or {}) == {"at, then:": "timestamp"}
    assert (options.wire, options.records, options.ranges) == (True, False, False)
    assert KvformatDataSource(session.told["options"]).schema() == session.told["schema"]


@pytest.mark.parametrize("rows", ["records", "ranges"])
def test_records_and_ranges_have_options_of_their_own(rows: str, session: Any) -> None:
    getattr(python_source, rows)(session, table(), {"failOnDataLoss": False, "minPartitions": None}, streaming=True)
    options = parse(session.told["options"])
    assert (options.wire, options.records, options.ranges) == (False, rows == "records", rows == "ranges")
    assert (options.values["failOnDataLoss"], options.values["minPartitions"]) == (False, None)
    columns = {"records": ["key", "value", "topic"], "ranges": ["topic", "partition", "start"]}
    assert session.told["schema"].names[:3] == columns[rows]
    assert session.told["kind"] == "stream"


def test_the_data_source_is_registered_once_in_each_session(session: Any) -> None:
    for one in (session, other := Session(), session):
        python_source.records(one, table(), None, streaming=False)
    assert session.registered == other.registered == [KvformatDataSource]


@pytest.mark.parametrize(
    ("said", "kind", "option"),
    [
        ("Traceback\nkvformat.x.OptionError: there is no topic 't'", OptionError, "topic"),
        ("BrokerError: nobody answers", BrokerError, "properties.bootstrap.servers"),
        ("kvformat.x.MyBrokerError: another", None, None),
    ],
)
def test_an_error_of_the_data_source_is_raised_again(
    said: str, kind: Any, option: str | None, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.errors import PySparkException

    def is_empty() -> None:
        raise PySparkException(said)

    monkeypatch.setattr(Session, "isEmpty", lambda _: is_empty(), raising=False)
    with pytest.raises(kind or PySparkException) as raised:
        python_source.ask_topics(session, table())
    assert getattr(raised.value, "option", None) == option
    assert str(raised.value) == (said.rpartition("Error: ")[2] if kind else said)
