"""How far a run is, while it runs: a live line on a terminal, now and then a plain line elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic

from rich.console import Console
from rich.live import Live
from rich.text import Text

from retcon.cli.figures import count, counted, duration
from retcon.flow.ports import Progress, Watch
from retcon.values import dataclass

_VERBS = {
    "open": ("opening", "opened"),
    "stage": ("staging", "staged"),
    "rebase": ("others wrote meanwhile", "rebased"),
    "prove": ("proving", "proven"),
    "canary": ("trying slices", "tried"),
    "compare": ("computing whole", "compared"),
    "compare rows": ("comparing rows", "compared the rows of"),
    "trace": ("looking for input rows", "looked for rows of"),
    "attribute": ("trying old and new", "tried"),
    "publish": ("publishing", "published"),
    "certify": ("comparing manifests", "certified"),
    "check": ("judging production", "judged in production"),
    "reproduce": ("computing again", "computed again"),
    "copy": ("copying back", "copied back"),
    "files": ("looking for", "looked for"),
}
_UNITS = {
    "stage": "slice",
    "canary": "slice",
    "compare": "slice",
    "compare rows": "slice",
    "trace": "input",
    "attribute": "slice",
    "reproduce": "slice",
    "copy": "slice",
    "files": "file",
}
_BAR = 24
_EVERY = 5.0
"""Seconds between two plain lines of one step."""

Seconds = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class StepState:
    """One step of a run, as far as it was told."""

    progress: Progress
    began: float
    done_before: int
    """What was done when this call began: a resumed run goes on."""

    def speed(self, now: float) -> float | None:
        """Slices (or tables) a second; None as long as there is nothing to tell it by."""
        fresh = self.progress.done - self.done_before
        seconds = now - self.began
        return fresh / seconds if fresh > 0 and seconds > 0 else None

    def seconds_left(self, now: float) -> float | None:
        speed = self.speed(now)
        return (self.progress.total - self.progress.done) / speed if speed else None

    def rows_a_second(self, now: float) -> int | None:
        seconds = now - self.began
        return round(self.progress.rows / seconds) if self.progress.rows and seconds > 0 else None

    @property
    def is_done(self) -> bool:
        return 0 < self.progress.total <= self.progress.done


def followed(before: StepState | None, progress: Progress, now: float) -> StepState:
    """The state after one more word of progress."""
    if before is None or before.progress.step != progress.step:
        return StepState(progress=progress, began=now, done_before=progress.done)
    return replace(before, progress=progress)


def line(state: StepState, now: float, *, bar: bool) -> Text:
    """One line that says where the step stands."""
    progress = state.progress
    text = Text(_VERBS.get(progress.step, (progress.step, ""))[0])
    if bar and progress.total:
        text.append("  ").append_text(_bar(progress.done, progress.total))
    if progress.total:
        text.append(f"  {count(progress.done)}/{counted(progress.total, _UNITS.get(progress.step, 'table'))}")
    rows = state.rows_a_second(now)
    if rows is not None:
        text.append(f"  {count(rows)} rows/s")
    left = state.seconds_left(now)
    if left is not None and not state.is_done:
        text.append(f"  about {duration(left)} left")
    for more in (progress.model, progress.note):
        text.append(f"  {more}" if more else "", style="dim")
    return text


def closing_line(state: StepState, now: float) -> Text | None:
    """What stays on the screen when a step is over."""
    progress = state.progress
    if not state.is_done:
        return None
    what = counted(progress.total, _UNITS.get(progress.step, "table"))
    rows = f", {counted(progress.rows, 'row')}" if progress.rows else ""
    speed = state.rows_a_second(now)
    rate = f" ({count(speed)} rows/s)" if speed is not None else ""
    verb = _VERBS.get(progress.step, ("", progress.step))[1]
    return Text.assemble(("✓ ", "green"), f"{verb} {what}{rows} in {duration(now - state.began)}{rate}")


def _bar(done: int, total: int) -> Text:
    full = _BAR * done // total
    return Text.assemble(("█" * full, "green"), ("─" * (_BAR - full), "dim"))


@contextmanager
def watching(console: Console, clock: Seconds = monotonic) -> Iterator[Watch]:
    """Shows the progress of a run on this console for as long as the block lasts."""
    if console.is_terminal and not console.is_dumb_terminal and not console.no_color:
        watch = _LiveLine(console, clock)
        with watch.live:
            yield watch
            watch.close()
    else:
        plain = _PlainLines(console, clock)
        yield plain
        plain.close()


class _LiveLine:
    """One line that is drawn again and again, below the lines of steps that are over."""

    def __init__(self, console: Console, clock: Seconds) -> None:
        self._console = console
        self._clock = clock
        self._state: StepState | None = None
        self.live = Live(
            console=console,
            get_renderable=self._draw,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __call__(self, progress: Progress) -> None:
        if self._state is not None and self._state.progress.step != progress.step:
            self.close()
        self._state = followed(self._state, progress, self._clock())

    def close(self) -> None:
        """Leave the line of a step that is over."""
        if self._state is not None:
            closing = closing_line(self._state, self._clock())
            if closing is not None:
                self._console.print(closing)
            self._state = None

    def _draw(self) -> Text:
        drawn = Text() if self._state is None else line(self._state, self._clock(), bar=True)
        drawn.no_wrap, drawn.overflow = True, "ellipsis"
        return drawn


class _PlainLines:
    """A line when a step or its model changes, else one every few seconds."""

    def __init__(self, console: Console, clock: Seconds) -> None:
        self._console = console
        self._clock = clock
        self._state: StepState | None = None
        self._told: tuple[str, str] | None = None
        self._told_at = 0.0

    def __call__(self, progress: Progress) -> None:
        now = self._clock()
        if self._state is not None and self._state.progress.step != progress.step:
            self.close()
        self._state = followed(self._state, progress, now)
        about = (progress.step, progress.model)
        if (about != self._told or now - self._told_at >= _EVERY) and not self._state.is_done:
            self._console.print(line(self._state, now, bar=False), soft_wrap=True)
            self._told, self._told_at = about, now

    def close(self) -> None:
        if self._state is not None:
            closing = closing_line(self._state, self._clock())
            if closing is not None:
                self._console.print(closing, soft_wrap=True)
            self._state = None
