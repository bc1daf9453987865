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
from kvformat.registry.sql.connector_options import masked
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
    column. The other tables are explained, and the exit status is 2. At the end is the code that makes views of the
    tables for Spark SQL.
    """
    text = read_text(ddl)
    created = dict.fromkeys(s.name for s in statements(text) if s.kind == "CREATE TABLE")
    names = [table] if table is not None else list(created)
    if jobs := following_tables(text):
        names = list(dict.fromkeys([*names, *jobs])) if table is None else names
        names = _without_jobs(text, names, jobs, ddl, options, as_json)
    elif not names:
        KafkaTable.from_ddl(text)  # raises an error that says what the file has instead
    wrong: list[KvFormatError] = []
    readable: list[str] = []
    for count, name in enumerate(names):
        try:
            kafka_table = KafkaTable.from_ddl(text, table=name, options=options)
            told = explained(kafka_table.kv)
            if as_json:
                write_json([told])
            else:
                show("\n" if count > len(wrong) else "", kafka_table.explain())
            if "refused" not in told["reading"]["batch"]:
                readable.append(name)
        except KvFormatError as error:
            if len(names) == 1:
                raise
            wrong.append(error)
            if as_json:
                tell({"table": name, "error": str(error), "type": type(error).__name__})
            else:
                note(f"table '{name}': {error}")
    if readable and not as_json:
        show("\n", _views(ddl, readable, options, all_of_file=readable == list(created)))
    raise SystemExit(2 if wrong else 0)


def _views(ddl: Path, names: list[str], options: dict[str, str], *, all_of_file: bool) -> str:
    """Return the code that makes views of the tables for Spark SQL, with secrets masked."""
    text = "text" if str(ddl) == "-" else f"Path({str(ddl)!r}).read_text(encoding='utf-8')"
    tables = "" if all_of_file else f", tables={names!r}"
    shown_options = {name: masked(name, value) for name, value in options.items()}
    lines = (
        "Views of these tables for Spark SQL:",
        *(["from pathlib import Path"] if text != "text" else []),
        "from kvformat import register_tables",
        f"register_tables(spark, {text}{tables}{f', options={shown_options!r}' if shown_options else ''})",
    )
    return "\n  ".join(lines)


# --- CREATE TABLE ... AS TABLE, which `kvformat ingest` runs and describes ---------------------------------------


def _without_jobs(
    text: str, names: list[str], jobs: Mapping[str, str], ddl: Path, options: Mapping[str, str], as_json: bool
) -> list[str]:
    """Say how the statements CREATE TABLE ... AS TABLE among the names are run, and return the other names.

    `jobs` are all targets of such statements, each with the table that it follows. A table that is followed is returned
    only if it can be read by itself.
    """
    others = []
    told = False
    for name in names:
        target = next((target for target in jobs if _is_name(name, target)), None)
        if target is not None:
            _tell_of_job(target, jobs[target], ddl, as_json)
            told = True
            continue
        try:
            KafkaTable.from_ddl(text, table=name, options=dict(options))
        except KvFormatError as error:
            if any(_is_name(name.rpartition(".")[2], source) for source in jobs.values()):
                _tell_of_followed(name, error, ddl, as_json)
                continue
        others.append(name)
    if told and others and not as_json:
        show("")
    return others


def _tell_of_job(target: str, source: str, ddl: Path, as_json: bool) -> None:
    run = f"kvformat ingest {ddl} --explain"
    if as_json:
        write_json([{"table": target, "follows": source, "explained_by": run}])
    else:
        show(f"table {target} follows {source}. Run the statement with 'kvformat ingest {ddl}'; '{run}' describes it")


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
