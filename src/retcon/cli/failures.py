"""Errors, told: what happened, what state things are in, what to do next."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from retcon.cli.figures import counted
from retcon.cli.terminals import Terminal
from retcon.errors import BadArguments, Fault, Interrupted, ProjectInvalid, RetconError


def tell(error: RetconError, terminal: Terminal) -> int:
    """Tell an error that retcon raised on purpose; returns its exit code."""
    if terminal.as_json:
        terminal.document({"error": {**_result(error), **terminal.evidence}})
    for line in _lines(error):
        terminal.say(line)
    return error.exit_code


def _result(error: RetconError) -> dict[str, Any]:
    told: dict[str, Any] = {"code": error.code, "message": error.message, "state": error.state, "next": error.next}
    if isinstance(error, ProjectInvalid):
        told["problems"] = [asdict(problem) for problem in error.problems]
    return told


def _lines(error: RetconError) -> Iterator[Text]:
    if isinstance(error, ProjectInvalid):
        yield _labelled("error", "bold red", f"{counted(len(error.problems), 'problem')} in the project")
        for problem in error.problems:
            yield Text(f"{problem.where}: {problem.message}")
            if problem.remedy:
                yield Text(f"    {problem.remedy}", style="dim")
        return
    label, style = ("stopped", "bold yellow") if isinstance(error, Interrupted) else ("error", "bold red")
    yield _labelled(label, style, error.message)
    if error.state:
        yield _labelled("state", "dim", error.state)
    if error.next:
        yield _labelled("next", "bold", error.next)


def _labelled(label: str, style: str, text: str) -> Text:
    return Text.assemble((f"{label}:".ljust(7), style), text)


def usage_error(error: typer.TyperException) -> BadArguments:
    """An error of the parser in retcon's own words."""
    # typer keeps its kinds of errors to itself: most know the command, one the options that are spelt alike
    context, alike = getattr(error, "ctx", None), getattr(error, "possibilities", None)
    said = (error.message if alike else error.format_message()).replace("'", "`").replace("Value error, ", "")
    message, _, guess = " ".join(said.split()).partition(". Did you mean ")
    message = (message[:1].lower() + message[1:]).rstrip(".")
    if alike or guess:
        return BadArguments(message, next=f"did you mean {' or '.join(alike) + '?' if alike else guess}")
    return BadArguments(message, next=f"`{context.command_path if context else 'retcon'} --help` tells more")


def interrupted(terminal: Terminal) -> Interrupted:
    """Ctrl-C where no step could say more."""
    return Interrupted("interrupted at the keyboard", next=_standing(terminal))


def _standing(terminal: Terminal) -> str:
    return f"`retcon status{terminal.env_option}` tells where things stand"


def unexpected(error: Exception, terminal: Terminal) -> Fault:
    """What nobody foresaw: a short message, and the traceback where it can be found."""
    told = "".join(traceback.format_exception(error))
    log = _logged(told, terminal.root)
    if log is None:
        terminal.say(told.rstrip())
    shown = str(error).strip().splitlines() or [""]
    return Fault(
        f"something unforeseen: {type(error).__name__}: {shown[0]}"[:400],
        state=f"what was under way may be unfinished; {_standing(terminal)}",
        next=f"the traceback is in {log}; please report it" if log else "please report it with the traceback above",
    )


def _logged(text: str, root: Path | None) -> Path | None:
    if root is None or not (root / "retcon.yaml").is_file():
        return None
    log = root / ".retcon" / "logs" / f"error-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(text, encoding="utf-8")
    except OSError:
        return None
    return log
