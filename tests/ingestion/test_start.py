"""What is checked before a query starts, and how the stream is written. Session and records are mocks here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from kvformat.ingestion import Pipeline, start
from kvformat.ingestion.local_store import LocalSchemaStore
from kvformat.ingestion.planning import BatchNews, NewColumn
from kvformat.ingestion.query import IngestBatch
from kvformat.ingestion.schemas.known import BatchPlan, IngestState
from kvformat.ingestion.schemas.state import Cause, SchemaState
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.start import first_look, start_query
from kvformat.ingestion.store import FIRST_BATCH
from kvformat.ingestion.targets.values import ValuesTarget
from kvformat.ingestion.testing.targets import table_schema
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.errors import ConfigurationError, MissingExtraError
from tests.ingestion.history import SOURCE

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp"]


def _started(
    source: dict[str, str] | None = None, *, zone: str = "UTC", columns: list[str] | None = None, **more: Any
) -> dict[str, Any]:
    """Start a query of given records, and return how its stream is written."""
    blocks = {name: more.pop(name) for name in ("pipeline", "transform") if name in more}
    pipeline = Pipeline({**SOURCE, **(source or {})}, {"type": "values"}, **blocks)
    records = mock.MagicMock(isStreaming=more.pop("streaming", True), columns=columns or COLUMNS)
    spark: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda _: zone))
    more = {"checkpoint_location": "/c", "target": ValuesTarget(), "probe": False, **more}
    start_query(pipeline, spark, records=records, **more)
    calls = records.writeStream.foreachBatch.mock_calls
    (function,) = calls[0].args
    batch = function.batch
    assert isinstance(batch, IngestBatch)
    found: dict[str, Any] = {"settings": batch.settings}
    for call in calls[1:]:
        name = call[0].rpartition(".")[2]
        found[name] = call.kwargs or call.args
    return found


def test_the_notes_of_a_pipeline_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    rules = [{"source-table": "a.b", "projection": r"\*, a / b AS c"}]
    _started(transform=rules)
    assert [record.levelname for record in caplog.records if "use DIV for whole numbers" in record.message] == [
        "WARNING"
    ]


def test_a_source_of_records_needs_them() -> None:
    """What the topic refuses is no reason against given records; another refusal is."""
    spark: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda _: "UTC"))
    pipeline = Pipeline({"type": "records", "value.format": "json"}, ValuesTarget())
    assert "Source: records, a stream of Kafka records that `start` gets" in pipeline.explain()
    with pytest.raises(ConfigurationError, match=r"the source has the type 'records': give the stream, start\(spark, "):
        start_query(pipeline, spark, checkpoint_location="/c", probe=False)
    assert _started({"scan.startup.mode": "group-offsets"})
    with pytest.raises(ConfigurationError, match=r"'value\.format' = 'avro': the messages don't have their schema"):
        _started({"value.format": "avro"})


@pytest.mark.parametrize(
    ("source", "pipeline", "given", "trigger"),
    [
        ({}, {}, None, None),
        ({"scan.bounded.mode": "latest-offset"}, {}, None, {"availableNow": True}),
        ({"scan.bounded.mode": "latest-offset"}, {"trigger": "5 s"}, None, {"processingTime": "5000 milliseconds"}),
        ({}, {"trigger": "1500 ms"}, None, {"processingTime": "1500 milliseconds"}),
        ({}, {"execution.runtime-mode": "BATCH"}, None, {"availableNow": True}),
        ({}, {"trigger": "5 s"}, {"once": True}, {"once": True}),
    ],
)
def test_the_trigger_is_that_of_the_call_or_of_the_pipeline(
    source: dict[str, str], pipeline: dict[str, str], given: dict[str, Any] | None, trigger: dict[str, Any] | None
) -> None:
    assert _started(source, pipeline=pipeline, trigger=given).get("trigger") == trigger


def test_the_checkpoint_and_the_name_are_those_of_the_call_or_of_the_pipeline() -> None:
    pipeline = {"checkpoint": "/other", "name": "shop"}
    found = _started(pipeline=pipeline, checkpoint_location=None)
    assert (found["option"], found["queryName"]) == (("checkpointLocation", "/other"), ("shop",))
    assert found["settings"].checkpoint == "/other"
    found = _started(pipeline=pipeline, query_name="mine")
    assert (found["option"], found["queryName"]) == (("checkpointLocation", "/c"), ("mine",))
    assert "queryName" not in _started()
    with pytest.raises(ConfigurationError, match="needs a checkpoint"):
        _started(checkpoint_location=None)


def test_the_settings_of_a_query_are_those_of_the_call() -> None:
    plain = _started()["settings"]
    assert (plain.on_table_error, plain.take_over, plain.logs_bad_records, plain.dead_letters) == (
        "stop",
        False,
        False,
        None,
    )
    found = _started(on_table_error="quarantine", take_over=True, dead_letters="/dead")["settings"]
    assert (found.on_table_error, found.take_over, found.dead_letters.to) == ("quarantine", True, "/dead")
    with pytest.raises(ConfigurationError, match="writes the records of a failed table to dead letters"):
        _started(on_table_error="quarantine")
    with pytest.raises(ConfigurationError, match="must be 'stop' or 'quarantine', not 'skip'"):
        _started(on_table_error="skip")


@pytest.mark.parametrize(
    ("collector", "to", "logs"),
    [
        ({}, None, False),
        ({"type": "logger"}, None, True),
        ({"type": "path", "location": "dead"}, "./dead", False),
        ({"type": "path", "location": "/dead"}, "/dead", False),
        ({"type": "path", "location": "s3://b/dead"}, "s3://b/dead", False),
        ({"type": "topic", "location": "dead"}, "dead", False),
    ],
)
def test_bad_records_go_where_the_pipeline_says(collector: dict[str, str], to: str | None, logs: bool) -> None:
    settings = _started(pipeline={"dirty-data.collector": collector})["settings"]
    assert (settings.dead_letters and settings.dead_letters.to, settings.logs_bad_records) == (to, logs)


def test_dead_letters_of_the_call_count_before_those_of_the_pipeline() -> None:
    collector = {"type": "logger"}
    settings = _started(pipeline={"dirty-data.collector": collector}, dead_letters="/mine")["settings"]
    assert (settings.dead_letters.to, settings.logs_bad_records) == ("/mine", True)
    with pytest.raises(ConfigurationError, match=r"cannot go to the topic that is read, 'shop'"):
        _started({"topic": "items;shop"}, dead_letters="shop")


def test_dead_letters_do_not_go_to_a_topic_that_matches_the_pattern() -> None:
    source = {key: text for key, text in SOURCE.items() if key != "topic"} | {"topic-pattern": "shop-.*"}
    sink, collector = {"type": "values"}, {"type": "topic", "location": "shop-dead"}
    pipeline = Pipeline(source, sink, pipeline={"dirty-data.collector": collector})
    with pytest.raises(ConfigurationError, match=r"topic that is read, 'shop-dead': its name matches 'topic-pattern'"):
        start_query(pipeline, mock.Mock(), checkpoint_location="/c", probe=False)


@pytest.mark.parametrize("missing", COLUMNS)
def test_records_have_the_columns_of_a_kafka_stream(missing: str) -> None:
    assert _started(columns=[*COLUMNS, "headers"])["settings"]
    with pytest.raises(ConfigurationError, match=f"no column '{missing}'"):
        _started(columns=[name for name in COLUMNS if name != missing])
    with pytest.raises(ConfigurationError, match="must be a stream"):
        _started(streaming=False)


@pytest.mark.parametrize(
    ("source", "transform"),
    [
        ({}, {"dialect": "flink", "filter": "v > 1"}),
        ({}, {"dialect": "flink", "projection": "\\*, v + 1 AS w"}),
        ({"value.format": "json", "table.columns": "v INT, t TIMESTAMP(3) METADATA FROM 'timestamp'"}, None),
    ],
)
def test_spark_evaluates_in_the_zone_of_the_session_only(
    source: dict[str, str], transform: dict[str, str] | None
) -> None:
    rules = [{"source-table": "t", **transform}] if transform else []
    blocks: dict[str, Any] = {"pipeline": {"local-time-zone": "Asia/Tokyo"}, "transform": rules}
    assert _started(source, zone="Asia/Tokyo", **blocks)
    with pytest.raises(ConfigurationError, match=r"set spark\.sql\.session\.timeZone = Asia/Tokyo"):
        _started(source, **blocks)
    assert _started(source, transform=rules)
    plain = [{"source-table": "t", "primary-keys": "v", "dialect": "flink"}]
    assert _started(pipeline=blocks["pipeline"], transform=plain), "nothing is evaluated"


def test_a_first_look_is_stored_once_for_a_query_that_knows_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table, cause = TableId(("shop",)), Cause("shop", 0, 7)
    column = NewColumn(table, "value", "id", (parse_type("BIGINT"),), cause)
    look, plan = mock.MagicMock(), mock.Mock()
    look.return_value.knowing.return_value.looked.return_value.run.return_value.news = BatchNews(
        {table: cause}, (column,)
    )
    monkeypatch.setattr(start, "SchemaStore", lambda _, checkpoint: LocalSchemaStore(checkpoint))
    monkeypatch.setattr(start, "look_stage", look)
    monkeypatch.setattr(start, "_newest_by_spark", mock.Mock())
    monkeypatch.setattr(start, "OffsetPlan", lambda _: plan)
    store = LocalSchemaStore(tmp_path)

    def newest(most: str = "9") -> int:
        """Return how often brokers were asked for the newest records."""
        pipeline = Pipeline({**SOURCE, "scan.max.pre.fetch.records": most}, {"type": "values"})
        first_look(pipeline, mock.Mock(), str(tmp_path), in_python=False)
        return len(plan.newest.mock_calls)

    assert newest("0") == 0
    plan.newest.return_value = []
    assert newest() == 1
    plan.newest.side_effect = MissingExtraError("no client")
    assert newest() == 2
    assert "no first look at the newest records, because the brokers can't be asked: no client" in caplog.text
    assert store.load()[0] == IngestState(), "nothing was seen"
    plan.newest.side_effect, plan.newest.return_value = None, [mock.Mock()]
    assert newest() == 3
    plan.newest.assert_called_with(9)
    assert store.load()[0].sources[table].value.columns == {"id": parse_type("BIGINT")}
    assert store.load(FIRST_BATCH)[1] is not None
    query = store.chosen("query")
    assert query is not None
    assert newest() == 3
    assert store.chosen("query") == query


@pytest.mark.parametrize("probe", [False, True])
@pytest.mark.parametrize("forgets", [False, True])
def test_a_target_is_probed_and_gets_forgotten_tables_before_the_first_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, probe: bool, forgets: bool
) -> None:
    table, target = TableId(("shop",)), mock.Mock()
    state = IngestState(schemas=SchemaState(targets={table: table_schema("id INT")}))
    LocalSchemaStore(tmp_path).write(0, IngestState(), BatchPlan(state))
    monkeypatch.setattr(start, "SchemaStore", lambda _, checkpoint: LocalSchemaStore(checkpoint))
    in_session = target.with_session.return_value
    in_session.forgets_tables = forgets
    _started(target=target, probe=probe, checkpoint_location=tmp_path)
    assert in_session.probe.called is probe
    assert [[*call.args[0]] for call in in_session.remember.mock_calls] == [[table]] * forgets


# --- records of topics -------------------------------------------------------------------------------------------


def _asked(
    monkeypatch: pytest.MonkeyPatch, source: dict[str, str] | None = None, *, resumed: bool = False, **more: Any
) -> Any:
    """Start a query of topics, and return the mocks of all that brokers are asked by."""
    asked = mock.MagicMock()
    asked.planned.return_value.resumed = resumed
    monkeypatch.setattr("kvformat.connectors.source_choice.planned", asked.planned)
    monkeypatch.setattr("kvformat.connectors.topics.check", asked.topics)
    monkeypatch.setattr("kvformat.connectors.offsets.check_group_is_unused", asked.group)
    monkeypatch.setattr(start, "first_look", asked.look)
    pipeline = Pipeline({**SOURCE, **(source or {})}, {"type": "values"})
    start_query(pipeline, mock.Mock(), checkpoint_location="/c", probe=False, **more)
    return asked


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("check", [False, True])
def test_a_group_is_checked_if_there_is_one_and_its_option_says_so(
    monkeypatch: pytest.MonkeyPatch, group: bool, check: bool
) -> None:
    source = {"scan.check.duplicated.group.id": str(check), **({"properties.group.id": "g"} if group else {})}
    assert _asked(monkeypatch, source).group.called is (group and check)


def test_the_topic_of_dead_letters_is_checked_before_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _asked(monkeypatch, dead_letters="dead").topics.call_args.args[1] == ("dead",)
    assert not _asked(monkeypatch).topics.called


@pytest.mark.parametrize("resumed", [False, True])
def test_only_a_query_without_offsets_has_a_first_look(monkeypatch: pytest.MonkeyPatch, resumed: bool) -> None:
    assert _asked(monkeypatch, resumed=resumed).look.called is not resumed


def test_records_are_read_with_headers_from_the_checkpoint_and_with_the_options_of_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = _asked(monkeypatch, spark_options={"maxOffsetsPerTrigger": 5})
    assert asked.planned.call_args.kwargs == {
        **{"streaming": True, "headers": True, "checkpoint_location": "/c"},
        "spark_options": {"maxOffsetsPerTrigger": 5},
    }


def test_what_only_the_source_refuses_does_not_count_for_given_records() -> None:
    assert _started({"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": "5"})
    with pytest.raises(ConfigurationError, match=r"can't be started:\n- .*'avro'"):
        _started({"value.format": "avro"})
