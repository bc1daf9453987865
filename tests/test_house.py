"""Rules for the sources: class names are unique, and each bound states its unit and its reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from limits import LIMITS, limits_table

from kvformat.codecs.avro import parse
from kvformat.connectors.cli import inspect
from kvformat.connectors.infer.sample import SAMPLE
from kvformat.registry.contract.types import INTEGER_BITS

ROOT = Path(__file__).parent.parent
FOLDERS = ("codecs", "registry", "connectors", "ingestion")
MEANT_TWICE = {"ReadSettings", "WriteSettings", "ContractError", "Rows"}
"""Names that several modules may have: of formats, of the test kit, and the rows of the kernel and of expressions."""
_BOUND = re.compile(r"_?(MAX|MOST|LONGEST|LARGEST|DEEPEST|SHORTEST)(_|$)")


@cache
def _modules() -> tuple[tuple[str, ast.Module, list[str]], ...]:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    sources = [(file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")) for file in files]
    return tuple((name, ast.parse(source), source.splitlines()) for name, source in sources)


def test_every_folder_with_modules_is_a_package() -> None:
    """A folder without `__init__.py` can be imported from a checkout, but not from a zip file."""
    folders = {(ROOT / name).parent for name, _, _ in _modules()} - {ROOT / "connectors/cli/template"}
    assert len(folders) >= 30
    assert [folder.as_posix() for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_public_class_names_are_unique() -> None:
    places: dict[str, list[str]] = {}
    for name, tree, _ in _modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name)
    assert len(places) >= 200
    assert {name: files for name, files in places.items() if len(files) > 1 and name not in MEANT_TWICE} == {}


def test_every_bound_states_its_unit_and_reason() -> None:
    """Unit and reason are in the table of `scripts/limits.py`, or in the bound's docstring."""
    told = {constant for limit in LIMITS for constant in limit.constants}
    bounds, silent = 0, []
    for name, tree, lines in _modules():
        for node, behind in pairwise((*tree.body, ast.Pass())):
            for bound in _bounds(node):
                bounds += 1
                in_words = "  # " in lines[node.lineno - 1] or lines[node.lineno - 2].startswith("# ")
                documented = isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant)
                path = f"{name.removesuffix('.py').replace('/', '.')}.{bound}"
                if not (in_words or documented or path in told):
                    silent.append(path)
    assert bounds >= 70
    assert silent == [], "\n".join(silent)


_LOCKS = {
    *("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "Event", "Barrier", "local", "allocate_lock"),
    "cached_property",  # that of Python 3.11 has a lock; the one of `fork_safe` has none
}
_WITH_LOCKS = {"threading", "_thread", "multiprocessing", "functools"}


def test_all_locks_are_safe_after_a_fork() -> None:
    """Locks are `Guarded` objects. Other synchronization objects exist only during one call."""
    seen, others = [], []
    for name, tree, _ in _modules():
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module in _WITH_LOCKS:
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _WITH_LOCKS:
                names = [node.attr]
            found = [f"{name}: {lock}" for lock in names if lock in _LOCKS]
            (seen if name == "registry/contract/fork_safe.py" else others).extend(found)
    assert len(seen) == 2
    assert others == []


_FLOORS = {
    "registry": (
        *("build", "contract", "java", "expressions", "sql", "spark", "format", "table", "streams", "key_value_format"),
        *("authoring", "testing"),
    ),
    "codecs": (
        *("_kernel", "_arrays", "_decimals", "_rows", "_timestamps", "_json_documents", "registries", "discovery"),
        *("json", "_conversions", "csv", "raw", "avro", "protobuf", "changes", "debezium", "registry_formats"),
    ),
    "connectors": (
        *("change_feeds", "header_filter", "infer", "jars", "latest_rows", "msk_iam", "option_effects", "properties"),
        *("table_rows", "token_function", "transactions", "java_settings", "brokers", "producer_settings", "topics"),
        *("buffer", "broker_offsets", "reader", "transaction_client", "range_records", "record_producer"),
        *("exactly_once", "offsets", "offset_plan", "sink", "source", "arrow_rows", "data_source"),
        *("lag", "batch_tallies", "batch_progress", "progress", "metric_declarations", "metric_sinks", "metrics"),
        *("replay", "python_source", "source_choice", "explain", "kafka", "views", "cli"),
    ),
}
"""Folders and modules, each of which imports only from itself and from those before it.

The formats that are one module come after all others of `codecs`.
"""


def _imports(node: ast.AST) -> Iterator[str]:
    """Modules imported at runtime, also inside functions; imports for typing do not count."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and child.module:
            yield child.module
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        yield from _imports(child)


@cache
def _import_graph() -> dict[str, set[str]]:
    named = {
        f"kvformat.{name.removesuffix('.py').replace('/', '.').removesuffix('.__init__')}": tree
        for name, tree, _ in _modules()
    }
    graph: dict[str, set[str]] = {}
    for name, tree in named.items():
        found = {imported for imported in _imports(tree) if imported in named and imported != name}
        # `from package import module` imports the module; it does not use names of the package
        graph[name] = {module for module in found if not any(other.startswith(f"{module}.") for other in found)}
    return graph


def test_imports_have_no_circle() -> None:
    graph = _import_graph()
    assert sum(map(len, graph.values())) > 900
    while leaves := {name for name, imported in graph.items() if not imported & graph.keys()}:
        graph = {name: imported for name, imported in graph.items() if name not in leaves}
    assert graph == {}


def test_a_registry_is_named_by_the_table_and_by_its_format_only() -> None:
    """A new registry is a line in the table. AWS Glue's has no URL, so that two modules ask for its region."""
    of_one_registry = re.compile(r"glue|apicurio")
    importers = {
        name
        for name, imported in _import_graph().items()
        if any(of_one_registry.search(module) for module in imported) and not of_one_registry.search(name)
    }
    assert importers == {
        "kvformat.codecs.registries.known",
        *("kvformat.connectors.cli.inspect", "kvformat.connectors.infer.inspection"),
    }


def test_nothing_below_imports_ingestion() -> None:
    upward = {
        name: sorted(module for module in imported if module.startswith("kvformat.ingestion"))
        for name, imported in _import_graph().items()
        if not name.startswith("kvformat.ingestion")
    }
    assert len(upward) > 200
    assert {name: modules for name, modules in upward.items() if modules} == {}


def test_no_module_imports_one_of_tests() -> None:
    """What several of them use is in `tests/support`, or in a module without tests beside them.

    The kit's tests of formats are declarations, which those of the same formats in Spark repeat.
    """
    modules = {path: ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("*.py")}
    assert len(modules) > 300
    imported = {(path.name, name) for path, tree in modules.items() for name in _imports(tree)}
    of_tests = {(file, name) for file, name in imported if re.match(r"tests\.(.+\.)?test_", name)}
    assert of_tests == {("test_contract.py", "tests.registry.testing.test_formats")}


@pytest.mark.parametrize("folder", _FLOORS)
def test_rooms_import_only_from_lower_ones(folder: str) -> None:
    floors = _FLOORS[folder]

    def floor(module: str) -> int:
        _, top, *room = module.split(".")
        if top != folder or not room:
            return -1
        return floors.index(room[0]) if room[0] in floors else len(floors)

    imports = [(name, module) for name, found in _import_graph().items() for module in found if floor(name) >= 0]
    assert len(imports) > 180
    assert [pair for pair in imports if floor(pair[0]) < floor(pair[1])] == []
    assert folder == "codecs" or not [name for name, _ in imports if floor(name) == len(floors)]


def test_built_in_formats_import_only_what_other_packages_may_import() -> None:
    public: set[tuple[str | None, str]] = set()
    imported: dict[tuple[str | None, str], str] = {}
    for name, tree, _ in _modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kvformat.registry."):
                names = [(node.module, alias.name) for alias in node.names]
                if name in ("registry/__init__.py", "registry/authoring.py"):
                    public.update(names)
                elif name.startswith("codecs/") and not (node.module or "").startswith("kvformat.registry.java"):
                    imported.update(dict.fromkeys(names, name))
    assert len(imported) > 20
    assert {found: name for found, name in imported.items() if found not in public} == {}


def test_widths_and_longest_lengths_of_types_have_one_place() -> None:
    """Bits and digits of integers, and the length of STRING and BYTES, are those of `registry/contract`."""
    seen, others = [], []
    for name, tree, _ in _modules():
        for node in ast.walk(tree):
            found = False
            if isinstance(node, ast.Dict) and {getattr(key, "value", None) for key in node.keys} == INTEGER_BITS.keys():
                found = all(isinstance(getattr(value, "value", None), int) for value in node.values)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "FlinkType":
                found = any(keyword.arg == "length" and "31" in ast.unparse(keyword.value) for keyword in node.keywords)
            if found:
                own = name in ("registry/contract/types.py", "registry/contract/common_types.py")
                (seen if own else others).append(f"{name}:{node.lineno}")
    assert len(seen) == 2
    assert others == []


def _bounds(node: ast.stmt) -> list[str]:
    """Yield the names and values of the bounds that a statement assigns."""
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return []
    if any(isinstance(part, ast.Name | ast.Call | ast.Attribute | ast.JoinedStr) for part in ast.walk(node.value)):
        return []
    if not any(isinstance(part, ast.Constant) and isinstance(part.value, int | float) for part in ast.walk(node.value)):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
    return [name for name in names if _BOUND.match(name)]


def test_the_table_of_bounds_has_the_numbers_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(LIMITS) >= 28
    assert "| levels of an Avro schema | 64 |" in limits_table()
    monkeypatch.setattr(parse, "MAX_DEPTH", 65)
    assert "| levels of an Avro schema | 65 |" in limits_table()
    assert inspect._MOST == SAMPLE
