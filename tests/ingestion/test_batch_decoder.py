"""What the decoder of a table does for its targets. No Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from kvformat.ingestion import DeltaPathTarget, Pipeline, query_memory
from kvformat.ingestion.batch_decoder import BatchDecoder
from kvformat.ingestion.local_store import LocalSchemaStore
from kvformat.ingestion.planning import BatchNews, NewColumn, NewKey
from kvformat.ingestion.query import QuerySettings
from kvformat.ingestion.schemas.known import IngestState
from kvformat.ingestion.schemas.state import Cause
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.targets.target import Target
from kvformat.ingestion.targets.values import ValuesTarget
from kvformat.ingestion.testing.targets import table_schema
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.errors import ConfigurationError
from tests.ingestion.history import SOURCE

SHOP = TableId(("shop",))
BOTH = [{"source-table": "shop", "sink-table": name} for name in ("one", "two")]


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_memory, "SchemaStore", lambda _, checkpoint: LocalSchemaStore(checkpoint))
    monkeypatch.setattr(query_memory, "allows_time", lambda _: True)


def _batch(
    folder: Path,
    target: Target,
    source: dict[str, str] | None = None,
    *,
    key: tuple[str, ...] = (),
    routes: Any = (),
    transform: Any = (),
) -> BatchDecoder:
    """Return the decoder of a batch, whose messages have the columns `id` and `v`."""
    made = Pipeline({**SOURCE, **(source or {})}, target, route=routes, transform=transform)
    memory = query_memory.QueryMemory.of(made, target, QuerySettings(str(folder)), mock.Mock())
    memory.begin(mock.Mock())
    cause = Cause("shop", 0, 0)
    columns = tuple(NewColumn(SHOP, "value", name, (parse_type("INT"),), cause) for name in ("id", "v"))
    news = BatchNews({SHOP: cause}, columns, (NewKey(SHOP, key, cause),) if key else ())
    state = memory.planner.plan(IngestState(), news).state
    return BatchDecoder(made, memory, state, "UTC", (), mock.Mock())


@pytest.mark.parametrize("key", [(), ("id",)])
@pytest.mark.parametrize("latest", [False, True])
def test_only_a_target_of_last_rows_needs_a_key_for_changes_and_gets_the_last_row_of_each_key(
    tmp_path: Path, latest: bool, key: tuple[str, ...]
) -> None:
    target = DeltaPathTarget(tmp_path / "lake") if latest else ValuesTarget()
    decoder = _batch(tmp_path, target, key=key)._decoder(SHOP, few=True)
    assert (decoder.inserts_only, decoder.last_only) == (latest and not key, latest)
    assert decoder.result.primary_key == key


def test_rows_for_several_targets_are_all_rows_with_the_types_of_the_messages(tmp_path: Path) -> None:
    lake = DeltaPathTarget(tmp_path / "lake", types="broaden")
    one, several = (_batch(tmp_path, lake, key=("id",), routes=rules)._decoder(SHOP, few=True) for rules in ((), BOTH))
    assert (one.last_only, [column.type.root for column in one.result.columns]) == (True, ["BIGINT", "BIGINT"])
    assert (several.last_only, [column.type.root for column in several.result.columns]) == (False, ["INT", "INT"])


@pytest.mark.parametrize("routes", [[], BOTH])
def test_unchanged_values_are_kept_only_in_rows_that_go_to_one_table_as_they_are(
    tmp_path: Path, routes: Sequence[dict[str, str]]
) -> None:
    source = {"debezium-json.unchanged.columns": "keep", "debezium-json.changelog.mode": "upsert"}
    batch = _batch(tmp_path, ValuesTarget(), source, key=("id",), routes=routes)
    if routes:
        with pytest.raises(ConfigurationError, match=r"^table shop: 'unchanged\.columns' = 'keep' needs rows that go"):
            batch._decoder(SHOP, few=True)
    else:
        assert "unchanged_columns" in batch._decoder(SHOP, few=True).layout.value_format.own_columns


def test_columns_that_a_pipeline_declares_not_null_are_those_of_the_decoder(tmp_path: Path) -> None:
    source = {"value.format": "json", "table.columns": "v INT NOT NULL, id INT"}
    assert _batch(tmp_path, ValuesTarget(), source)._decoder(SHOP, few=True).not_null == {"v"}


def test_a_decoder_is_made_again_for_other_columns_of_its_target_and_for_another_time_zone(tmp_path: Path) -> None:
    batch = _batch(tmp_path, ValuesTarget())
    first = batch._decoder(SHOP, few=True)
    assert batch._decoder(SHOP, few=True) is first
    wider = table_schema("id BIGINT", "v INT")
    with mock.patch.object(batch.memory.tables, "expected", return_value=wider):
        assert batch._decoder(SHOP, few=True).result == wider
        assert replace(batch, time_zone="Asia/Tokyo")._decoder(SHOP, few=True).time_zone == "Asia/Tokyo"


def test_the_key_of_a_transform_is_the_key_of_the_rows(tmp_path: Path) -> None:
    rules = [{"source-table": "shop", "primary-keys": "v"}]
    decoder = _batch(tmp_path, ValuesTarget(), key=("id",), transform=rules)._decoder(SHOP, few=True)
    assert (decoder.schema.primary_key, decoder.layout.row_key) == (("v",), (1,))
