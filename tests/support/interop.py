"""Load tables and Kafka records that real Flink wrote, and the expected results (fixtures/interop/README.md)."""

from __future__ import annotations

import base64
import functools
import json
import lzma
from pathlib import Path
from typing import Any

import pyarrow as pa

from kvformat.registry.contract.types import FlinkField, FlinkType
from kvformat.registry.sql.create_table import parse_create_table
from kvformat.registry.sql.table_definition import TableDefinition
from tests.support import vectors

_FOLDER = Path(__file__).parents[2] / "fixtures" / "interop"
Case = dict[str, Any]
Row = tuple[str, tuple[Any, ...]]

# Expected results where the library deviates from Flink on purpose (docs/key-value.md and docs/flink.md): rows, or the
# number of rows before the record with an error.
_NULL_KEY = {
    "hand_key_null_all": [(5, "lost?"), (1, "kept")],
    "hand_key_null_avro": [(None, "lost?"), (1, "kept")],
    "hand_key_null_json": [(None, "lost?"), (1, "kept")],
}
_KEY_WITHOUT_ROW = {
    "hand_key_empty_json": [(None, "empty key"), (1, "kept")],
    "hand_key_csv_bad_ignore": [(None, "x"), (None, "y"), (1, "kept")],
    "hand_key_bad_ignore": [(None, "x"), (1, "kept")],
    "hand_bad_d_key_ignore": [(None, "x"), (2, "x")],
    "hand_bad_e_key_ignore": [(None, "x"), (2, "x")],
    "hand_bad_key_ignore_raw_value": [(None, "x"), (2, "y")],
}
_SKIPPED_VALUE = {  # no delete
    "hand_bad_b_value_ignore_upsert": [(1, "a"), (2, "x")],
    "hand_bad_d_value_ignore_upsert": [(1, "a"), (2, "x")],
    "hand_bad_f_value_ignore_upsert": [(1, "a"), (2, "x")],
    "hand_upsert_value_bad_ignore": [(1, "a")],
}
DEVIATIONS: dict[str, list[tuple[Any, ...]]] = {**_NULL_KEY, **_KEY_WITHOUT_ROW, **_SKIPPED_VALUE}
# A JSON null as value is a deletion, as Connect's converter writes it. In Flink the job fails.
DELETIONS: dict[str, list[Row]] = {"hand_upsert_value_literal_null": [("+I", (1, "a")), ("-D", (1, "a"))]}
# Flink reads 1.2345 as 123.45. Here, a decimal whose scale does not fit the column is an error.
ERRORS = ("hand_acw_decimal_scale",)
# These cases do not test decoding: the Kafka source chooses topics and offsets.
OTHER_RECORDS = (
    "hand_start_group_offsets_none",
    "hand_start_group_offsets_reset",
    "hand_start_timestamp",
    "hand_topic_pattern_longer",
)


@functools.cache
def cases() -> dict[str, Case]:
    """Return all cases by name."""
    with lzma.open(_FOLDER / "cases.jsonl.xz", "rt", encoding="ascii") as lines:
        return {case["case"]: case for case in map(json.loads, lines)}


def refusals() -> list[Case]:
    """Return tables that Flink plans or refuses."""
    with lzma.open(_FOLDER / "errors.jsonl.xz", "rt", encoding="ascii") as lines:
        return [json.loads(line) for line in lines]


def plans() -> list[Case]:
    """Return more tables that Flink plans or refuses."""
    with lzma.open(_FOLDER / "plans.jsonl.xz", "rt", encoding="ascii") as lines:
        return [json.loads(line) for line in lines]


@functools.cache
def expressions() -> list[Case]:
    """Return expressions and Flink's output for them."""
    return [json.loads(line) for line in (_FOLDER / "expressions.jsonl").read_text(encoding="ascii").splitlines()]


@functools.cache
def likes() -> list[Case]:
    """Return CREATE TABLE statements with LIKE and Flink's result. `bases` are the statements of the other tables."""
    first, *cases = map(json.loads, (_FOLDER / "likes.jsonl").read_text(encoding="ascii").splitlines())
    return [{**case, "bases": "; ".join(first["bases"])} for case in cases]


def ddl(case: Case, folder: Path) -> str:
    """Return the table's DDL. The URL of its schema registry is replaced by a folder."""
    for schema_id, schema in case.get("schemas", {}).items():
        text = schema if isinstance(schema, str) else json.dumps(schema)
        (folder / f"{schema_id}.avsc").write_text(text, encoding="utf-8")
    text = case["ddl"].replace("{bootstrap}", "localhost:9092")
    assert isinstance(text, str)
    return text.replace("{registry}", f"file:{folder}")


def table(case: Case) -> TableDefinition:
    return parse_create_table(case["ddl"])


def binary(case: Case, name: str) -> pa.BinaryArray:
    """Return the keys or values of the records."""
    data = [record[name] for record in case["records"]]
    return pa.array([None if value is None else base64.b64decode(value) for value in data], pa.binary())


def row_type(columns: TableDefinition, *, of_kafka: bool = True, virtual: bool = True) -> FlinkType:
    """Return the table's columns as a ROW, with or without the connector's metadata and virtual columns."""
    fields = []
    for column in columns.columns:
        kafka = column.kind == "metadata" and not column.key.startswith("value.")
        if column.type is not None and (of_kafka or not kafka) and (virtual or not column.virtual):
            fields.append(FlinkField(column.name, column.type))
    return FlinkType("ROW", fields=tuple(fields))


def python_row(row: dict[str, Any], row_type: FlinkType, columns: TableDefinition) -> tuple[Any, ...]:
    """Convert a row of the fixture to canonical Python values (see `vectors`), by position if names differ."""
    names = [column.name for column in columns.columns if not column.virtual]
    if not set(row) <= {column.name for column in columns.columns}:
        row = dict(zip(names, row.values(), strict=True))
    found = vectors.to_python([_vector(row.get(f.name), f.type) for f in row_type.fields], row_type)
    assert isinstance(found, tuple)
    return found


def _vector(value: Any, t: FlinkType) -> Any:
    """Convert a value to the notation of the vectors, which use lists for maps and rows."""
    if value is None:
        return None
    if t.root == "ROW":
        members = list(value.values()) if isinstance(value, dict) else value
        return [_vector(v, f.type) for v, f in zip(members, t.fields, strict=True)]
    if t.root == "ARRAY":
        return [_vector(v, t.fields[0].type) for v in value]
    if t.root in ("MAP", "MULTISET") and isinstance(value, dict):
        value_type = t.fields[1].type if t.root == "MAP" else FlinkType("INT")
        return [[k, _vector(v, value_type)] for k, v in value.items()]
    return value


def wanted_rows(case: Case, row: FlinkType) -> list[Row]:
    """Return the expected rows: Flink's rows, or the documented deviation. Upsert tables: after `normalized`."""
    columns = table(case)
    if case["case"] in DELETIONS:
        return DELETIONS[case["case"]]
    if case["case"] in DEVIATIONS:
        return [("+I", values) for values in DEVIATIONS[case["case"]]]
    if case["case"] in ERRORS:
        return []
    return [(read["kind"], python_row(read["row"], row, columns)) for read in case["flink_reads"]]


def fails(case: Case) -> bool:
    """Return whether reading must fail with an error."""
    return case["case"] in ERRORS or (
        "reads" in case.get("flink_errors", {}) and case["case"] not in {**DEVIATIONS, **DELETIONS}
    )


def written_rows(case: Case, row: FlinkType) -> list[Row]:
    columns = table(case)
    return [(written["kind"], python_row(written["row"], row, columns)) for written in case["rows"]]


def normalized(rows: list[Row], key: list[int], row: FlinkType) -> list[Row]:
    """Return an upsert changelog as Flink's ChangelogNormalize emits it: +I first, -U and +U, -D with the full row."""
    known: dict[str, tuple[Any, ...]] = {}
    found: list[Row] = []
    for kind, values in rows:
        name = repr([values[i] for i in key])
        before = known.get(name)
        if kind == "-D":
            if before is not None:
                found.append(("-D", known.pop(name)))
        elif before is None:
            found.append(("+I", values))
            known[name] = values
        elif not vectors.same(before, values, row):
            found += [("-U", before), ("+U", values)]
            known[name] = values
    return found


def same_rows(case: Case, got: list[Row], wanted: list[Row], row: FlinkType) -> bool:
    """Return whether rows are equal, in any order if the records are in several partitions."""
    if len({record["partition"] for record in case["records"]}) > 1:
        got, wanted = sorted(got, key=repr), sorted(wanted, key=repr)
    return len(got) == len(wanted) and all(
        a[0] == b[0] and vectors.same(a[1], b[1], row) for a, b in zip(got, wanted, strict=True)
    )
