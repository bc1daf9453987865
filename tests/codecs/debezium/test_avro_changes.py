"""The kernel's reader of Debezium's changes in Avro: the rule, both kernels, batches, and columns of other types."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvformat.codecs import KERNEL
from kvformat.registry import get_format
from tests.codecs.debezium import avro_envelopes
from tests.codecs.debezium.avro_envelopes import Envelopes, expected, is_usual, message, random_row
from tests.support.extent import case_count

_ROOT = Path(__file__).parents[3]
_SEEDS = st.integers(0, 2**32)
_MUTATIONS = case_count("KVFORMAT_AVRO_MUTATIONS", quick=2_000, night=6_000)  # for a night, set a million


@pytest.mark.parametrize("options", [{}, {"changelog.mode": "upsert"}, {"other-messages": "skip"}])
@pytest.mark.parametrize("in_record", [False, True])
def test_events_give_the_rows_of_their_operations(options: dict[str, str], in_record: bool) -> None:
    rows = errors = 0
    for seed in range(20):
        case = Envelopes(seed, count=100, settings=options)
        bare = in_record and "changelog.mode" in options
        if "changelog.mode" in options:
            case.format = case.format.for_rows(("id",), in_record=in_record)
        found = case.rows(list(case.messages))
        wanted = [expected(event, options, bare_deletes=bare) for event in case.events]
        assert [rows for _, rows in found] == wanted
        assert [error is None for error, _ in found] == [rows is not None for rows in wanted]
        rows += sum(len(rows or ()) for rows in wanted)
        errors += wanted.count(None)
        usual = [i for i, event in enumerate(case.events) if wanted[i] is not None and is_usual(event)]
        assert [rows for _, rows in case.rows([case.messages[i] for i in usual])] == [wanted[i] for i in usual]
    assert rows >= 1000
    assert errors >= 200


def test_both_kernels_give_the_same_rows_and_errors() -> None:
    if KERNEL != "compiled":
        pytest.skip("no compiled kernel")
    command = [sys.executable, "-m", "tests.codecs.debezium.avro_envelopes", str(_MUTATIONS)]
    environment = {**os.environ, "KVFORMAT_KERNEL": "python"}
    compared = good = 0
    with subprocess.Popen(command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE) as source:
        assert source.stdout is not None
        assert pickle.load(source.stdout) == "python"
        for messages, rows in avro_envelopes.batches(_MUTATIONS):
            assert pickle.load(source.stdout) == (messages, rows)
            compared += len(messages)
            good += rows.count("(None, [(")
        assert source.wait() == 0
    assert compared >= _MUTATIONS
    assert 0.2 * _MUTATIONS < good < 0.8 * _MUTATIONS


@settings(max_examples=20, deadline=None)
@given(_SEEDS)
def test_mutated_messages_are_read_alike_in_batches_and_alone(seed: int) -> None:
    case = Envelopes(seed, count=30)
    messages = case.mutated()
    assert case.rows(messages) == [case.rows([one])[0] for one in messages]


def test_a_bad_number_in_a_row_that_does_not_come_out_is_an_error() -> None:
    case = Envelopes(1, count=1, settings={"changelog.mode": "upsert"})
    schema = avro_envelopes.envelope_schema(case.rng)
    (case.folder / "99.avsc").write_text(json.dumps(schema), encoding="utf-8")
    good, bad = ({**random_row(case.rng), "small": small} for small in (1, 300))
    event = {"source": None, "ts_ms": 0}
    events = [
        {**event, "op": "u", "before": bad, "after": good},
        {**event, "op": "u", "before": good, "after": bad},
        {**event, "op": "u", "before": bad, "after": bad},
        {**event, "op": "x", "before": None, "after": bad},
        {**event, "op": "u", "before": good, "after": good},
    ]
    found = case.rows([message(99, schema, one) for one in events])
    fields = ["before", "after", "before", "after"]
    wanted = [(f"field '{field}.small': 300 does not fit TINYINT", None) for field in fields]
    assert found == [*wanted, (None, [("+U", good)])]


def _flat(tmp_path: Path, columns: str, mark: str, type: Any, values: list[Any]) -> Any:
    """Decode rows without an envelope whose field `mark` has these values. The table has the mark as a column too."""
    fields = [{"name": "id", "type": "int"}, {"name": mark, "type": type}]
    schema = {"type": "record", "name": "Value", "fields": fields}
    (tmp_path / "1.avsc").write_text(json.dumps(schema), encoding="utf-8")
    messages = [message(1, schema, {"id": 1, mark: value}) for value in values]
    fmt = get_format("debezium-avro-confluent", {"url": f"file:{tmp_path}", "flattened": "true"})
    return fmt.decode_batch(pa.array(messages, pa.binary()), columns)


def test_an_operation_may_be_a_column_of_bytes(tmp_path: Path) -> None:
    batch = _flat(tmp_path, "id INT, __op BYTES", "__op", ["null", "bytes"], [b"d", None, b"\xff", b"c"])
    assert batch.row_kinds.to_pylist() == ["-D", "+U", "+I"]
    assert batch.rows.value_lengths().to_pylist() == [1, 1, None, 1]
    assert batch.errors[2].as_py().startswith("'__op': unknown value '\ufffd'; it must be one of")


def test_a_number_is_not_an_operation(tmp_path: Path) -> None:
    batch = _flat(tmp_path, "id INT, __op INT", "__op", ["null", "int"], [7, None])
    assert batch.row_kinds.to_pylist() == ["+U"]
    assert batch.errors[0].as_py().startswith("'__op': unknown value '7'; it must be one of")


@pytest.mark.parametrize(
    ("column", "type", "values", "kinds"),
    [
        ("BOOLEAN", ["null", "boolean"], [True, False, None], ["-D", "+U", "+U"]),
        ("STRING", ["null", "string"], ["true", "false", None, "TRUE", "truest"], ["-D", *["+U"] * 4]),
        ("INT", ["null", "int"], [1, None], ["+U", "+U"]),
    ],
)
def test_the_mark_of_deletions_may_be_a_column(
    tmp_path: Path, column: str, type: Any, values: list[Any], kinds: list[str]
) -> None:
    batch = _flat(tmp_path, f"id INT, __deleted {column}", "__deleted", type, values)
    assert batch.errors is None
    assert batch.row_kinds.to_pylist() == kinds
    assert batch.rows.flatten().field("__deleted").to_pylist() == values
