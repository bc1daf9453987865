"""The command line with the commands of all packages: `kvformat COMMAND`, or `python -m kvformat COMMAND`."""

from __future__ import annotations

from kvformat.connectors import cli

cli.add_commands(
    "kvformat.ingestion.cli",
    {
        "ingest": "Run a pipeline in YAML or SQL: topics become tables, with Spark.",
        "schemas": "Show the tables that an ingestion knows, and their changes.",
    },
)
cli.add_commands(
    "kvformat.ingestion.tables_cli",
    {"tables": "Show the Delta tables below a path: rows, files, the last batch."},
)


def main() -> None:
    """Run the command of the process's arguments, and end the process."""
    cli.main()


if __name__ == "__main__":
    main()
