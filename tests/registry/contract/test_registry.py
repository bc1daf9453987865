"""Formats by name, their options and their errors, without Spark."""

from __future__ import annotations

import datetime as dt
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tables import options_table

from kvformat import registry
from kvformat.codecs.json.format import JsonFormat
from kvformat.codecs.raw.format import RawFormat
from kvformat.registry.contract import discovery, errors
from kvformat.registry.contract.errors import (
    FormatClashError,
    MetadataError,
    OptionError,
    PluginError,
    SchemaError,
    UnknownFormatError,
)
from kvformat.registry.contract.options import Option, split_list
from tests.support.probe import ProbeFormat


@pytest.mark.parametrize("option", [None, "other"])
def test_context_keeps_what_an_error_knows(option: str | None) -> None:
    error = SchemaError("b", format="json", option="x", field="f", reason="r")
    added = errors.add_context(error, "a", "c", option=option)
    assert (type(added), str(added)) == (SchemaError, "abc")
    assert (added.format, added.option, added.field, added.reason) == ("json", option or "x", "f", "r")


@pytest.fixture
def fresh_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove the formats that a test registers or installs."""
    monkeypatch.setattr(discovery, "_registered", {})
    monkeypatch.setattr(discovery, "_loaded", {})
    monkeypatch.setattr(discovery, "_points", None)
    yield
    discovery._points = None


def _install(folder: Path, distribution: str, entries: str) -> None:
    """Create an installed distribution in a folder, as pip does."""
    info = folder / f"{distribution}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[kvformat.formats]\n{entries}\n")


def test_built_in_formats_are_found_by_name() -> None:
    assert {"json", "raw"} <= set(registry.available_formats())
    assert type(registry.get_format("json")) is JsonFormat
    assert registry.get_format("raw", {"endianness": "LITTLE-endian"}).options["endianness"] == "little-endian"


def test_every_module_of_a_format_is_registered() -> None:
    folder = Path(discovery.__file__).parent.parent / "codecs"
    folder = folder if folder.is_dir() else Path(__file__).parents[3] / "codecs"
    modules = {path.stem.replace("_", "-") for path in folder.glob("*.py") if not path.name.startswith("_")}
    assert modules <= set(registry.available_formats())


def test_an_unknown_format_error_lists_names_and_suggestions() -> None:
    with pytest.raises(
        UnknownFormatError, match=r"unknown format 'jsn'\. Did you mean 'json'\? Available formats: .*json.*raw"
    ):
        registry.get_format("jsn")
    with pytest.raises(UnknownFormatError, match="Did you mean 'json'"):
        registry.get_format("JSON")  # names are case-sensitive, as in Flink


def test_registering_another_class_under_a_name_is_an_error(fresh_registry: None) -> None:
    registry.register_format(ProbeFormat)
    registry.register_format(ProbeFormat)
    assert type(registry.get_format("probe")) is ProbeFormat
    assert "probe" in registry.available_formats()

    class Other(ProbeFormat):
        pass

    with pytest.raises(FormatClashError, match=r"'probe' is already registered by tests\.support\.probe\.ProbeFormat"):
        registry.register_format(Other)

    class OtherJson(ProbeFormat):
        identifier = "json"

    with pytest.raises(FormatClashError, match=r"already registered by .*JsonFormat"):
        registry.register_format(OtherJson)
    with pytest.raises(PluginError, match="not a subclass"):
        registry.register_format(dict)  # type: ignore[type-var, arg-type]
    for nothing in ("", None):
        with pytest.raises(PluginError, match=r"Nameless has no identifier; set the class attribute"):
            registry.register_format(type("Nameless", (ProbeFormat,), {"identifier": nothing}))


def test_conflicting_and_broken_plugins_are_reported(
    fresh_registry: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = "tests.support.probe:ProbeFormat"
    _install(tmp_path, "acme-probe", f"probe = {probe}\nbroken = acme_missing:Nothing\nodd = json:dumps")
    _install(tmp_path, "other-probe", f"misnamed = {probe}\ntwice = {probe}")
    _install(tmp_path, "third-probe", "twice = elsewhere:ProbeFormat\nexits = acme_exits:Nothing")
    (tmp_path / "acme_exits.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert {"probe", "broken", "twice"} <= set(registry.available_formats())
    assert type(registry.get_format("probe")) is ProbeFormat
    with pytest.raises(FormatClashError, match=r"'twice' is provided by other-probe 1\.0 .* and third-probe 1\.0"):
        registry.get_format("twice")
    with pytest.raises(PluginError, match=r"'broken' of acme-probe 1\.0 .*acme_missing") as caught:
        registry.get_format("broken")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    with pytest.raises(PluginError, match=r"'exits' of third-probe 1\.0 .*SystemExit"):
        registry.get_format("exits")
    with pytest.raises(PluginError, match="not a subclass"):
        registry.get_format("odd")
    with pytest.raises(PluginError, match="its identifier is 'probe'"):
        registry.get_format("misnamed")
    assert type(registry.get_format("json")) is JsonFormat  # a broken plugin does not affect other formats


def test_a_package_that_is_installed_later_is_found(
    fresh_registry: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A distribution that is listed twice, such as one on two paths, is no clash."""
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not discovery.is_available("probe")
    for name in ("acme-probe", "again-probe"):
        _install(tmp_path, name, "probe = tests.support.probe:ProbeFormat")
    assert not discovery.is_available("probe")  # without a search
    assert type(registry.get_format("probe")) is ProbeFormat
    _install(tmp_path, "late", "late = acme_missing:Nothing")
    assert "late" in registry.available_formats()


def test_missing_pyspark_names_the_extra() -> None:
    script = """
        import sys
        sys.modules["pyspark"] = None
        import pyarrow as pa
        from kvformat.registry import get_format
        fmt = get_format("raw")
        batch = fmt.decode_batch(pa.array([b"a"]), pa.schema([("v", pa.string())]))
        assert batch.rows.to_pylist() == [[{"v": "a"}]]
        try:
            fmt.decode("value", "v STRING")
        except ImportError as error:
            print(type(error).__name__, error)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("MissingExtraError")
    assert "kvformat[spark]" in run.stdout


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"ignore-parse-erors": "true"}, "no option 'ignore-parse-erors'. Did you mean 'ignore-parse-errors'"),
        (
            {"ignore-parse-errors": "yes"},
            "invalid value 'yes' for option 'ignore-parse-errors' of format 'json': expected true",
        ),
        ({"timestamp-format.standard": "iso-8601"}, "supported values are [SQL, ISO-8601]"),
        ({"ignore-parse-errors": None}, "expected a text, not NoneType"),
        ({"map-null-key.literal": "\ud800"}, "half of a character"),
    ],
)
def test_bad_options_are_errors_at_construction(options: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionError) as caught:
        registry.get_format("json", options)
    assert text in str(caught.value)
    assert caught.value.format == "json"
    assert caught.value.option == next(iter(options))


def test_options_of_one_direction_are_errors_only_there() -> None:
    fmt = registry.get_format("json", {"map-null-key.mode": "NONE"})
    fmt.decode_batch(pa.array([], pa.binary()), "a INT")
    with pytest.raises(OptionError, match=r"map-null-key\.mode.*LITERAL, FAIL, DROP"):
        fmt.encode_batch(pa.array([], pa.struct([("a", pa.int32())])), "a INT")
    both = registry.get_format("json", {"fail-on-missing-field": "true", "ignore-parse-errors": "true"})
    with pytest.raises(OptionError, match="shouldn't both be true"):
        both.decode_batch(pa.array([], pa.binary()), "a INT")


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        ("boolean", "TRUE", True),
        ("int", "-12", -12),
        ("double", "1.5", 1.5),
        ("duration", "5 min", dt.timedelta(minutes=5)),
        ("duration", "10s", dt.timedelta(seconds=10)),
        ("duration", "7", dt.timedelta(milliseconds=7)),
        ("duration", "PT1H1.5S", dt.timedelta(hours=1, seconds=1.5)),
        ("memory", "64 mb", 64 * 2**20),
        ("memory", "12", 12),
        ("duration", "-PT0S", dt.timedelta(0)),
        ("list", "a; b;'c;d';", ("a", "b", "c;d")),
        ("list", ";a; ;b;;", ("a", "", "b", "")),
        ("list", ";", ()),
        ("list", "[a, b]", ("a", "b")),
        ("list", "", ()),
        ("map", "a:b,c:d e", {"a": "b", "c": "d e"}),
        ("map", "a : 'b:c', 'd:e,f',g:''", {"a": "b:c", "d": "e,f", "g": ""}),
        ("map", "{a: b, c: 'd'}", {"a": "b", "c": "d"}),
        ("map", "{}", {}),
    ],
)
def test_value_syntax(type: Any, text: str, value: Any) -> None:
    assert Option(name="x", type=type).parse(text) == value


_SECOND = dt.timedelta(seconds=1)
_UNITS = {
    "d day days": 24 * 3600 * _SECOND,
    "h hour hours": 3600 * _SECOND,
    "m min minute minutes": 60 * _SECOND,
    "s sec secs second seconds": _SECOND,
    "ms milli millis millisecond milliseconds": dt.timedelta(milliseconds=1),
    "µs micro micros microsecond microseconds": dt.timedelta(microseconds=1),
}
_SIZES = {
    "b bytes": 1,
    "k kb kibibytes": 2**10,
    "m mb mebibytes": 2**20,
    "g gb gibibytes": 2**30,
    "t tb tebibytes": 2**40,
}


@pytest.mark.parametrize(
    ("type", "unit", "length"),
    [("duration", unit, length) for units, length in _UNITS.items() for unit in units.split()]
    + [("memory", unit, size) for units, size in _SIZES.items() for unit in units.split()],
)
def test_each_unit_of_durations_and_sizes(type: Any, unit: str, length: Any) -> None:
    """Flink's `TimeUtils` and `MemorySize`."""
    option = Option(name="x", type=type)
    assert option.parse(f"3 {unit}") == option.parse(f" 3{unit.upper().replace('Μ', 'µ')} ") == 3 * length


@pytest.mark.parametrize("unit", ["ns", "nano", "nanos", "nanosecond", "nanoseconds"])
def test_nanoseconds_are_a_thousandth_of_a_microsecond(unit: str) -> None:
    assert Option(name="x", type="duration").parse(f"7000 {unit}") == dt.timedelta(microseconds=7)


def test_whole_numbers_have_the_range_of_their_type() -> None:
    for type_, bits in (("int", 32), ("long", 64)):
        option = Option(name="x", type=type_)
        for number in (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1):
            assert option.parse(str(number)) == number
        for number in (-(2 ** (bits - 1)) - 1, 2 ** (bits - 1)):
            with pytest.raises(ValueError, match=f"expected a whole number of {bits} bits"):
                option.parse(str(number))


def test_of_several_keys_of_an_option_its_name_comes_before_its_fallbacks() -> None:
    option = Option(name="new", fallback=("old", "oldest"))
    assert option.keys({"oldest": "1", "old": "2", "new": "3"}) == ["new"]
    assert option.keys({"oldest": "1", "old": "2"}) == ["old"]


def test_an_entry_of_a_map_replaces_that_of_its_text() -> None:
    class Mapped(ProbeFormat):
        option_specs = (Option(name="m", type="map"),)

    assert Mapped({"m": "a:1,b:2", "m.b": "3", "m.c": "4"}).options["m"] == {"a": "1", "b": "3", "c": "4"}
    assert Mapped({"m.b": "3"}).options["m"] == {"b": "3"}


def test_an_enum_is_matched_in_any_case_and_has_its_own_spelling() -> None:
    assert Option(name="x", type="enum", allowed=("ALL", "EXCEPT_KEY")).parse("except_Key") == "EXCEPT_KEY"
    with pytest.raises(ValueError, match=r"supported values are \[a\]"):
        Option(name="x", allowed=("a",)).parse("A")


@pytest.mark.parametrize(
    ("type", "text"),
    [
        ("boolean", "yes"),
        ("int", "1.0"),
        ("int", "2147483648"),
        ("duration", "5 parsecs"),
        ("duration", "-PT5S"),
        ("duration", "9999999999 d"),
        ("duration", "P9999999999D"),
        ("memory", "x"),
        ("map", "a"),
        ("map", "a:b,,c:d"),
        ("map", "a:b:c"),
        ("map", "a:b,a:c"),
        ("map", "a:"),
        ("map", ":b"),
        ("map", "a:'b"),
        ("list", "'a"),
    ],
)
def test_malformed_values(type: Any, text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|quote|twice|a duration can't be"):
        Option(name="x", type=type).parse(text)


def test_secrets_are_hidden() -> None:
    fmt = ProbeFormat({"password": "hunter2", "mark": "m"})
    assert "hunter2" not in repr(fmt)
    assert "mark" in repr(fmt)
    assert pickle.loads(pickle.dumps(fmt)) == fmt
    secret = Option(name="password", type="int", sensitive=True)

    class Strict(ProbeFormat):
        option_specs = (secret,)

    with pytest.raises(OptionError) as caught:
        Strict({"password": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_format_objects_are_values() -> None:
    fmt = registry.get_format("json", {"ignore-parse-errors": "true"})
    assert fmt == registry.get_format("json", {"ignore-parse-errors": "true"}) != registry.get_format("json")
    assert hash(fmt) == hash(pickle.loads(pickle.dumps(fmt)))
    assert eval(repr(fmt), {"JsonFormat": JsonFormat}) == fmt
    assert repr(RawFormat()) == "RawFormat()"


def test_metadata_keys_are_checked() -> None:
    with pytest.raises(MetadataError, match=r"no metadata key 'probe\.lenth'\. Did you mean 'probe\.length'"):
        ProbeFormat().decode_batch(pa.array([], pa.binary()), "v STRING", metadata=["probe.lenth"])
    with pytest.raises(MetadataError, match="distinct keys"):
        ProbeFormat().decode_batch(pa.array([], pa.binary()), "v STRING", metadata=["probe.note"] * 2)
    assert list(ProbeFormat().readable_metadata) == ["probe.length", "probe.note"]


@pytest.mark.parametrize("format", ["debezium-json", "canal-json"])
def test_a_format_of_changes_has_no_column_of_single_rows(format: str) -> None:
    """A row would lose its kind."""
    told = f"'{format}' decodes rows with row kinds: use decode_rows, not decode"
    with pytest.raises(errors.ConfigurationError, match=told):
        registry.get_format(format).decode("value", "id INT")


def test_rows_are_matched_by_name_and_converted_without_loss() -> None:
    fmt = registry.get_format("json")
    rows = pa.array(
        [{"b": "x", "extra": 1, "a": 7}], pa.struct([("b", pa.large_string()), ("extra", pa.int8()), ("a", pa.int16())])
    )
    assert fmt.encode_batch(rows, "a INT, b STRING").messages.to_pylist() == [b'{"a":7,"b":"x"}']
    for schema, text in (
        ("a INT, c STRING", "column 'c' is missing; the rows have the columns b, extra, a"),
        ("a TINYINT", "column 'a' is int16, which does not fit TINYINT"),
        ("b BYTES", "column 'b' is large_string"),
    ):
        with pytest.raises(SchemaError) as caught:
            fmt.encode_batch(rows, schema)
        assert text in str(caught.value)
    with pytest.raises(SchemaError, match="struct"):
        fmt.encode_batch(pa.array([1]), "a INT")
    with pytest.raises(SchemaError, match="'\\+X' is not a row kind"):
        fmt.encode_batch(rows, "a INT", row_kinds=pa.array(["+X"]))
    with pytest.raises(SchemaError, match="binary"):
        fmt.decode_batch(pa.array([1]), "a INT")


def test_option_tables_are_generated() -> None:
    table = options_table(JsonFormat.option_specs)
    assert "| `timestamp-format.standard` | string | `SQL` | `SQL`, `ISO-8601` |" in table
    assert all(f"`{option.name}`" in table for option in JsonFormat.option_specs)


def test_the_error_tree_equals_its_drawing() -> None:
    drawn = [
        line.strip(" │├└─").split()[0]
        for line in (errors.__doc__ or "").splitlines()
        if "─" in line or line.split()[:1] == ["KvFormatError"] or "Warning (" in line
    ]
    classes = [name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)]
    assert sorted(drawn) == sorted(classes)
    assert sorted(name for name in registry.__all__ if name.endswith(("Error", "Warning"))) == sorted(classes)
    assert registry.__all__ == sorted(registry.__all__)


def test_lists_of_kafka_fields() -> None:
    assert split_list("user; id ;'a''b'") == ("user", "id", "a'b")
