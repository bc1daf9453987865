"""Registries of other packages: found by the scheme of a URL, asked with timeouts and further attempts."""

from __future__ import annotations

import json
import locale
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from kvformat.codecs import get_format
from kvformat.codecs.registries import registries
from kvformat.codecs.registries.known import CLIENTS
from kvformat.registry import OptionError, PluginError, SchemaError, SchemaRegistryError
from kvformat.registry.authoring import Refused, RegistrySchema, RegistrySettings, SchemaRegistry

SCHEMA = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}'
DDL = "a BIGINT NOT NULL"


class Fake(SchemaRegistry):
    """A registry in memory. `failures` are raised, one for each request, before it answers."""

    failures: ClassVar[list[Exception]] = []
    asked: ClassVar[list[tuple[Any, ...]]] = []
    delay = 0.0

    def __init__(self, settings: RegistrySettings) -> None:
        self.settings = settings

    def schema(self, schema_id: int | str) -> RegistrySchema | Refused:
        self._ask("schema", schema_id)
        return RegistrySchema("AVRO", SCHEMA) if schema_id == 7 else Refused("no such id, token=s3cret-word")

    def register(self, subject: str, schema: RegistrySchema) -> int | Refused:
        self._ask("register", subject)
        return Refused("it is read-only") if subject == "closed" else 7

    def lookup(self, subject: str, schema: RegistrySchema) -> int | Refused:
        self._ask("lookup", subject)
        return 7

    def latest(self, subject: str) -> tuple[int, RegistrySchema] | Refused:
        self._ask("latest", subject)
        return 7, RegistrySchema("AVRO", SCHEMA)

    def version(self, subject: str, version: int) -> tuple[int, RegistrySchema] | Refused:
        return self.latest(subject)

    def _ask(self, *what: Any) -> None:
        self.asked.append(what)
        time.sleep(self.delay)
        if self.failures:
            raise self.failures.pop(0)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install a distribution whose entry points are registries."""
    info = tmp_path / "fake_registry-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-registry\nVersion: 1.0\n")
    other = tmp_path / "other_registry-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other-registry\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text(f"[kvformat.registries]\ntwice = {__name__}:dict_of\n")
    (info / "entry_points.txt").write_text(
        "[kvformat.registries]\n"
        f"fake = {__name__}:Fake\n"
        f"noregistry = {__name__}:RegistrySchema.of_kind\n"
        f"plain = {__name__}:dict_of\n"
        f"raising = {__name__}:raising\n"
        "missing = no_such_module:Registry\n"
        f"twice = {__name__}:Fake\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(Fake, "failures", [])
    monkeypatch.setattr(Fake, "asked", [])
    monkeypatch.setattr(Fake, "delay", 0.0)
    registries._entry_points.cache_clear()
    yield
    registries._entry_points.cache_clear()
    assert "no_such_module" not in sys.modules


def raising(settings: RegistrySettings) -> Any:
    raise ValueError(f"no access with {dict(settings.properties)}")


def dict_of(settings: RegistrySettings) -> dict[str, Any]:
    return {"url": settings.url}


def _format(name: str, **options: str) -> Any:
    """A format with a registry of its own, so that no test finds cached answers of another one."""
    given = {"url": f"fake://{name}", "subject": "s", "registry-backoff": "1 ms"}
    return get_format("avro-confluent", {**given, **{key.replace("_", "-"): value for key, value in options.items()}})


def test_a_registry_of_another_package_is_found_by_its_scheme() -> None:
    fmt = _format("found")
    written = fmt.encode_batch(pa.array([{"a": 1}]), DDL).messages
    assert written.to_pylist() == [b"\0\0\0\0\7\2"]
    assert fmt.decode_batch(written, DDL).rows.to_pylist() == [[{"a": 1}]]
    unknown = fmt.decode_batch(pa.array([b"\0\0\0\0\x08\2", b"\0\0\0\0\7\4"]), DDL)
    assert unknown.rows.to_pylist() == [None, [{"a": 2}]]
    assert unknown.codes.to_pylist() == ["UNKNOWN_SCHEMA", None]
    assert Fake.asked == [("register", "s"), ("schema", 7), ("schema", 8)]
    latest = _format("found", use_latest_version="true", schema=json.dumps(json.loads(SCHEMA)))
    assert latest.encode_batch(pa.array([{"a": 1}]), DDL).messages.to_pylist() == [b"\0\0\0\0\7\2"]


def test_failures_are_tried_again_and_then_errors_of_the_registry() -> None:
    messages = pa.array([b"\0\0\0\0\7\2"])
    Fake.failures[:] = [OSError("down"), RuntimeError("still down")]
    assert _format("retried").decode_batch(messages, DDL).rows.to_pylist() == [[{"a": 1}]]
    assert len(Fake.asked) == 3
    Fake.failures[:] = [OSError("down, token s3cret-word")] * 3
    settings = {"registry_retries": "2", "properties.token": "s3cret-word"}
    with pytest.raises(SchemaRegistryError) as caught:
        _format("down", **settings).decode_batch(messages, DDL)
    assert "schema id 7: OSError: down, token ******" in str(caught.value)
    assert caught.value.__cause__ is None  # it shows the secret
    assert len(Fake.asked) == 6
    Fake.failures[:] = [ValueError("not JSON")]
    with pytest.raises(SchemaRegistryError, match="ValueError: not JSON"):
        _format("invalid").decode_batch(messages, DDL)
    assert len(Fake.asked) == 7
    shown = _format("refused", **settings).decode_batch(pa.array([b"\0\0\0\0\x09\2"]), DDL).errors[0].as_py()
    assert "no such id, token=******" in shown


def test_a_registry_that_does_not_answer_ends_with_the_timeout() -> None:
    Fake.delay = 5.0
    begin = time.monotonic()
    with pytest.raises(SchemaRegistryError, match="registry-timeout"):
        _format("slow", registry_timeout="200 ms").decode_batch(pa.array([b"\0\0\0\0\7\2"]), DDL)
    assert time.monotonic() - begin < 3
    assert any(thread.name == "kvformat-schema-registry" for thread in threading.enumerate())


def test_refusals_are_about_the_schema_only() -> None:
    with pytest.raises(SchemaError, match="the schema registry refuses the schema for subject 'closed': it is read-o"):
        _format("refuses", subject="closed").for_encoding(pa.schema([pa.field("a", pa.int64(), nullable=False)]))


@pytest.mark.parametrize(
    ("url", "error", "text"),
    [
        ("fakke://x", OptionError, "no schema registry has URLs of the scheme 'fakke'. Did you mean 'fake'"),
        ("plain://x", PluginError, "is not a subclass of kvformat.registry.authoring.SchemaRegistry: dict"),
        ("noregistry://x", PluginError, "the schema registry 'noregistry' .* can't be created: TypeError"),
        ("missing://x", PluginError, "'missing' .* can't be created: ModuleNotFoundError: .*no_such_module"),
        (
            "twice://x",
            PluginError,
            "'twice' is provided by .*:Fake.*; uninstall one of the packages",
        ),
        ("", SchemaRegistryError, "the option 'url' is empty"),
    ],
)
def test_a_registry_that_can_not_be_created_is_a_clear_error(url: str, error: type[Exception], text: str) -> None:
    fmt = get_format("avro-confluent", {"url": url})
    with pytest.raises(error, match=text):
        fmt.decode_batch(pa.array([b"\0\0\0\0\7\2"]), DDL)


def test_the_error_of_a_registry_that_can_not_be_created_shows_no_secret() -> None:
    fmt = get_format("avro-confluent", {"url": "raising://x", "properties.token": "s3cret-word"})
    with pytest.raises(PluginError, match=r"can't be created: ValueError: no access with .*\*{6}") as caught:
        fmt.decode_batch(pa.array([b"\0\0\0\0\7\2"]), DDL)
    assert "s3cret-word" not in str(caught.value)


@pytest.mark.parametrize("name", ["subject", "schema-registry.subject", "subject-names", None])
def test_the_topic_names_the_subject_only_without_an_option(name: str | None) -> None:
    given = {"url": "mock://subjects", **({name: "mine"} if name else {})}
    fmt: Any = get_format("avro-registry", given)
    completed = type(fmt).complete_options(given, topic="orders", part="value")
    assert type(fmt)(completed).registry.subject == ("mine" if name else "orders-value")


def test_a_registry_that_is_installed_later_is_found(tmp_path: Path) -> None:
    fmt = get_format("avro-confluent", {"url": "later://x"})
    with pytest.raises(OptionError, match="no schema registry has URLs of the scheme 'later'"):
        fmt.decode_batch(pa.array([b"\0\0\0\0\7\2"]), DDL)
    points = tmp_path / "other_registry-1.0.dist-info" / "entry_points.txt"
    points.write_text(f"[kvformat.registries]\nlater = {__name__}:Fake\n")
    assert fmt.decode_batch(pa.array([b"\0\0\0\0\7\2"]), DDL).rows.to_pylist() == [[{"a": 1}]]


def test_the_schemes_of_this_library(tmp_path: Path) -> None:
    opened: Callable[..., Any] = registries.open_registry
    for url in ("http://r", "https://r", "HTTP://r", " http://a,http://b", "mock://m", f"file:{tmp_path}"):
        assert isinstance(opened(RegistrySettings(url)), SchemaRegistry)


def test_the_schemes_of_this_library_need_no_entry_points(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The metadata may be those of an older version, for example of a checkout that was updated."""
    monkeypatch.setattr(registries.metadata, "entry_points", lambda **_: ())
    registries._entry_points.cache_clear()
    for url in ("http://r", "https://r", "mock://m", f"file:{tmp_path}"):
        assert isinstance(registries.open_registry(RegistrySettings(url)), SchemaRegistry), url
    with pytest.raises(OptionError, match=f"Known schemes: {', '.join(sorted(CLIENTS))}"):
        registries.open_registry(RegistrySettings("fake://r"))


@pytest.fixture
def ascii_locale() -> Iterator[None]:
    """Make ASCII the encoding of files for which none is given."""
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C")
    yield
    locale.setlocale(locale.LC_CTYPE, before)


@pytest.mark.usefixtures("ascii_locale")
@pytest.mark.parametrize("name", ["avro-confluent", "json-registry", "proto-registry"])
def test_a_folder_has_schemas_in_utf8_whatever_the_locale_is(name: str, tmp_path: Path) -> None:
    texts = {
        "avro-confluent": '{"type":"record","name":"r","doc":"\u00e9\u20ac","fields":[{"name":"a","type":"long"}]}',
        "json-registry": '{"title":"\u00e9\u20ac","type":"object","properties":{"a":{"type":"integer"}}}',
        "proto-registry": 'syntax = "proto3"; message R { int64 a = 1; } // \u00e9\u20ac',
    }
    fmt = get_format(name, {"url": f"file:{tmp_path}", "subject": "s", "schema": texts[name]})
    written = fmt.encode_batch(pa.array([{"a": 7}]), DDL).messages
    (file,) = tmp_path.glob("1.*")
    assert "\u00e9\u20ac" in file.read_text(encoding="utf-8")
    assert fmt.decode_batch(written, DDL).rows.to_pylist() == [[{"a": 7}]]


@pytest.mark.parametrize("text", [b"", b'{"doc":"', b'{"doc":"\xe9"}'])
@pytest.mark.parametrize(
    ("name", "file", "frame"),
    [
        ("avro-confluent", "7.avsc", b"\0\0\0\0\x08"),
        ("json-registry", "7.json", b"\0\0\0\0\x08"),
        ("proto-registry", "7.proto", b"\0\0\0\0\x08\0"),
        ("avro-glue", "00000000-0000-4000-8000-000000000007.avsc", b"\3\0"),
    ],
)
def test_a_file_of_a_folder_that_is_no_schema_does_not_stop_writing(
    name: str, file: str, frame: bytes, text: bytes, tmp_path: Path
) -> None:
    """Another process may be writing it."""
    (tmp_path / file).write_bytes(text)
    of_glue = {"schema.name": "s", "schema.autoRegistration": "true"}
    fmt = get_format(name, {"url": f"file:{tmp_path}", **(of_glue if name == "avro-glue" else {"subject": "s"})})
    written = fmt.encode_batch(pa.array([{"a": 7}]), DDL).messages
    assert written[0].as_py().startswith(frame)
    assert fmt.decode_batch(written, DDL).rows.to_pylist() == [[{"a": 7}]]


def test_a_folder_and_other_files_in_it_have_any_name_and_texts_of_protobuf_may_end_with_blanks(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    schema = 'syntax = "proto3"; message R { int64 a = 1; }'
    (folder / "7.proto").write_text(f"{schema}\n")
    (folder / "\u00b2.proto").write_text("")
    fmt = get_format("proto-registry", {"url": folder.as_uri(), "subject": "s", "schema": schema})
    assert fmt.encode_batch(pa.array([{"a": 7}]), DDL).messages.to_pylist() == [b"\0\0\0\0\7\0\x08\7"]
