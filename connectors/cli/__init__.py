"""The command line: `kvformat COMMAND`, or `python -m kvformat COMMAND`.

    formats.py      formats, options: list installed formats and their options
    explain.py      explain: describe the tables of a file
    decode.py       decode: messages to rows     }  _table.py (a format, or a table of a DDL), _framing.py (messages
    encode.py       encode: rows to messages     }  in streams), _values.py (values in JSON), _decoding.py, _output.py
    tail.py         tail: show a topic           }
    produce.py      produce: rows to a topic     }
    new_format.py   new-format: write a package for a format, from template/
    inspect.py      inspect: guess the formats in a file or topic
    doctor.py       doctor: check the installation
    launcher.py     launcher: the file for spark-submit

A command's module is imported when the command is called, so that help is fast. Packages above this one add commands
with `add_commands`.
Exit status: 0; 1 if records are bad or a check failed; 2 if the command line is wrong.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

import click

__all__ = ["add_commands", "main"]

COMMANDS = {
    "formats": "List the formats that are installed.",
    "options": "List the options of a format or a connector.",
    "explain": "Describe the tables of a DDL, and the options that Spark gets.",
    "decode": "Turn messages into rows, as lines of JSON.",
    "encode": "Turn rows, lines of JSON, into messages.",
    "produce": "Write rows, lines of JSON, to a table's topic, without Spark.",
    "inspect": "Guess the formats in a file or a topic.",
    "tail": "Show a topic's rows as they arrive, without Spark.",
    "doctor": "Check the installation, the broker and the registry.",
    "launcher": "Print the file with which spark-submit runs these commands.",
    "new-format": "Write a package for a format of your own.",
}
_MODULES = {"options": f"{__name__}.formats", "new-format": f"{__name__}.new_format"}
"""The modules of commands that are not in the module of their name."""


def add_commands(module: str, commands: Mapping[str, str]) -> None:
    """Add commands and their help. The module has `<name>_command` for each, and is imported when one is called."""
    COMMANDS.update(commands)
    _MODULES.update(dict.fromkeys(commands, module))


class _Commands(click.Group):
    """The commands, each imported when it is called; turns the library's errors into messages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(_MODULES.get(cmd_name, f"{__name__}.{cmd_name}"))
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from kvformat.registry.contract.errors import did_you_mean

            raise click.UsageError(
                f"there is no command {args[0]!r}.{did_you_mean(args[0], COMMANDS)} Commands: {', '.join(COMMANDS)}",
                ctx,
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _safe_messages():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with warnings.catch_warnings(), _safe_messages():
            warnings.showwarning = _show_warning
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException:
            raise
        except KeyboardInterrupt:
            ctx.exit(130)
        except Exception as error:
            from kvformat.connectors.cli._output import JSON_ERRORS, ClosedPipe
            from kvformat.registry.contract.errors import KvFormatError, MissingExtraError

            if isinstance(error, ClosedPipe):
                ctx.exit(0)
            if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "pyspark":
                error = MissingExtraError("this command needs PySpark 4.1 or newer", extra="spark")
            if not isinstance(error, KvFormatError):
                raise
            raise _Refused(error, as_json=bool(ctx.meta.get(JSON_ERRORS))) from error


@contextlib.contextmanager
def _safe_messages() -> Iterator[None]:
    """Remove passwords of URLs and control characters from errors of click, which repeat arguments."""
    try:
        yield
    except click.ClickException as error:
        from kvformat.connectors.cli._output import printable
        from kvformat.registry.contract.options import mask_userinfo_in_text

        vars(error)["message"] = printable(mask_userinfo_in_text(error.message), lines=True)
        raise


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning's text, without the line of code that gave it."""
    from kvformat.connectors.cli._output import note

    note(f"warning: {message}")


class _Refused(click.ClickException):
    """An error of the library, shown as a message."""

    exit_code = 2

    def __init__(self, error: Exception, *, as_json: bool) -> None:
        super().__init__(str(error))
        self._error, self._as_json = error, as_json

    def show(self, file: Any = None) -> None:
        if not self._as_json:
            return super().show(file)
        parts = {name: getattr(self._error, name, None) for name in ("format", "option", "field")}
        told = {"error": self.message, "type": type(self._error).__name__}
        told |= {name: part for name, part in parts.items() if part is not None}
        from kvformat.connectors.cli._output import tell

        tell(told)
        return None


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from kvformat.connectors.cli._output import show
        from kvformat.registry.build import build_identity

        show(f"kvformat {build_identity()}")
        ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version, help="Show who this build is."
)
def _group() -> None:
    """Flink's Kafka formats on the command line: decode messages, explain tables, check an installation.

    Only `ingest` starts Spark, `schemas` if its checkpoint is on another machine, and `doctor` if it asks a cluster.
    """


def _show_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback, without control characters of a message that it may repeat."""
    from kvformat.connectors.cli._output import complain

    complain("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"))


def main() -> None:
    """Run the command of the process's arguments, and end the process."""
    sys.excepthook = _show_traceback
    _group(prog_name="kvformat", color=False if os.environ.get("NO_COLOR") else None)
