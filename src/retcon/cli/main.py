"""The command line's entry: parses arguments, runs one command, answers with an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Annotated, cast

import typer

from retcon import __version__
from retcon.cli import failures
from retcon.cli.terminals import Terminal
from retcon.errors import RetconError

_COMPLETION = "_RETCON_COMPLETE"


COMMANDS = (
    "init",
    "check",
    "render",
    "plan",
    "apply",
    "load",
    "diff",
    "sample",
    "rollback",
    "pause",
    "cancel",
    "sweep",
    "adopt",
    "migrate",
    "doctor",
    "reproduce",
    "postmortem",
    "watermarks",
    "exceptions",
    "schedule",
    "status",
    "history",
    "show",
    "demo",
)
"""In the order of a correction. A command is registered when it works, not before."""


def application(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """The command line with these commands."""
    app = typer.Typer(
        name="retcon",
        rich_markup_mode=None,  # plain help: it loads fast and reads well everywhere
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback(invoke_without_command=True)(_retcon)
    for name in names:
        app.command()(_command(name))
    return app


def _command(name: str) -> Callable[..., None]:
    """The function of this name in the module of this name; who calls one command needn't wait for all."""
    return cast(Callable[..., None], getattr(import_module(f"retcon.cli.{name}"), name))


def _retcon(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False
) -> None:
    """Rewrite the history of Spark + Iceberg tables: plan, stage, prove, publish in one atomic step, roll back.

    Start with `retcon init shop`, or read docs/reference/cli.md.
    """
    if version:
        typer.echo(f"retcon {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; may be called again and again in one process."""
    if _COMPLETION in os.environ and argv is None:
        application()(prog_name="retcon")  # the shell asks what could follow; never returns
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = next((word for word in arguments if not word.startswith("-")), None)
    terminal = Terminal(command=name, as_json="--json" in arguments)
    try:
        code = _answered(arguments, terminal)
        sys.stdout.flush()
    except BrokenPipeError:
        _let_go_of_stdout()
        return 0
    finally:
        terminal.close()
    return code


def _answered(arguments: list[str], terminal: Terminal) -> int:
    try:
        return _invoked(arguments, terminal)
    except RetconError as error:
        return failures.tell(error, terminal)
    except typer.TyperException as error:
        return failures.tell(failures.usage_error(error), terminal)
    except (KeyboardInterrupt, typer.Abort):
        return failures.tell(failures.interrupted(terminal), terminal)
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get("RETCON_DEBUG"):
            raise
        return failures.tell(failures.unexpected(error, terminal), terminal)


def _invoked(arguments: list[str], terminal: Terminal) -> int:
    # Not through typer's own main: it would answer errors and interrupts itself, and swap the process's streams.
    first = next(iter(arguments), None)
    command = typer.main.get_command(application([first] if first in COMMANDS else COMMANDS))
    try:
        with command.make_context("retcon", arguments, obj=terminal) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    return 0


def _let_go_of_stdout() -> None:
    """Whoever read our output went away: let nothing fail on what is still buffered."""
    with suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
        # a stream without a descriptor has nothing buffered for one
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
