"""The command line's entry: parses arguments, runs one command, answers with an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from retcon import __version__
from retcon.cli import failures
from retcon.cli.terminals import Terminal
from retcon.errors import RetconError

_COMPLETION = "_RETCON_COMPLETE"


COMMANDS = {
    "init": "Write a small working project into a folder that is new or empty.",
    "check": "Check the project and list its models in running order.",
    "render": "Show the code that will run for a model.",
    "plan": "Plan a correction, and write the plan down for review.",
    "apply": "Run a plan: stage, prove, publish.",
    "load": "Load what changed: find it, stage it, prove it, publish it.",
    "diff": "Show old against new, slice by slice.",
    "sample": "Draw rows that differ, for a person to check against what they came from.",
    "rollback": "Undo a publish, for all of its tables in one step.",
    "pause": "Pause a run that isn't published, also one that another process runs.",
    "cancel": "Give up a run that isn't published, for good.",
    "sweep": "Drop branches, tags and old tables of runs whose retention is over.",
    "adopt": "Take over a table that exists, for the model of its name.",
    "migrate": "Compare a model computed slice by slice with its full refresh, before loads take over.",
    "doctor": "Compare the ledger with the tables, and explain what doesn't fit.",
    "reproduce": "Compute a run's slices once more, and compare them with its record.",
    "postmortem": "Write down how drift of MODEL came in, what it did to the figures, and what repairs it.",
    "watermarks": "Tell how far loads have consumed each input, or set that back.",
    "exceptions": "Show changes that are older than a model's window, or decide what becomes of them.",
    "schedule": "Tell when models are loaded on schedule, and whether they were.",
    "status": "Tell what is published, how fresh it is, and what is under way.",
    "history": "List the runs, newest first.",
    "show": "Tell everything about one run, or one model.",
    "demo": "Watch 90 days of wrong revenue being repaired.",
}
"""In the order of a correction, each with the first line of its help. A command is listed when it works, not before."""


class _Commands(TyperGroup):
    """Lists every command, and loads the one that is called: who calls one needn't wait for all."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name=name, help=help) for name, help in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and command_of(cast(str, name)), rest


def application() -> typer.Typer:
    """The command line."""
    app = typer.Typer(
        name="retcon",
        cls=_Commands,
        rich_markup_mode=None,  # plain help: it loads fast and reads well everywhere
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback(invoke_without_command=True)(_retcon)
    return app


def command_of(name: str) -> Any:
    """The command that is the function of this name, in the module of this name."""
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command()(getattr(import_module(f"retcon.cli.{name}"), name))
    return typer.main.get_command(alone)


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
    command = typer.main.get_command(application())
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
