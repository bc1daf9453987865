"""Targets by the type of a sink, also of other packages, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from pyspark.sql import types as T

from kvformat import ingestion
from kvformat.ingestion import Pipeline
from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.pipeline.sink import PipelineSink, parse_sink
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.targets import discovery
from kvformat.ingestion.targets.delta import DeltaTarget
from kvformat.ingestion.targets.delta_path import DeltaPathTarget
from kvformat.ingestion.targets.discovery import available_targets, sink_options, target_class, target_of
from kvformat.ingestion.targets.iceberg import IcebergTarget
from kvformat.ingestion.targets.sql import SqlTarget
from kvformat.ingestion.targets.values import ValuesTarget
from kvformat.registry.contract.errors import ConfigurationError, OptionError, PluginError
from kvformat.registry.contract.options import Option

SOURCE = {"type": "kafka", "properties.bootstrap.servers": "b:9092", "topic": "t"}


class PluggedTarget(DeltaPathTarget):
    identifier: ClassVar[str] = "plugged"
    option_specs: ClassVar[tuple[Option, ...]] = (
        Option(name="folder", required=True),
        Option(name="token", sensitive=True),
        Option(name="level", type="int", default=3, sensitive=True),
    )

    @classmethod
    def from_sink(cls, sink: PipelineSink) -> Self:
        return cls(sink.values["folder"])


class Misnamed(DeltaPathTarget):
    identifier: ClassVar[str] = "other"


def _install(folder: Path, distribution: str, *entries: str) -> None:
    info = folder / f"{distribution}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    lines = "\n".join(entries)
    (info / "entry_points.txt").write_text(f"[{discovery.GROUP}]\n{lines}\n")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    _install(
        tmp_path,
        "lakes",
        f"plugged = {__name__}:PluggedTarget",
        f"misnamed = {__name__}:Misnamed",
        "missing = no_such_module:Target",
        "number = math:pi",
        f"twice = {__name__}:Misnamed",
    )
    _install(tmp_path, "other-lakes", f"twice = {__name__}:PluggedTarget")
    return tmp_path


@pytest.mark.parametrize("type_", discovery.BUILT_IN)
def test_every_type_of_sink_is_that_of_its_target(type_: str) -> None:
    assert target_class(type_).identifier == type_
    assert {spec.name for spec in sink_options(type_)} >= {"type", "name"}
    assert type_ in available_targets()


def test_targets_are_made_of_checked_sinks() -> None:
    sink = parse_sink({"type": "delta", "path": "/lake", "write-mode": "append", "create-tables": "false"})
    assert target_of(sink) == DeltaPathTarget("/lake", write_mode="append", create_tables=False)
    assert target_of(sink).rows == "changes"
    properties = {"table-properties.owner": "shop", "rewrite.max-bytes": "1 mb", "namespace": "a.b"}
    made = target_of(parse_sink({"type": "delta", "sink.type-normalize-strategy": "broaden", **properties}))
    expected: dict[str, Any] = {"namespace": "a.b", "properties": {"owner": "shop"}, "rewrite_max_bytes": 2**20}
    assert made == DeltaTarget(types="broaden", **expected)
    assert target_of(parse_sink({"type": "iceberg", "catalog": "lake", **properties})) == IcebergTarget(
        "lake", **expected
    )
    at_a_path = {"path": "/l", "driver.max-bytes": "2 mb", "upkeep.commits": "3", "storage-options.AWS_REGION": "x"}
    del properties["namespace"], expected["namespace"]
    made = target_of(
        parse_sink({"type": "delta", "sink.type-normalize-strategy": "broaden", **properties, **at_a_path})
    )
    expected |= {"driver_max_bytes": 2**21, "upkeep_commits": 3, "storage_options": {"AWS_REGION": "x"}}
    assert isinstance(made, DeltaPathTarget)
    assert made == DeltaPathTarget("/l", types="broaden", **expected)
    folder = made.folder(TableId(("t",)))
    assert (folder.driver_bytes, folder.upkeep_commits, folder.storage.options) == (2**21, 3, {"AWS_REGION": "x"})
    assert target_of(parse_sink({"type": "values"})) == ValuesTarget()
    with pytest.raises(ConfigurationError, match="the sink can't be written: sink 'hologres' is not supported"):
        target_of(parse_sink({"type": "hologres"}))


def test_a_target_without_a_session_says_so() -> None:
    with pytest.raises(ConfigurationError, match=r"DeltaPathTarget has no session: call with_session\(spark\)"):
        _ = DeltaPathTarget("/lake").spark


def test_another_package_adds_a_sink(installed: Path) -> None:
    given = {"type": "plugged", "folder": "/lake", "token": "s3cret"}
    sink = parse_sink({**given, "include.schema.changes": ["add"], "exclude.schema.changes": []})
    assert target_of(sink) == PluggedTarget("/lake")
    assert (sink.include, sink.exclude) == (("add",), ())
    assert (sink.values["token"], sink.values["level"]) == ("s3cret", 3)
    assert "plugged" in available_targets()
    explained = Pipeline(SOURCE, {**given, "name": "mine"}).explain()
    assert "  folder: /lake" in explained
    assert [text for text in ("  type:", "  name:") if text in explained] == []
    shown = (explained, repr(sink), repr(sink.values), repr(sink.options), repr(Pipeline(SOURCE, given)))
    assert [text for text in shown[:-1] if "s3cret" in text] == []
    with pytest.raises(OptionError, match="sink: the option 'folder' is missing"):
        parse_sink({"type": "plugged"})
    with pytest.raises(OptionError, match=r"there is no option 'foldr'\. Did you mean 'folder'"):
        parse_sink({**given, "foldr": "x"})
    with pytest.raises(OptionError, match="for option 'level'") as caught:
        parse_sink({**given, "level": "hidden"})
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        ("misnamed", "registers .*Misnamed as 'misnamed', but its identifier is 'other'"),
        ("missing", "cannot load the sink 'missing' of lakes 1.0 .*no_such_module"),
        ("number", "is not a subclass of kvformat.ingestion.Target: 3.14"),
        ("twice", "are provided by lakes 1.0 .* and other-lakes 1.0 .*; uninstall one"),
    ],
)
def test_broken_packages_are_named(installed: Path, type_: str, message: str) -> None:
    with pytest.raises(PluginError, match=message):
        target_class(type_)


def test_an_unknown_type_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(OptionError, match=r"unknown type 'icebrg'.* Did you mean 'iceberg'"):
        target_class("icebrg")


def test_names_in_a_catalog() -> None:
    names = {
        "`lake`.`default`.`t`": (SqlTarget("lake"), ("t",)),
        "`lake`.`a`.`t.u`": (SqlTarget("lake"), ("a", "t.u")),
        "`lake`.`a_b`.`t``x`": (SqlTarget("lake"), ("a", "b", "t`x")),
        "`lake`.`n_m_a`.`t`": (SqlTarget("lake", "n.m"), ("a", "t")),
        "`lake`.`n`.`a`.`b`.`t`": (IcebergTarget("lake", "n"), ("a", "b", "t")),
        "`a_b`.`t`": (IcebergTarget(), ("a", "b", "t")),
        "`default`.`t_1`": (DeltaTarget(), ("t_1",)),
    }
    assert {name: target._name(TableId(parts)) for name, (target, parts) in names.items()} == {n: n for n in names}
    with pytest.raises(SchemaChangeError, match=r"table shop-1\.t: 'shop-1' can't be a name in Spark's own catalog"):
        DeltaTarget()._name(TableId(("shop-1", "t")))


INT, LONG, TEXT, DAY, FLOAT = T.IntegerType(), T.LongType(), T.StringType(), T.DateType(), T.FloatType()


@pytest.mark.parametrize(
    ("source", "target", "delta", "iceberg"),
    [
        (T.ByteType(), INT, True, True),
        (INT, LONG, True, True),
        (LONG, INT, False, False),
        (INT, T.DecimalType(10, 0), True, False),
        (INT, T.DecimalType(10, 2), False, False),
        (T.ByteType(), T.DecimalType(10, 0), True, False),
        (T.ByteType(), T.DecimalType(9, 0), False, False),
        (T.ShortType(), T.DecimalType(12, 3), False, False),
        (LONG, T.DecimalType(20, 0), True, False),
        (LONG, T.DecimalType(19, 0), False, False),
        (LONG, T.DoubleType(), False, False),
        (INT, T.DoubleType(), True, False),
        (FLOAT, T.DoubleType(), True, True),
        (T.DecimalType(10, 2), T.DecimalType(12, 2), True, True),
        (T.DecimalType(10, 2), T.DecimalType(12, 4), True, False),
        (T.DecimalType(10, 2), T.DecimalType(12, 5), False, False),
        (T.DecimalType(10, 2), TEXT, False, False),
        (DAY, T.TimestampNTZType(), True, False),
        (DAY, T.TimestampType(), False, False),
        (INT, TEXT, False, False),
    ],
)
def test_types_that_are_widened_in_place(source: Any, target: Any, delta: bool, iceberg: bool) -> None:
    assert (DeltaTarget().widens(source, target), IcebergTarget().widens(source, target)) == (delta, iceberg)


def test_public_names_are_loaded_lazily() -> None:
    found: dict[str, Any] = {name: getattr(ingestion, name) for name in ingestion.__all__}
    assert len(found) >= 7
    assert ingestion.__all__ == sorted(ingestion.__all__)
