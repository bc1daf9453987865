"""`kvformat explain`: what the tables of a file of Flink SQL are, and what Spark is asked for."""

from __future__ import annotations

from pathlib import Path

import click

from kvformat.connectors.cli._output import json_option, note, show, tell, write_json
from kvformat.connectors.cli._table import FILE, read_text
from kvformat.connectors.explain import explained
from kvformat.connectors.kafka import KafkaTable
from kvformat.registry.contract.errors import KvFormatError
from kvformat.registry.sql.statements import statements


@click.command()
@click.argument("ddl", type=FILE, metavar="FILE.sql")
@click.option("--table", metavar="NAME", help="One table; default: all that the file creates.")
@json_option("A line of JSON for each table.")
def explain_command(ddl: Path, table: str | None, as_json: bool) -> None:
    """Say what the tables of a DDL are, what Spark is asked for, and what it can't do as Flink does.

    No broker is asked and no Spark is started; secrets are not shown. Tables that are wrong are said on stderr, with
    line and column, and the others are explained all the same; the exit status is then 2.
    """
    text = read_text(ddl)
    created = dict.fromkeys(s.name for s in statements(text) if s.kind == "CREATE TABLE")
    names = [table] if table is not None else list(created)
    if not names:
        KafkaTable.from_ddl(text)  # raises what is there instead
    wrong: list[KvFormatError] = []
    for count, name in enumerate(names):
        try:
            found = KafkaTable.from_ddl(text, table=name)
            if as_json:
                write_json([explained(found.kv)])
            else:
                show("\n" if count > len(wrong) else "", found.explain())
        except KvFormatError as error:
            if len(names) == 1:
                raise
            wrong.append(error)
            if as_json:
                tell({"table": name, "error": str(error), "type": type(error).__name__})
            else:
                note(f"table '{name}': {error}")
    raise SystemExit(2 if wrong else 0)
