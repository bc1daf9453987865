"""kvformat's names in the standard library's `codecs` module."""

from __future__ import annotations

import codecs
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import _kvformat_alias
import kvformat.codecs
import kvformat.connectors
import kvformat.registry


def test_codecs_has_the_public_names() -> None:
    assert [*kvformat.codecs.__all__, "register", "Pipeline", "ingest", "read_table"] == kvformat.__all__
    assert 12 <= len(kvformat.__all__) <= 21
    for name in kvformat.codecs.__all__:
        assert getattr(codecs, name) is getattr(kvformat.codecs, name) is getattr(kvformat, name)
        assert name in dir(kvformat.codecs)
        assert name in dir(kvformat)


def test_type_checkers_see_the_same_names() -> None:
    source = Path(kvformat.codecs.__file__).read_text(encoding="utf-8")
    typed = re.findall(r"^    from (\S+) import (\w+) as \2$", source, re.MULTILINE)
    assert {name: module for module, name in typed} == kvformat.codecs._MODULES


def test_public_names_are_the_same_objects_in_codecs() -> None:
    for room, least in ((kvformat.registry, 5), (kvformat.connectors, 3)):
        shared = set(room.__all__) & set(kvformat.codecs.__all__)
        assert len(shared) >= least
        for name in shared:
            assert getattr(room, name) is getattr(kvformat.codecs, name)


@pytest.mark.parametrize("module", ["kvformat", "kvformat.codecs", "codecs"])
def test_tables_and_formats_are_imported_from_the_same_module(installed, module: str) -> None:
    script = f"""
from {module} import KERNEL, KafkaTable, get_format, infer_schema, inspect_topic
print(KafkaTable.__module__, get_format.__module__, infer_schema.__name__, inspect_topic.__name__, KERNEL)
"""
    told = installed.python("-c", script).split()
    assert told[:2] == ["kvformat.connectors.kafka", "kvformat.registry.contract.discovery"]
    assert told[2:4] == ["infer_schema", "inspect_topic"]


def test_formats_do_not_load_connectors(installed) -> None:
    script = """
import sys
import kvformat
alone = set(sys.modules)
from kvformat import get_format
get_format("debezium-json")
print(sorted(name for name in alone if name.startswith("kvformat")), "kvformat.connectors" in sys.modules)
"""
    assert installed.python("-c", script).strip() == "['kvformat'] False"


@pytest.mark.parametrize("name", ["no_such_name", "_no_such_name", "__wrapped__"])
def test_an_unknown_name_of_the_package_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"^module 'kvformat' has no attribute '{name}'$") as caught:
        getattr(kvformat, name)
    assert (caught.value.name, caught.value.obj) == (name, None)


def test_everything_can_be_imported_at_once(installed) -> None:
    script = "from kvformat import *; print(KafkaTable.__name__, get_format.__name__)"
    assert installed.python("-c", script).strip() == "KafkaTable get_format"


def test_names_of_the_standard_library_are_unchanged() -> None:
    ours = set(kvformat.codecs.__all__)
    assert not ours & set(vars(codecs))
    assert not ours & set(codecs.__all__)


@pytest.mark.parametrize("name", ["no_such_name", "get_formats", "__wrapped__", "raw"])
def test_an_unknown_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"^module 'codecs' has no attribute '{name}'$") as caught:
        getattr(codecs, name)
    assert (caught.value.name, caught.value.obj) == (name, codecs)
    assert not hasattr(codecs, name)


def test_an_unknown_name_cannot_be_imported() -> None:
    with pytest.raises(ImportError, match="cannot import name 'no_such_name' from 'codecs'"):
        from codecs import no_such_name  # type: ignore[attr-defined]  # noqa: F401


def test_a_second_install_does_nothing() -> None:
    before = vars(codecs)["__getattr__"]
    _kvformat_alias.install()
    assert vars(codecs)["__getattr__"] is before


def test_another_fallback_is_also_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "__getattr__", lambda name: f"theirs: {name}", raising=False)
    _kvformat_alias.install()
    assert codecs.no_such_name == "theirs: no_such_name"  # type: ignore[attr-defined]
    assert codecs.get_format is kvformat.codecs.get_format  # type: ignore[attr-defined]


def test_importing_the_package_installs_it(installed) -> None:
    # -S: no .pth file is read, as on a cluster with a zip
    script = f"""
import sys
sys.path += {installed.python("-c", "import sys; print(sys.path)").strip()}
import codecs
assert not hasattr(codecs, "get_format")
import kvformat.codecs
print(codecs.get_format is kvformat.codecs.get_format)
"""
    assert installed.python("-S", "-c", script).strip() == "True"


def test_start_up_loads_one_module(bare, with_wheel, with_editable) -> None:
    script = "import sys; print(*sys.modules)"
    plain, wheel, editable = (set(each.python("-c", script).split()) for each in (bare, with_wheel, with_editable))
    assert wheel - plain == {"_kvformat_alias"}
    assert editable - plain == {"_kvformat_alias"}


def test_start_up_costs_a_fraction_of_pythons_own(installed) -> None:
    def microseconds() -> tuple[int, int]:
        command = [installed.executable, "-X", "importtime", "-c", "import codecs"]
        told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=installed.folder).stderr
        times = {name: int(time) for time, name in re.findall(r"(\d+) \| +(\S+)$", told, re.MULTILINE)}
        return times["_kvformat_alias"], times["site"]

    # The minimum of several runs, because other processes may be running.
    ours, pythons = (min(times) for times in zip(*(microseconds() for _ in range(5)), strict=True))
    assert ours < pythons / 4


def test_a_missing_dependency_is_reported(with_wheel) -> None:
    script = """
import json, sys
sys.modules["pyarrow"] = None
try:
    from codecs import get_format
except ImportError as error:
    print(json.dumps(str(error)))
"""
    assert "pyarrow" in json.loads(with_wheel.python("-c", script))


def test_without_the_package_codecs_is_unchanged(new_environment, wheel: Path) -> None:
    """The package's folder was deleted by hand, but the start-up file remains."""
    environment = new_environment("without_package")
    environment.install(wheel)
    (package,) = environment.folder.glob("lib/python*/site-packages/kvformat")
    shutil.rmtree(package)
    script = """
import codecs
print(hasattr(codecs, "get_format"), hasattr(codecs, "KERNEL"), codecs.lookup("utf-8").name)
try:
    from codecs import get_format
except ImportError as error:
    print(error)
"""
    first, second = environment.python("-c", script).splitlines()
    assert first == "False False utf-8"
    assert second.startswith("cannot import name 'get_format' from 'codecs'")
