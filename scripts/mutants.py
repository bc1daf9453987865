"""Plant mistakes in a room's sources and count those that its tests catch. `scripts/mutants` runs it.

Cosmic Ray makes the mistakes: another operator, number or constant, a loop without rounds. Two more are made here: a
statement that is left out, and a default that is swapped. A mistake is tried with those tests that run its line,
quickest first.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build" / "mutants"))

import parso.python.tree  # noqa: E402  # of the folder above
from cosmic_ray.ast import ast_nodes, get_ast  # noqa: E402
from cosmic_ray.mutating import mutate_code  # noqa: E402
from cosmic_ray.operators.operator import Operator  # noqa: E402
from cosmic_ray.plugins import get_operator  # noqa: E402

FOUND = Path(__file__).with_name("mutants_found")
MOST_SECONDS, MOST_SPARK_SECONDS = 45, 200
"""The most processor seconds of tests for one mistake, as measured without it; those of tests with Spark."""
_QUICK = "not spark and not slow"


@dataclass(frozen=True)
class Room:
    """Sources, as patterns of files, and the tests that hold them, of which those with Spark come last.

    `vectors` are words in the names of the vectors that are run, of all for none. `spark` are tests with Spark for
    lines that no other test runs: files, or a test in a file. The kernel runs uncompiled while a mistake is in it, and
    to find what tests run.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    vectors: tuple[str, ...] = ()
    spark: tuple[str, ...] = ()

    @property
    def uncompiled(self) -> bool:
        """Whether modules of the kernel are among the sources."""
        return any(_in_kernel(pattern) for pattern in self.sources)

    def files(self) -> list[Path]:
        """Return the sources. Code that finds columns is a room of its own, whatever folder it is in."""
        found = {file for pattern in self.sources for file in ROOT.glob(pattern)}
        return sorted(
            found - {file for pattern in _DISCOVERY for file in ROOT.glob(pattern) if self.sources != _DISCOVERY}
        )


def _in_kernel(file: str) -> bool:
    return "_kernel/" in file


def _modules(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}.py" for name in names)


_DISCOVERY = (
    *_modules("codecs", "discovery/*", "[!_]*/columns", "[!_]*/*discover*"),
    *_modules("codecs", "protobuf/schema_columns", "debezium/avro_columns", "registry_formats/written_columns"),
)
_MESSAGES = ("tests/codecs/test_vectors.py", "tests/codecs/test_edges.py", "tests/test_defaults.py")
_INFERENCE = ("tests/connectors/test_infer*.py", "tests/connectors/test_recognition.py", "tests/codecs/look")
_FEWER_CASES = {"KVFORMAT_MUTATIONS": "600", "KVFORMAT_AVRO_MUTATIONS": "300", "KVFORMAT_PROTOBUF_SETS": "20"}
"""The cases of random tests with the uncompiled kernel, which is slower."""
ROOMS = {
    "csv": Room(
        (
            *_modules("codecs", "csv/*", "raw/*", "_rows"),
            *_modules("codecs/_kernel", "csv", "csv_batch", "csv_records", "csv_times"),
        ),
        (
            *("tests/codecs/csv", "tests/codecs/test_raw.py", "tests/codecs/test_rows.py"),
            *("tests/codecs/test_invalid_text.py", "tests/codecs/timestamps", *_MESSAGES),
        ),
        ("csv", "raw"),
        spark=("tests/spark/test_csv.py",),
    ),
    "json": Room(
        (
            *_modules("codecs", "json/*", "_json_documents"),
            *_modules("codecs/_kernel", "reader", "columns", "containers", "tree", "unread", "variant*", "messages"),
            *_modules("codecs/_kernel", "text_columns", "times", "time_forms"),
            *_modules("codecs", "_timestamps/*", "_arrays", "_conversions", "_decimals"),
        ),
        (
            *("tests/codecs/json", "tests/codecs/timestamps", "tests/codecs/test_error_codes.py"),
            *("tests/codecs/kernel", *_MESSAGES),
            *("tests/codecs/test_state_left_over.py", "tests/codecs/confluent/test_json_registry.py"),
            *("tests/codecs/test_arrays.py", "tests/codecs/test_bounds.py", "tests/codecs/test_decimals.py"),
            "tests/codecs/look",
        ),
        ("json-", "json_"),
        spark=("tests/spark/test_json_native.py", "tests/spark/test_csv.py"),
    ),
    "avro": Room(
        (*_modules("codecs", "avro/*"), *_modules("codecs/_kernel", "avro", "avro_columns", "avro_wire")),
        (
            *("tests/codecs/avro", "tests/codecs/test_state_left_over.py", *_MESSAGES),
            *_modules("tests/codecs/confluent", "test_avro_confluent", "test_latest_schema", "test_new_schemas"),
            "tests/connectors/test_infer_avro.py",
        ),
        ("avro",),
        spark=("tests/spark/test_avro.py",),
    ),
    "protobuf": Room(
        _modules("codecs", "protobuf/*", "_kernel/protobuf*"),
        ("tests/codecs/protobuf", "tests/codecs/confluent", "tests/codecs/test_state_left_over.py", *_MESSAGES),
        ("proto",),
    ),
    "registries": Room(
        _modules("codecs", "*_registry", "avro_*", "registries/*", "registry_formats/*"),
        (
            *("tests/codecs/confluent", "tests/codecs/avro", "tests/codecs/debezium", *_INFERENCE),
            *("tests/test_defaults.py", "tests/test_secrets.py"),
        ),
        spark=(*_modules("tests/codecs/confluent", "test_avro_glue", "test_json_registry"), "tests/spark/test_avro.py"),
    ),
    "changes": Room(
        (
            *_modules("codecs", "changes/*", "debezium/*", "debezium_*", "*_debezium_*", "[cmo]*_json"),
            *_modules("codecs/_kernel", "changes", "avro_changes", "flattened", "message_metadata", "operation_rows"),
            *_modules("codecs/_kernel", "previous_value", "read_ahead"),
        ),
        (
            *("tests/codecs/changes", "tests/codecs/debezium", "tests/codecs/test_state_left_over.py"),
            *("tests/codecs/kernel", *_MESSAGES, *_INFERENCE, "tests/codecs/confluent/test_cloud_formats.py"),
        ),
        ("debezium", "canal", "maxwell", "ogg"),
    ),
    "discovery": Room(
        _DISCOVERY,
        (
            *(*_INFERENCE, "tests/connectors/test_proposed_columns.py"),
            *("tests/connectors/test_inspection.py", "tests/codecs/confluent", "tests/codecs/protobuf"),
        ),
    ),
    "table": Room(
        _modules("registry", "table/*", "spark/*", "key_value_format"),
        (
            "tests/registry/table",
            "tests/registry/sql",
            "tests/registry/test_*.py",
            "tests/test_*.py",
            "tests/connectors",
        ),
        spark=("tests/spark/test_key_value.py", "tests/spark/test_columns.py"),
    ),
    "sql": Room(
        _modules("registry/sql", "*"),
        (
            *("tests/registry/sql", "tests/registry/table", "tests/registry/expressions", "tests/test_defaults.py"),
            *("tests/ingestion/test_*sql*.py", "tests/ingestion/schemas"),
        ),
    ),
    "expressions": Room(
        _modules("registry/expressions", "**/*"),
        ("tests/registry/expressions", "tests/registry/sql", "tests/registry/table"),
    ),
    "connectors": Room(_modules("connectors", "**/*"), ("tests/connectors",), spark=("tests/connectors",)),
    "ingestion": Room(
        _modules("ingestion", "**/*"),
        ("tests/ingestion", "tests/codecs/look"),
        spark=(
            "tests/ingestion/targets/test_topics.py::test_changes_become_records",
            "tests/ingestion/targets/test_topics.py::test_what_does_not_fit_is_an_error_before_a_job",
            *_modules("tests/ingestion", "test_target_writer", "test_transforming", "test_store", "test_cli"),
            *_modules("tests/ingestion", "targets/test_delta_path", "test_query"),
        ),
    ),
}


# --- mistakes ------------------------------------------------------------------------------------------------


class LeaveOutStatement(Operator):  # type: ignore[misc]  # cosmic-ray has no types
    """Replaces a call or an assignment to an attribute or an element by `pass`: a forgotten reset."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Return where the operator can change a node."""
        if node.parent is None or node.parent.type != "simple_stmt":
            return
        is_call = node.type == "atom_expr"
        if is_call or (node.type == "expr_stmt" and node.children[0].type in ("atom_expr", "power")):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Return the changed node."""
        return parso.python.tree.Name("pass", node.start_pos, prefix=node.get_first_leaf().prefix)

    @classmethod
    def examples(cls) -> tuple[()]:
        """Return nothing: cosmic-ray would show them."""
        return ()


_COMPARISONS = ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Eq_NotEq", "NotEq_Eq", "Lt_Gt", "Gt_Lt", "Is_IsNot")
_ARITHMETIC = ("Add_Sub", "Sub_Add", "Mul_FloorDiv", "FloorDiv_Mul", "Mod_FloorDiv", "LShift_RShift", "BitAnd_BitOr")
_WORDS = ("TrueWithFalse", "FalseWithTrue", "AndWithOr", "OrWithAnd", "BreakWithContinue", "ContinueWithBreak")
_OPERATORS = {
    **{f"compare {name}": f"core/ReplaceComparisonOperator_{name}" for name in _COMPARISONS},
    **{f"arithmetic {name}": f"core/ReplaceBinaryOperator_{name}" for name in _ARITHMETIC},
    **{name: f"core/Replace{name}" for name in _WORDS},
    **{name: f"core/{name}" for name in ("NumberReplacer", "AddNot", "ZeroIterationForLoop")},
    "DeleteNot": "core/ReplaceUnaryOperator_Delete_Not",
}


@dataclass(frozen=True)
class Mutant:
    """A mistake: the file, the line, and the changed source."""

    file: str
    line: int
    source: str

    @property
    def change(self) -> list[str]:
        """The changed lines, with `-` and `+`."""
        lines = difflib.unified_diff(_read(self.file).splitlines(), self.source.splitlines(), n=0, lineterm="")
        return [f"{line[0]} {line[1:].strip()}" for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]


@dataclass(frozen=True)
class _Place:
    """A place where an operator of Cosmic Ray can change a file: the `occurrence`-th of all."""

    file: str
    line: int
    operator: str
    occurrence: int

    def mutant(self) -> Mutant | None:
        """Return the mistake; None if the source does not differ or can't be compiled."""
        before = _read(self.file)
        after: str | None = mutate_code(before, _operator(self.operator), self.occurrence)
        try:
            same = after is None or ast.dump(ast.parse(after)) == ast.dump(ast.parse(before))
        except SyntaxError:
            return None
        return None if after is None or same else Mutant(self.file, self.line, after)


def _read(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def _operator(name: str) -> Any:
    return LeaveOutStatement() if name == "LeaveOutStatement" else get_operator(_OPERATORS[name])()


def _lines_without_effect(source: str) -> set[int]:
    """Return the lines of annotations, decorators, `raise`, `assert`, and of what only type checkers read.

    The words of an error are not what is looked for here.
    """
    found: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        skipped: list[ast.AST | None] = [*getattr(node, "decorator_list", ())]
        if isinstance(node, ast.AnnAssign):
            skipped.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = (*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs)
            skipped += [node.returns, *(one.annotation for one in arguments)]
        elif (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)) or isinstance(
            node, ast.Raise | ast.Assert
        ):
            skipped.append(node)
        for one in skipped:
            if one is not None:
                found |= set(range(one.lineno, (one.end_lineno or one.lineno) + 1))  # type: ignore[attr-defined]
    return found


def _places(room: Room) -> list[_Place]:
    """Return all places in a room where a mistake can be made."""
    found = []
    for path in room.files():
        file = path.relative_to(ROOT).as_posix()
        source = _read(file)
        skipped, tree, lines = _lines_without_effect(source), get_ast(source), source.splitlines()
        for name in (*_OPERATORS, "LeaveOutStatement"):
            starts = [start for node in ast_nodes(tree) for start, _ in _operator(name).mutation_positions(node)]
            for occurrence, (line, column) in enumerate(starts):
                # the lists that `zip` gets have one length already
                if line not in skipped and not lines[line - 1][:column].endswith("strict="):
                    found.append(_Place(file, line, name, occurrence))
    return found


def sample(room: Room, count: int, seed: int) -> list[Mutant]:
    """Return mistakes: at most one a line, and of each kind of operator about as many."""
    chosen = random.Random(f"{seed}")
    kinds: dict[str, list[_Place]] = {}
    for place in _places(room):
        kinds.setdefault(place.operator.split()[0], []).append(place)
    for some in kinds.values():
        chosen.shuffle(some)
    found: dict[tuple[str, int], Mutant] = {}
    while len(found) < count and any(kinds.values()):
        for some in kinds.values():
            if some and len(found) < count:
                place = some.pop()
                mutant = None if (place.file, place.line) in found else place.mutant()
                if mutant is not None:
                    found[place.file, place.line] = mutant
    return list(found.values())


def again(survivors: Sequence[dict[str, Any]]) -> list[Mutant]:
    """Return stored mistakes whose lines are still there, wherever they are now."""
    found = []
    for one in survivors:
        old = [line[2:] for line in one["change"] if line[0] == "-"]
        new = [line[2:] for line in one["change"] if line[0] == "+"]
        lines = _read(one["file"]).splitlines()
        stripped = [line.strip() for line in lines]
        starts = [at for at in range(len(lines)) if stripped[at : at + len(old)] == old]
        if starts:
            at = min(starts, key=lambda start: abs(start + 1 - one["line"]))
            indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
            lines[at : at + len(old)] = [indent + line for line in new]
            found.append(Mutant(one["file"], at + 1, "\n".join(lines) + "\n"))
    return found


# --- running -------------------------------------------------------------------------------------------------


class Copy:
    """A copy of the checkout, in which a file can be changed and tests be run."""

    def __init__(self, folder: Path, room: Room) -> None:
        self._folder, self._room = folder, room
        self._pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
        self._pytest += ["-o", "faulthandler_timeout=0"]  # traced tests take longer
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for name in listed.stdout.splitlines():
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        tree = folder / "build" / "editable"
        (tree / "kvformat").mkdir(parents=True)
        for name in ("registry", "codecs", "connectors", "ingestion"):
            (tree / "kvformat" / name).symlink_to(folder / name)
        for file in (folder / "package").iterdir():
            (tree / "kvformat" / file.name).symlink_to(file)
        if (ROOT / "build" / "kernel").is_dir():  # compiled parts are found by their sources
            shutil.copytree(ROOT / "build" / "kernel", folder / "build" / "kernel")
        (folder / "tmp").mkdir()
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("KVFORMAT_")}
        self._env |= {"PYTHONPATH": f"{tree}:{folder}/scripts:{ROOT}/build/mutants", "TMPDIR": f"{folder}/tmp"}
        self._env |= {"SPARK_LOCAL_DIRS": f"{folder}/tmp", "TRACE_SOURCES": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        if room.uncompiled:
            self._env |= {"KVFORMAT_KERNEL": "python", **_FEWER_CASES}
        self._compiled = {name: value for name, value in self._env.items() if name != "KVFORMAT_KERNEL"}

    def trace(self, part: int, parts: int) -> dict[str, Any]:
        """Run a part of the room's tests, and return the seconds of each, and the tests of each line."""
        out = self._folder / "trace.json"
        tests = list(dict.fromkeys(name for pattern in self._room.tests for name in self._files(pattern)))[part::parts]
        env = {**self._env, "TRACE_OUT": str(out), "PYTHONDONTWRITEBYTECODE": ""}
        words = " or ".join(("not test_vectors", *self._room.vectors)) if self._room.vectors else ""
        if self._room.uncompiled:  # hostile messages take minutes
            words = f"({words}) and not hostile"
        command = [*self._pytest, "-m", _QUICK, "-k", words, "-q", "-p", "trace_tests", *tests]
        done = subprocess.run(command, cwd=self._folder, env=env, capture_output=True, text=True)
        if not out.exists():
            raise SystemExit(f"the tests of the room did not run:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        print(done.stdout.strip().splitlines()[-1], flush=True)
        if done.returncode:
            failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
            raise SystemExit("\n".join(["these tests fail without a mistake:", *failed]))
        return dict(json.loads(out.read_text(encoding="utf-8")))

    def _files(self, pattern: str) -> list[str]:
        found = (self._folder / name for name in self._matching(pattern))
        files = [sorted(path.rglob("test_*.py")) if path.is_dir() else [path] for path in found]
        return [str(file.relative_to(self._folder)) for some in files for file in some]

    def _matching(self, pattern: str) -> list[str]:
        files, colons, test = pattern.partition("::")
        return sorted(f"{file.relative_to(self._folder)}{colons}{test}" for file in self._folder.glob(files))

    def caught_with_spark(self, mutant: Mutant) -> str | None:
        """Return the test with Spark that fails with a mistake; see `caught_by`."""
        tests = [name for pattern in self._room.spark for name in self._matching(pattern)]
        return self.caught_by(mutant, tests, MOST_SPARK_SECONDS, "spark and not slow") if tests else None

    def caught_by(self, mutant: Mutant, tests: Sequence[str], seconds: float, marks: str = _QUICK) -> str | None:
        """Return the test that fails with a mistake, "timeout", or None if none fails."""
        target = self._folder / mutant.file
        before, times = target.read_text(encoding="utf-8"), target.stat()
        most = round(40 + 2 * seconds)
        chosen = self._folder / "chosen.txt"
        chosen.write_text("\n".join(tests), encoding="utf-8")
        target.write_text(mutant.source, encoding="utf-8")
        run = subprocess.Popen(
            [*self._pytest, "-m", marks, "-qx", "--tb=no", f"@{chosen}"],
            cwd=self._folder,
            env=self._env if _in_kernel(mutant.file) else self._compiled,
            text=True,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5)),
        )
        try:
            out, _ = run.communicate(timeout=min(10 * most, 900))  # other processes may need the processor too
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, 9)
            run.communicate()
            return "timeout"
        finally:
            target.write_text(before, encoding="utf-8")
            os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))
        if run.returncode == 0:
            return None
        if run.returncode == -signal.SIGXCPU:
            return "timeout"
        failed = [line.partition(" ")[2] for line in out.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return failed[0] if failed else f"exit code {run.returncode}"


def _in_function(mutant: Mutant) -> bool:
    functions = [node for node in ast.walk(ast.parse(mutant.source)) if isinstance(node, ast.FunctionDef)]
    return any(node.body[0].lineno <= mutant.line <= (node.end_lineno or 0) for node in functions)


def _tests_for(mutant: Mutant, trace: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the tests that run a line, quickest first: one case of each test, then the others.

    They are all tests for a line that runs on import, first those that run it again, as a lambda. They are those that
    run its file if none runs the line. Tests of more than `MOST_SECONDS` are left out.
    """
    lines, seconds = trace["lines"].get(mutant.file, {}), trace["seconds"]
    on_line = set(lines.get(str(mutant.line), ()))
    found = on_line if _in_function(mutant) else set(seconds)
    if not found:  # it runs in another process, or never
        found = {test for tests in lines.values() for test in tests}
    ordered = sorted(found, key=lambda test: (test not in on_line, seconds[test], test))
    first: dict[str, str] = {}
    for test in ordered:
        first.setdefault(test.partition("[")[0], test)
    total, chosen = 0.0, set[str]()
    for test in (*first.values(), *(test for test in ordered if test not in first.values())):
        total += seconds[test]
        if total <= MOST_SECONDS or not chosen:
            chosen.add(test)
    others = [test for test in ordered if test in chosen and first[test.partition("[")[0]] != test]
    yield from (tests for tests in ([test for test in first.values() if test in chosen], others) if tests)


def _trace(copies: Sequence[Copy]) -> dict[str, Any]:
    """Return what all tests of a room run; see `Copy.trace`. The copies share the files of tests."""
    with ThreadPoolExecutor(len(copies)) as pool:
        parts = list(pool.map(lambda i: copies[i].trace(i, len(copies)), range(len(copies))))
    lines: dict[str, dict[str, list[str]]] = {}
    for part in parts:
        for file, found in part["lines"].items():
            for line, tests in found.items():
                lines.setdefault(file, {}).setdefault(line, []).extend(tests)
    return {"seconds": {test: s for part in parts for test, s in part["seconds"].items()}, "lines": lines}


def measure(name: str, planted: Sequence[Mutant]) -> list[Mutant]:
    """Plant mistakes in a room, one at a time, and return those that no test catches."""
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Copy] = SimpleQueue()
        number = os.cpu_count() or 1
        made = []
        for index in range(number):
            (Path(folder) / str(index)).mkdir()
            made.append(Copy(Path(folder) / str(index), ROOMS[name]))
            copies.put(made[-1])
        trace = _trace(made)
        print(f"{len(trace['seconds'])} tests, {len(planted)} mistakes", flush=True)

        def catch(mutant: Mutant) -> str | None:
            copy, by = copies.get(), None
            for tests in _tests_for(mutant, trace):
                by = by or copy.caught_by(mutant, tests, sum(trace["seconds"][test] for test in tests))
            if by is None and not trace["lines"].get(mutant.file, {}).get(str(mutant.line)):
                by = copy.caught_with_spark(mutant)
            copies.put(copy)
            return by

        survivors = []
        with ThreadPoolExecutor(number) as pool:
            for mutant, by in zip(planted, pool.map(catch, planted), strict=True):
                print(f"{mutant.file}:{mutant.line} {' '.join(mutant.change)}\n    {by or 'NOT CAUGHT'}", flush=True)
                if by is None:
                    survivors.append(mutant)
        return survivors


# --- results -------------------------------------------------------------------------------------------------


def _stored(name: str) -> dict[str, Any]:
    file = FOUND / f"{name}.json"
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}


def _result(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Return the result of a room as it is stored. Reasons that were written into the file are kept."""
    before, start = _stored(name), time.monotonic()
    told = {_key(one["file"], one["change"]): one for one in before.get("survivors", ())}
    if args.again:
        open_ = [one for one in told.values() if not one["equivalent"]]
        planted = again(open_)
        print(f"{len(open_) - len(planted)} stored mistakes are in lines that are gone; they no longer count")
        equivalent = [one for one in told.values() if one["equivalent"]]
        result = {**before, "mutants": before["mutants"] - len(open_), "survivors": equivalent}
    else:
        kept = before if args.add else {}
        if args.seed in kept.get("seeds", ()):
            raise SystemExit(f"--add needs another seed than the stored ones: {kept['seeds']}")
        planted = sample(ROOMS[name], args.count, args.seed)
        planted = [one for one in planted if not (args.add and _key(one.file, one.change) in told)]
        result = {"mutants": 0, "seeds": [], "seconds": 0, "survivors": [], **kept}
        result["seeds"] = [*result["seeds"], args.seed]
    survivors = list(result["survivors"])
    for mutant in measure(name, planted):
        old = told.get(_key(mutant.file, mutant.change), {"equivalent": False, "reason": ""})
        survivors.append({"file": mutant.file, "line": mutant.line, "change": mutant.change, **_words(old)})
    seconds = 0 if args.again else round(time.monotonic() - start)
    counts = {"mutants": result["mutants"] + len(planted), "seconds": result["seconds"] + seconds}
    return {**result, **counts, "survivors": survivors}


def _key(file: str, change: Sequence[str]) -> str:
    return "\n".join([file, *change])


def _words(survivor: dict[str, Any]) -> dict[str, Any]:
    return {name: survivor[name] for name in ("equivalent", "reason")}


def _row(name: str, found: dict[str, Any]) -> str:
    equivalent = sum(one["equivalent"] for one in found["survivors"])
    survivors = len(found["survivors"]) - equivalent
    caught = found["mutants"] - equivalent - survivors
    share = caught / (caught + survivors)
    return (
        f"{name:<12}{found['mutants']:>8}{caught:>8}{equivalent:>12}{survivors:>11}{share:>7.0%}{found['seconds']:>9}"
    )


def main() -> None:
    """Run a room, or show the stored results."""
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=__doc__)
    parser.add_argument("room", nargs="?", choices=ROOMS)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", action="store_true", help="write the result into scripts/mutants_found")
    of_stored = parser.add_mutually_exclusive_group()
    of_stored.add_argument("--add", action="store_true", help="add to the stored result; needs another seed")
    of_stored.add_argument("--again", action="store_true", help="plant only the stored mistakes that were not caught")
    args = parser.parse_args()
    results = {name: found for name in ROOMS if (found := _stored(name))}
    if args.room:
        results = {args.room: _result(args.room, args)}
        if args.store:
            FOUND.mkdir(exist_ok=True)
            text = json.dumps(results[args.room], indent=1, ensure_ascii=False)
            (FOUND / f"{args.room}.json").write_text(f"{text}\n", encoding="utf-8")
    print(f"{'room':<12}{'mutants':>8}{'caught':>8}{'equivalent':>12}{'survivors':>11}{'share':>7}{'seconds':>9}")
    for name, found in results.items():
        print(_row(name, found))


if __name__ == "__main__":
    main()
