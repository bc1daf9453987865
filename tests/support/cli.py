"""Run commands of the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

import kvformat.__main__  # noqa: F401 - it adds the commands of ingestion
from kvformat.connectors import cli


def run(*arguments: str | Path, given: bytes | str = b"") -> Result:
    result = CliRunner().invoke(cli._group, [str(argument) for argument in arguments], input=given)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]
