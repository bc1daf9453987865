"""What `encode` writes of rows in several batches, and of those before and after an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvformat.connectors.cli import _framing
from tests.support.cli import lines, run

_UPSERT = """CREATE TABLE users (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
    'connector' = 'upsert-kafka', 'topic' = 'users', 'properties.bootstrap.servers' = 'broker:9092',
    'key.format' = 'json', 'value.format' = 'json')"""


@pytest.mark.parametrize("size", [1, 1 << 18])
@pytest.mark.parametrize(
    ("schema", "rows"),
    [
        ("id INT", ['{"id":1}', '{"id":"x"}', '{"id":3}']),
        ("v STRING", ['{"v":"1"}', '{"v":"a\\nb"}', '{"v":"3"}']),  # the framing refuses it
    ],
)
def test_rows_before_an_error_are_written_if_it_stops(
    schema: str, rows: list[str], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_framing, "_CHUNK", size)
    by_raw = ("encode", "-f", "raw" if "v" in schema else "csv", "-s", schema, "--json")
    stopped = run(*by_raw, "--errors", "stop", given="\n".join(rows))
    assert (stopped.stdout, stopped.exit_code) == ("1\n", 1)
    assert lines(stopped.stderr)[-1] == {"rows": 2, "messages": 1, "bad": 1}
    assert run(*by_raw, given="\n".join(rows)).stdout == "1\n3\n"


def test_a_refused_message_is_not_the_only_one_of_a_file() -> None:
    result = run("encode", "-f", "raw", "-s", "v STRING", "--framing", "whole", given='{"v":null}\n{"v":"a"}\n')
    assert (result.stdout, result.exit_code) == ("a", 1)
    assert [fault["message"] for fault in lines(result.stderr.splitlines()[0])] == [1]


@pytest.mark.parametrize("size", [1, 70, 1 << 18])
@pytest.mark.parametrize("between", ["", "  ", "{"])
def test_an_update_with_lines_between_its_rows_is_no_delete(
    between: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blank lines are no rows, and a bad one is reported. It does not depend on the sizes of reads."""
    monkeypatch.setattr(_framing, "_CHUNK", size)
    file = tmp_path / "users.sql"
    file.write_text(_UPSERT)
    old, new = (json.dumps({"row_kind": kind, "row": {"id": 1, "name": kind}}) for kind in ("-U", "+U"))
    result = run("encode", "--ddl", file, "--json", given=f"{old}\n{between}\n{between}\n{new}\n{old}\n{between}\n")
    assert [json.loads(record["value"] or "null") for record in lines(result.stdout)] == [{"id": 1, "name": "+U"}, None]
    *faults, counts = lines(result.stderr)
    assert [fault["message"] for fault in faults] == ([2, 3, 6] if between == "{" else [])
    assert counts == {"rows": 3 + len(faults), "messages": 2, "bad": len(faults)}


@pytest.mark.parametrize("size", [1, 1 << 18])
def test_an_old_row_before_an_error_that_stops_is_a_delete(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_framing, "_CHUNK", size)
    file = tmp_path / "users.sql"
    file.write_text(_UPSERT)
    given = '{"row_kind":"-U","row":{"id":1}}\n{\n{"row_kind":"+U","row":{"id":1}}\n'
    result = run("encode", "--ddl", file, "--errors", "stop", "--json", given=given)
    assert lines(result.stdout) == [{"key": '{"id":1}', "value": None}]
    assert lines(result.stderr)[-1] == {"rows": 2, "messages": 1, "bad": 1}
