"""`kvformat explain`: describe the tables of a file of Flink SQL, and the options that Spark gets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from kvformat.connectors.cli._output import json_option, note, show, tell, write_json
from kvformat.connectors.cli._table import FILE, option_option, read_text
from kvformat.connectors.explain import explained
from kvformat.connectors.kafka import KafkaTable
from kvformat.registry.contract.errors import KvFormatError
from kvformat.registry.sql.create_as_table import following_tables
from kvformat.registry.sql.statements import statements


@click.command()
@click.argument("ddl", type=FILE, metavar="FILE.sql")
@click.option("--table", metavar="NAME", help="A table; default: all tables of the file.")
@option_option("An option of each table, instead of its own, such as the brokers of tables of Confluent Cloud.")
@json_option("A line of JSON for each table.")
def explain_command(ddl: Path, table: str | None, options: dict[str, str], as_json: bool) -> None:
    """Describe the tables of a DDL, the options that Spark gets, and where Spark differs from Flink.

    Asks no broker, starts no Spark and shows no secrets. Errors of a table are reported on stderr, with line and
    column. The other tables are explained, and the exit status is 2. A CREATE TABLE ... AS TABLE is run, and explained,
    by `kvformat ingest`.
    """
    text = read_text(ddl)
    created = dict.fromkeys(s.name for s in statements(text) if s.kind == "CREATE TABLE")
    following = following_tables(text)
    if table is not None:
        following = {target: source for target, source in following.items() if _is_name(table, target)}
        names = [] if following else [table]
    else:
        names = [name for name in created if name not in following]
    if not names and not following:
        KafkaTable.from_ddl(text)  # raises an error that says what the file has instead
    _tell_of_jobs(following, ddl, as_json)
    wrong: list[KvFormatError] = []
    is_first = not following
    for name in names:
        try:
            found = KafkaTable.from_ddl(text, table=name, options=options)
            if as_json:
                write_json([explained(found.kv)])
            else:
                show("" if is_first else "\n", found.explain())
            is_first = False
        except KvFormatError as error:
            if any(_is_name(name.rpartition(".")[2], source) for source in following_tables(text).values()):
                _tell_of_followed(name, error, ddl, as_json)
                continue
            if len(names) == 1 and not following:
                raise
            wrong.append(error)
            if as_json:
                tell({"table": name, "error": str(error), "type": type(error).__name__})
            else:
                note(f"table '{name}': {error}")
    raise SystemExit(2 if wrong else 0)


def _tell_of_jobs(following: Mapping[str, str], ddl: Path, as_json: bool) -> None:
    """Say how the statements CREATE TABLE ... AS TABLE are run."""
    for target, source in following.items():
        run = f"kvformat ingest {ddl} --explain"
        if as_json:
            write_json([{"table": target, "follows": source, "explained_by": run}])
        else:
            show(
                f"table {target} follows {source}. Run the statement with 'kvformat ingest {ddl}'; '{run}' describes it"
            )


def _tell_of_followed(name: str, error: KvFormatError, ddl: Path, as_json: bool) -> None:
    """Say why a table that another one follows is not explained by itself."""
    if as_json:
        tell({"table": name, "not_a_table_by_itself": str(error)})
    else:
        note(
            f"table '{name}' is followed by a CREATE TABLE ... AS TABLE; 'kvformat ingest {ddl} --explain' describes "
            f"it. It can't be read as a table by itself: {error}"
        )


def _is_name(name: str, table: str) -> bool:
    """Whether a name is that of a table, with or without its catalog and database."""
    plain, full = name.replace("`", ""), table.replace("`", "")
    return plain == full or full.endswith(f".{plain}")
