"""`retcon schedule`: when models are loaded, and whether they were; or stay, and load them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder, Select
from retcon.cli.failures import tell
from retcon.cli.schedule_results import schedule_result
from retcon.cli.terminals import Terminal, terminal_of, zone_of
from retcon.cli.views.schedules import schedule_view
from retcon.core.schedules import Standing, schedules_of, without_claims_of
from retcon.errors import BadArguments, Refused, RetconError
from retcon.flow.schedule import watch as stay
from retcon.processes import is_gone

_NEXT = 3


def schedule(
    context: typer.Context,
    select: Select = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and load what is due when it is due; Ctrl-C ends it.")
    ] = False,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Tell when models are loaded on schedule, and whether they were.

    SELECT narrows the models. Per `schedule` and `replay.deep`: its cron, the last of its times that came, the last
    that is done, and the next three, in the project's time zone. With --watch it stays and calls `retcon load --due`
    whenever something is due; a load that fails is told, and tried again at the model's next time.

    \b
    Example:
      retcon schedule --watch
    """
    terminal = terminal_of(context, as_json=as_json)
    if watch and as_json:
        raise BadArguments("--watch doesn't end with a report", next="leave out --json, or --watch")
    chosen = tuple(select or ())
    if watch:
        _Watch(terminal, chosen, project, env).stay()
        return
    workspace = terminal.workspace(project, env)
    names = workspace.outline.graph.select(chosen)
    found, _ = without_claims_of(workspace.schedules.standing(names, workspace.clock(), coming=_NEXT), is_gone)
    zone = zone_of(workspace)
    terminal.report(lambda: schedule_result(found, zone.name), lambda: schedule_view(found, zone))


class _Watch:
    """Looks at the project anew every time, and leaves each load to a process of its own: files may be edited
    meanwhile, and Spark takes nothing while nothing is due.
    """

    def __init__(
        self, terminal: Terminal, select: tuple[str, ...], project: Path | None, environment: str | None
    ) -> None:
        self._terminal = terminal
        self._select = select
        self._project = project
        self._environment = environment
        self._told = ""

    def stay(self) -> None:
        workspace = self._terminal.workspace(self._project, self._environment, writes=True)
        graph = workspace.outline.graph
        if not any(schedules_of(graph.models[name]) for name in graph.select(self._select)):
            raise Refused("none of these models has a schedule", next='write `schedule: "0 4 * * *"` among its keys')
        stay(self._look, self._load, workspace.clock, time.sleep)

    def _look(self) -> Sequence[Standing]:
        workspace = self._terminal.workspace(self._project, self._environment)
        try:
            names = workspace.outline.graph.select(self._select)
            standing = workspace.schedules.standing(names, workspace.clock(), coming=1)
            zone = zone_of(workspace)
        except RetconError as error:
            # A file that is being edited, or a database that is away: it may be right again the next time.
            if self._is_new(error.message):
                tell(error, self._terminal)
            return []
        finally:
            workspace.close()
        found, _ = without_claims_of(standing, is_gone)
        coming = min(((each.coming[0], each.model) for each in found if each.coming), default=None)
        told = "no model has a schedule" if coming is None else f"next is {coming[1]} at {zone.named(coming[0])}"
        if self._is_new(told):
            self._terminal.say(told)
        return found

    def _load(self, due: Sequence[Standing]) -> bool:
        names = tuple(dict.fromkeys(each.model for each in due))
        self._terminal.say(f"due: {', '.join(names)}")
        command = [sys.executable, "-m", "retcon", "load", "--due", *names, "--project", str(self._terminal.root)]
        code = _called([*command, "--env", self._environment] if self._environment is not None else command)
        if code:
            self._terminal.say(f"that load ended with code {code}; the next one is at the next time of its schedule")
        return code == 0

    def _is_new(self, told: str) -> bool:
        was, self._told = self._told, told
        return told != was


def _called(command: Sequence[str]) -> int:
    """Run this; Ctrl-C is passed on, and waited for: a load pauses where it is."""
    # In a group of its own, so that it hears of it once.
    child = subprocess.Popen(command, process_group=0)
    is_interrupted = False
    while child.returncode is None:
        try:
            child.wait()
        except KeyboardInterrupt:
            is_interrupted = True
            child.send_signal(signal.SIGINT)
    if is_interrupted:  # a load that somebody else paused, or cancelled, ends with the same code
        raise KeyboardInterrupt
    return child.returncode
