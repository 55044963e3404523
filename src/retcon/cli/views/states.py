"""States of runs in words and colours."""

from __future__ import annotations

from rich.text import Text

from retcon.cli.views.parts import BAD, GOOD, QUIET, STRONG, WARN
from retcon.core.runs import RunState

_STYLES = {
    RunState.PUBLISHED: GOOD,
    RunState.FAILED: BAD,
    RunState.PAUSED: WARN,
    RunState.ROLLED_BACK: QUIET,
    RunState.CANCELLED: QUIET,
}


def state_text(state: RunState) -> Text:
    """`rolled back`, in the colour of how things stand."""
    return Text(state.value.replace("_", " "), style=_STYLES.get(state, STRONG))
