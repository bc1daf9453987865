"""`kvformat launcher`: print the file with which spark-submit runs the command line."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import click

from kvformat.connectors.cli._output import json_option, show, write_json
from kvformat.registry.contract.errors import ConfigurationError

_TWO_LINES = "from kvformat.__main__ import main\nmain()"


@click.command()
@json_option("The path in a line of JSON.")
def launcher_command(as_json: bool) -> None:
    """Print the path of a file for spark-submit, which takes a file *.py and no program.

    spark-submit --master spark://host:7077 $(kvformat launcher) ingest pipeline.yaml
    """
    spec = importlib.util.find_spec("pyspark_kvformat")
    folder = Path(spec.origin or "").parent if spec else None
    file = folder / "launcher.py" if folder else None
    if file is None or not file.is_file():
        raise ConfigurationError(
            f"spark-submit can't read a file in {folder}: write these two lines to a file of your own:\n{_TWO_LINES}"
        )
    if as_json:
        write_json([{"file": str(file)}])
    else:
        show(str(file))
