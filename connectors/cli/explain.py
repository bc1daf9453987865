"""`kvformat explain`: what the tables of a file of Flink SQL are, and what Spark is asked for."""

from __future__ import annotations

from pathlib import Path

import click

from kvformat.connectors.cli._output import json_option, show, write_json
from kvformat.connectors.cli._table import FILE, read_text
from kvformat.connectors.kafka import KafkaTable
from kvformat.registry.statements import statements


@click.command()
@click.argument("ddl", type=FILE, metavar="FILE.sql")
@click.option("--table", metavar="NAME", help="One table; default: all that the file creates.")
@json_option("A line of JSON for each table.")
def explain_command(ddl: Path, table: str | None, as_json: bool) -> None:
    """Say what the tables of a DDL are, what Spark is asked for, and what it can't do as Flink does.

    No broker is asked and no Spark is started; secrets are not shown. What is wrong with the DDL is said with line and
    column, and the exit status is 2.
    """
    text = read_text(ddl)
    created = dict.fromkeys(s.name for s in statements(text) if s.kind == "CREATE TABLE")
    names = [table] if table is not None else list(created)
    if not names:
        KafkaTable.from_ddl(text)  # raises what is there instead
    found = {}
    for name in names:
        found[name] = KafkaTable.from_ddl(text, table=name).explain()
    if as_json:
        write_json({"table": name, "explanation": words} for name, words in found.items())
    else:
        show("\n\n".join(found.values()))
