"""What can be asked of the ledger about models and runs. Nothing of what writes to it is loaded for that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property, partial
from pathlib import Path
from threading import local
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from retcon.core.runs import Tally
from retcon.ledger import exceptions, reading, watermarks
from retcon.ledger.faults import faults, what_breaks
from retcon.ledger.looks import Look
from retcon.ledger.pointers import is_catalog, pointer_of
from retcon.ledger.revisions import has_ledger, is_current, revision_of
from retcon.ledger.statements import Transaction

if TYPE_CHECKING:
    from retcon.core.adoption import Adoption
    from retcon.core.chains import RecordedEvent
    from retcon.core.events import Event
    from retcon.core.exceptions import LateEntry
    from retcon.core.profiles import ColumnProfile, ProfileEntry
    from retcon.core.runs import Consumed, PublishedSlice, RecordedSlice, RecordedVerdict, RecordedWave, Run
    from retcon.core.watermarks import Watermark

T = TypeVar("T")


class Database(Protocol):
    """Where a ledger lives."""

    @property
    def file(self) -> Path | None: ...
    def connect(self, *, is_look: bool) -> Transaction: ...
    def close(self) -> None: ...


class Questions:
    """The ledger of one catalog, to those who only read it. One that isn't there has nothing, and none is made."""

    def __init__(self, database: Database, catalog_name: str) -> None:
        self._database = database
        self._catalog_name = catalog_name
        self._has_catalog, self._has_ledger = False, False
        self._looking = local()

    @cached_property
    def _file(self) -> Path | None:
        return self._database.file

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()
        self._has_catalog, self._has_ledger = False, False

    @contextmanager
    def look(self) -> Iterator[None]:
        """Whatever this thread asks meanwhile is answered as of one moment, that of the first question, and it writes
        nothing. Not for long: the database keeps that moment for it.
        """
        if self._look is not None:
            yield
            return
        with closing(Look(partial(self._database.connect, is_look=True))) as self._looking.look:
            try:
                yield
            finally:
                del self._looking.look

    @property
    def _look(self) -> Look | None:
        """The one that this thread is at."""
        return getattr(self._looking, "look", None)

    def exists(self) -> bool:
        """Is there a ledger in the catalog's database?"""
        return self._ask(lambda look: look.answer(revision_of) is not None, otherwise=False)

    def pointer(self, table: str) -> str | None:
        """Where a table's newest metadata file is, of a catalog that lives in the same database."""

        def answer(look: Look) -> str | None:
            self._has_catalog = self._has_catalog or look.answer(is_catalog)
            where = partial(pointer_of, catalog=self._catalog_name, table_name=table)
            return look.answer(where) if self._has_catalog else None

        return self._ask(answer, otherwise=None)

    def run(self, run_id: str) -> Run | None:
        """One run."""
        return self._read(partial(reading.run, run_id=run_id), otherwise=None)

    def runs(self, *, model: str | None = None, limit: int | None = None) -> list[Run]:
        """Runs, newest first."""
        return self._read(partial(reading.runs, model=model, limit=limit), otherwise=[])

    def unfinished_runs(self) -> list[Run]:
        """Runs for which something is left to be done, newest first: of many years of them, a few."""
        return self._read(reading.unfinished_runs, otherwise=[])

    def waves(self, run_id: str) -> list[RecordedWave]:
        """The waves of a run, by model, counted from 1."""
        return self._read(partial(reading.waves, run_id=run_id), otherwise=[])

    def slices(self, run_id: str, model: str | None = None) -> list[RecordedSlice]:
        """The slices of a run, by model."""
        return self._read(partial(reading.slices, run_id=run_id, model=model), otherwise=[])

    def tallies(self, run_ids: Sequence[str]) -> dict[str, Tally]:
        """How far each of these runs is."""
        nothing = {run_id: Tally() for run_id in run_ids}
        return self._read(partial(reading.tallies, run_ids=tuple(run_ids)), otherwise=nothing)

    def verdicts(self, run_id: str) -> list[RecordedVerdict]:
        """The verdicts on a run that hold for what is staged now."""
        return self._read(partial(reading.verdicts, run_id=run_id), otherwise=[])

    def profiles(self, run_id: str) -> list[ProfileEntry]:
        """What columns looked like when the run was proven, over all its slices together."""
        return self._read(partial(reading.profiles, run_id=run_id), otherwise=[])

    def slice_profiles(self, model: str) -> dict[str, dict[str, ColumnProfile]]:
        """Per slice of a model, what each column looked like when its newest publish that stands was proven."""
        return self._read(partial(reading.slice_profiles, model=model), otherwise={})

    def events(self, run_id: str, *, kind: type[Event] | None = None) -> list[RecordedEvent]:
        """The chain of a run; or of it, the events of one kind."""
        return self._read(partial(reading.events, run_id=run_id, kind=kind), otherwise=[])

    def consumption(self, run_id: str) -> list[Consumed]:
        """What a run's published slices were computed from."""
        return self._read(partial(reading.consumption, run_id=run_id), otherwise=[])

    def code(self, run_id: str) -> Mapping[str, str]:
        """The code that a run was opened with, by model."""
        return self._read(partial(reading.code, run_id=run_id), otherwise={})

    def published_slices(self, model: str, slices: Collection[str] | None = None) -> dict[str, PublishedSlice]:
        """Per slice of a model, the newest publish that stands; of these, where they are given."""
        return self._read(partial(reading.published_slices, model=model, slices=_words(slices)), otherwise={})

    def empty_slices(self, model: str) -> tuple[str, ...]:
        """Slices of a model whose newest publish that stands has no rows."""
        return tuple(row.slice for row in self._bare_slices(model) if row.checksum is not None)

    def unmeasured_slices(self, model: str) -> tuple[str, ...]:
        """Slices of a model whose newest publish that stands is known from the tables alone."""
        return tuple(row.slice for row in self._bare_slices(model) if row.checksum is None)

    def _bare_slices(self, model: str) -> Sequence[Any]:
        return self._read(partial(reading.bare_slices, model=model), otherwise=())

    def last_published(self, models: Sequence[str]) -> dict[str, Run]:
        """Per model, the run of its newest publish that stands."""
        return self._read(partial(reading.last_published, models=tuple(models)), otherwise={})

    def standing_consumption(self, model: str, slices: Collection[str] | None = None) -> dict[str, dict[str, Consumed]]:
        """Per slice of a model, what its newest publish that stands was computed from, by input; of these, where they
        are given.
        """
        question = partial(reading.standing_consumption, model=model, slices=_words(slices))
        return self._read(question, otherwise={}, keeps=False)

    def standing_runs(self, model: str) -> dict[str, str]:
        """Per slice of a model, the run of its newest publish that stands."""
        return self._read(partial(reading.standing_runs, model=model), otherwise={})

    def standing_code(self, model: str) -> dict[str, str]:
        """Per slice of a model, the fingerprints of code and settings that made its newest publish that stands."""
        return self._read(partial(reading.standing_code, model=model), otherwise={}, keeps=False)

    def published_snapshots(self, model: str) -> dict[str, int]:
        """The snapshot that each publish of a model that stands made, oldest first."""
        return self._read(partial(reading.published_snapshots, model=model), otherwise={})

    def held_slices(self, model: str) -> frozenset[str]:
        """Slices of a model whose newest publish was undone: left alone until a new plan."""
        return self._read(partial(reading.held_slices, model=model), otherwise=frozenset())

    def watermarks(self) -> dict[tuple[str, str], Watermark]:
        """How far loads have consumed each input, by model and input."""
        return watermarks.standing(self._read(watermarks.newest, otherwise=()))

    def watermark_moves(self, model: str) -> list[Watermark]:
        """Where a model's watermarks have been, oldest first."""
        return self._read(partial(watermarks.moves, model=model), otherwise=[])

    def consumption_before(self, run_id: str, model: str) -> dict[str, dict[str, Consumed]]:
        """Per slice of a model, what it was computed from when this run replaced it, or would."""
        return self._read(partial(reading.consumption_before, run_id=run_id, model=model), otherwise={})

    def runs_before(self, run_id: str, model: str) -> dict[str, str]:
        """Per slice of a model, the run that made it as it was when this run replaced it, or would."""
        return self._read(partial(reading.runs_before, run_id=run_id, model=model), otherwise={})

    def movements(self) -> Mapping[tuple[str, str], int]:
        """The newest movement of each watermark, by model and input: those of one that is unset count, too."""
        return watermarks.movements(self._read(watermarks.newest, otherwise=()))

    def adoption(self, model: str) -> Adoption | None:
        """The newest adoption of a table by this model."""
        return self.adoptions().get(model)

    def adoptions(self) -> dict[str, Adoption]:
        """Per model, the newest adoption of a table."""
        return self._read(reading.adoptions, otherwise={})

    def exceptions(self, *, only_open: bool = True) -> list[LateEntry]:
        """Late changes: those that wait for somebody to decide, or all."""
        return self._read(partial(exceptions.every, only_open=only_open), otherwise=[])

    def newest_exceptions(self, model: str) -> dict[str, LateEntry]:
        """Per slice of a model, the last late change that was recorded."""
        return self._read(partial(exceptions.newest, model=model), otherwise={})

    def _read(self, question: Callable[[Transaction], T], *, otherwise: T, keeps: bool = True) -> T:
        """`keeps`: a look remembers the answer."""

        def answer(look: Look) -> T:
            if not look.answer(self._is_ready):
                return otherwise
            return look.answer(question) if keeps else look.ask(question)

        return self._ask(answer, otherwise)

    def _is_ready(self, connection: Transaction) -> bool:
        # Somebody may bring it up to date at any moment; that it is there is looked up once.
        self._has_ledger = self._has_ledger or has_ledger(connection)
        try:
            return self._has_ledger and is_current(connection)
        except what_breaks():
            self._has_ledger = False  # somebody may have taken it away
            raise

    def _ask(self, ask: Callable[[Look], T], otherwise: T) -> T:
        if self._file is not None and not self._file.exists():
            self._has_ledger = False
            return otherwise
        with faults("the ledger was only read"):
            if self._look is not None:
                return ask(self._look)
            with closing(Look(partial(self._database.connect, is_look=False))) as look:
                return ask(look)


def _words(slices: Collection[str] | None) -> tuple[str, ...] | None:
    return None if slices is None else tuple(slices)
