"""`kvformat explain`: describe the tables of a file of Flink SQL, and the options that Spark gets."""

from __future__ import annotations

from pathlib import Path

import click

from kvformat.connectors.cli._jobs import following_tables, without_jobs
from kvformat.connectors.cli._output import json_option, note, show, tell, write_json
from kvformat.connectors.cli._table import FILE, option_option, read_text
from kvformat.connectors.explain import explained
from kvformat.connectors.kafka import KafkaTable
from kvformat.registry.contract.errors import KvFormatError
from kvformat.registry.sql.statements import statements


@click.command()
@click.argument("ddl", type=FILE, metavar="FILE.sql")
@click.option("--table", metavar="NAME", help="A table; default: all tables of the file.")
@option_option("An option of each table, instead of its own, such as the brokers of tables of Confluent Cloud.")
@json_option("A line of JSON for each table.")
def explain_command(ddl: Path, table: str | None, options: dict[str, str], as_json: bool) -> None:
    """Describe the tables of a DDL, the options that Spark gets, and where Spark differs from Flink.

    Asks no broker, starts no Spark and shows no secrets. Errors of a table are reported on stderr, with line and
    column. The other tables are explained, and the exit status is 2.
    """
    text = read_text(ddl)
    created = dict.fromkeys(s.name for s in statements(text) if s.kind == "CREATE TABLE")
    names = [table] if table is not None else list(created)
    if jobs := following_tables(text):
        names = list(dict.fromkeys([*names, *jobs])) if table is None else names
        names = without_jobs(text, names, jobs, ddl, options, as_json)
    elif not names:
        KafkaTable.from_ddl(text)  # raises an error that says what the file has instead
    wrong: list[KvFormatError] = []
    for count, name in enumerate(names):
        try:
            found = KafkaTable.from_ddl(text, table=name, options=options)
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
