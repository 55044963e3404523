"""Where a command writes: its report to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import typer
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.text import Text

from retcon.cli.figures import Zone
from retcon.cli.streams import showable
from retcon.wiring import Workspace, find_root

_WIDTH = 120
"""Columns where the output goes to a file or a pipe."""

_WIDEST = 500
_VERSION = 1

Result = Mapping[str, Any]


class Terminal:
    """One call of the command line: its streams, and what of it later steps must know."""

    def __init__(self, *, command: str | None, as_json: bool) -> None:
        self.command = command
        self.as_json = as_json
        self.root: Path | None = None
        self._workspace: Workspace | None = None
        self.evidence: Result = {}
        """What a machine should get along with an error."""
        self.out = _fitted(_Report(file=showable(sys.stdout), highlight=False, markup=False, emoji=False))
        self.err = _fitted(_Aside(file=showable(sys.stderr), highlight=False, markup=False, emoji=False))

    def workspace(self, project: Path | None, environment: str | None = None, *, writes: bool = False) -> Workspace:
        """The project that the command is about: the folder given, else the one around here. For a command that writes,
        a ledger that an older retcon made is brought up to date, before anything is read from it.
        """
        self.root = find_root(Path.cwd()) if project is None else project.absolute()
        self._workspace = Workspace(self.root, environment=environment)
        if writes:
            self._workspace.ledger.bring_up_to_date()
        return self._workspace

    @property
    def env_option(self) -> str:
        """What another command needs to look at the same environment."""
        return self._workspace.env_option if self._workspace is not None else ""

    def close(self) -> None:
        """Let go of what the command opened."""
        if self._workspace is not None:
            self._workspace.close()

    def report(self, result: Callable[[], Result], view: Callable[[], RenderableType]) -> None:
        """What the command is for: one JSON document, or a view for people."""
        if self.as_json:
            self.document({"result": result()})
        else:
            self.show(view())

    def show(self, view: RenderableType) -> None:
        """A view on stdout; in a file or a pipe without the blanks that fill up columns."""
        self.out.width = max(self.out.width, _needed(view, self.out))
        if self.out.is_terminal:
            self.out.print(view)
            return
        with self.out.capture() as captured:
            self.out.print(view)
        for line in captured.get().splitlines():
            self.out.out(line.rstrip(), highlight=False)

    def document(self, body: Mapping[str, Any]) -> None:
        """The one JSON document of this call."""
        document = {"version": _VERSION, "command": self.command, **body}
        knows_all = (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
        sys.stdout.write(json.dumps(document, ensure_ascii=not knows_all, indent=2) + "\n")

    def say(self, text: str | Text) -> None:
        """A word beside the report, for the person who waits."""
        self.err.print(text, soft_wrap=not self.err.is_terminal)


def terminal_of(context: typer.Context, *, as_json: bool) -> Terminal:
    """The terminal that this call began with; now that its arguments are parsed, `--json` isn't guessed any more."""
    terminal = cast(Terminal, context.obj)
    terminal.as_json = as_json
    return terminal


def zone_of(workspace: Workspace) -> Zone:
    """The project's time zone."""
    return Zone(workspace.outline.settings.timezone)


class _Report(Console):
    """Where a report goes. Whoever closes the pipe has read enough, and the command ends."""

    def on_broken_pipe(self) -> None:
        # rich would end the whole process here, which isn't ours when we are called from another program
        raise BrokenPipeError


class _Aside(Console):
    """Words beside the report. Nobody needs to listen: a run goes on without."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


def _fitted(console: Console) -> Console:
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH
    return console


def _needed(view: RenderableType, console: Console) -> int:
    """Columns without which names and numbers would be cut; on a narrow terminal lines then go on in the next."""
    return Measurement.get(console, console.options.update(max_width=_WIDEST), view).minimum
