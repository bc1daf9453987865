"""The output of the command line contains no terminal control sequences, whatever its source."""

from __future__ import annotations

import ast
import json
import os
import pty
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvformat.connectors import cli
from kvformat.connectors.cli import _group
from kvformat.connectors.cli._output import Styled, json_line, printable, table

HOSTILE = "\x1b]0;owned\x07\x9b2J\u202eevil\u2066\u2028\x7f\U000e0041"
"""ESC, BEL, CSI in one byte, bidi overrides, a line separator, DEL, a tag of the format plane."""
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def run(*arguments: str, data: bytes = b"") -> Result:
    return CliRunner().invoke(_group, arguments, input=data, color=True)


def assert_harmless(text: str) -> None:
    found = {c for c in text if unicodedata.category(c) in HIDDEN and c != "\n"}
    assert not found, sorted(map(ascii, found))


def test_invisible_characters_are_escaped() -> None:
    checked = 0
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        hides = unicodedata.category(character) in HIDDEN
        checked += hides
        assert (printable(character) == character) != hides, hex(number)
        if hides and not 0xD800 <= number < 0xE000:
            assert json.loads(f'"{printable(character)}"') == character
    assert checked > 2000
    assert printable("a\nb", lines=True) == "a\nb"
    assert printable("größer\u00a0日本 \ue000 \U0001f600") == "größer\u00a0日本 \ue000 \U0001f600"


def test_escaped_text_survives_json() -> None:
    value = {HOSTILE: [HOSTILE, 'a\n\t\\"b', "\ud800"]}
    line = json_line(value)
    assert_harmless(line)
    assert "\n" not in line
    assert json.loads(line) == value


def _message(**more: Any) -> bytes:
    return json.dumps({"id": 1, HOSTILE: HOSTILE, **more}, ensure_ascii=False).encode()


def _ddl(path: Path, name: str = f"t{HOSTILE}") -> str:
    path.write_text(
        f"CREATE TABLE `{name}` (`id` INT, `{HOSTILE}` STRING) WITH ('connector' = 'kafka', 'topic' = 't{HOSTILE}', "
        "'properties.bootstrap.servers' = 'b:9092', 'format' = 'json')",
        encoding="utf-8",
    )
    return str(path)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "{file}"],
        ["inspect", "{file}", "--sql"],
        ["inspect", "{file}", "--name", HOSTILE],
        ["decode", "-f", "json", "-s", f"id INT, `{HOSTILE}` STRING", "{file}"],
        ["decode", "-f", "json", "-s", f"id INT, `{HOSTILE}` INT", "{file}"],
        ["decode", "-f", "raw", "-s", "v STRING", "{file}"],
        ["decode", "-f", "json", "-s", f"id INT, `{HOSTILE}`", "{file}"],
        ["decode", "-f", HOSTILE, "-s", "id INT", "{file}"],
        ["decode", "-f", "json", "-s", "id INT", "-o", f"{HOSTILE}=1", "{file}"],
        ["encode", "-f", "json", "-s", "id INT", "{file}"],
        ["explain", "{ddl}"],
        ["explain", "{ddl}", "--table", HOSTILE],
        ["options", HOSTILE],
        [HOSTILE],
        [f"--{HOSTILE}"],
        ["decode", HOSTILE],
        ["formats", f"--{HOSTILE}"],
        ["new-format", HOSTILE],
        ["tail", "{ddl}", "--from", HOSTILE],
    ],
)
def test_names_values_and_errors_are_escaped(arguments: list[str], as_json: bool, tmp_path: Path) -> None:
    file, ddl = tmp_path / "messages", _ddl(tmp_path / "t.sql")
    file.write_bytes(_message() + b"\n" + _message(id="x") + b"\n")
    given = [argument.replace("{file}", str(file)).replace("{ddl}", ddl) for argument in arguments]
    ran = run(*given, *(["--json"] if as_json else []))
    shown = ran.stdout + ran.stderr
    assert ran.exception is None or isinstance(ran.exception, SystemExit)
    assert "owned" in shown or "v" in shown
    if "inspect" in arguments and not as_json:
        shown = shown.replace("\x1b[1m", "").replace("\x1b[0m", "")  # the style of a title, which kvformat adds
    assert_harmless(shown)


def test_escaped_ddl_has_a_note(tmp_path: Path) -> None:
    file = tmp_path / "messages"
    file.write_bytes(_message())
    ran = run("inspect", str(file), "--sql")
    assert "\\u001b]0;owned\\u0007" in ran.stdout
    assert "shown escaped; --json shows them" in ran.stderr
    file.write_bytes(b'{"id": 1}')
    assert run("inspect", str(file), "--sql").stderr == ""
    # JSON restores a name that was shown escaped
    file.write_bytes(_message())
    assert f"`{HOSTILE}` STRING" in json.loads(run("inspect", str(file), "--json").stdout)["ddl"]


def test_columns_of_a_listing_are_as_wide_as_their_longest_text() -> None:
    names, *rows = table(("long name", "x", "last"), [("a", "long", "z"), ("", "", ""), ("\n", "", "-")])
    assert isinstance(names, Styled)
    assert names.text == "long name  x     last"
    assert rows == ["\na          long  z", "\n", "\n\\u000a           -"]


def test_messages_are_bytes_in_a_pipe_and_text_on_a_terminal() -> None:
    command = [sys.executable, "-m", "kvformat", "encode", "-f", "raw", "-s", "v STRING"]
    line = json.dumps({"v": HOSTILE}).encode()
    piped = subprocess.run(command, input=line, capture_output=True, check=True)
    assert piped.stdout.decode() == f"{HOSTILE}\n"
    master, slave = pty.openpty()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=slave, stderr=subprocess.DEVNULL) as process:
        os.close(slave)
        process.communicate(line)
    shown = os.read(master, 4096).decode().replace("\r\n", "\n")
    os.close(master)
    assert_harmless(shown)
    assert shown.startswith("\\u001b]0;owned")


def test_only_the_output_module_prints() -> None:
    """Each module of the command line prints through `_output`."""
    folder, looked = Path(cli.__file__).parent, 0
    for file in folder.glob("*.py"):
        looked += 1
        if file.name == "_output.py":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("print", "click.echo", "click.secho", "click.style"), (file.name, node.lineno)
                assert not called.startswith(("sys.stdout.", "sys.stderr.")) or called.endswith("isatty"), file.name
    assert looked >= 12
