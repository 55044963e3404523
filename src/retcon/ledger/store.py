"""The ledger: what was planned, done, judged and published, in the catalog's own database."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import TypeVar, get_args

from sqlalchemy import Connection, Engine, insert
from sqlalchemy.exc import DBAPIError

from retcon.core.adoption import Adoption
from retcon.core.events import Event, Published, PublishRefused, Rebuilt, RolledBack, RunOpened
from retcon.core.exceptions import Decision, LateChange, LateEntry
from retcon.core.hooks import Delivery
from retcon.core.intents import Intent
from retcon.core.leases import Driver, Lease, StopRequest
from retcon.core.overlaps import InTheWay, require_nobody_in_the_way
from retcon.core.plans import Plan
from retcon.core.pointers import PointerSwap
from retcon.core.runs import Run
from retcon.core.schedules import Kind, Turn
from retcon.core.watermarks import Advance
from retcon.errors import Refused
from retcon.fault_points import FaultPoint
from retcon.ledger import chain, deciding, deliveries, leases, moving, outbox, overlapping, reading, schedules
from retcon.ledger.chain import Link
from retcon.ledger.deliveries import Hooks
from retcon.ledger.engines import Alchemy, writing
from retcon.ledger.faults import fault_of, faults
from retcon.ledger.projecting import insert_lost_run, insert_run, write_event
from retcon.ledger.questions import Questions
from retcon.ledger.revisions import REVISIONS, is_ready, require_known, revision_of
from retcon.ledger.schema import ADOPTIONS
from retcon.ledger.sqlite_files import make_file
from retcon.ledger.swapping import swap_pointers
from retcon.values import dataclass

T = TypeVar("T")

_NOTHING_RECORDED = "nothing was recorded, every table is as it was"
_UNKNOWN_OUTCOME = "the database didn't say whether it took the last step; its record decides"
_MIGRATED, _ADOPTED, _LEASED = FaultPoint("ledger migrated"), FaultPoint("adoption recorded"), FaultPoint("lease taken")
_MOVED, _DECIDED = FaultPoint("watermarks moved"), FaultPoint("exceptions decided")
_CLAIMED, _ENDED = FaultPoint("schedules claimed"), FaultPoint("end of schedules recorded")
_DELIVERED = FaultPoint("delivery recorded")
_INTENDED, _WITHDRAWN = FaultPoint("intent recorded"), FaultPoint("intent withdrawn")
_SWAPPED = FaultPoint("pointers swapped, COMMIT not sent")
_RECORDED = {kind: FaultPoint(f"{kind.__name__} recorded") for kind in get_args(Event)}


@dataclass(frozen=True, kw_only=True)
class _Written:
    """What a transaction is about to commit."""

    run: Run
    link: Link | None
    """None where everything was there already."""


class SqlLedger(Questions):
    """The ledger of one catalog: what can be asked of it, who is at work, and everything that is written."""

    def __init__(
        self, uri: str, catalog_name: str, *, migrate: Callable[[Engine], None], hooks: Hooks | None = None
    ) -> None:
        self._alchemy = Alchemy(uri)
        super().__init__(self._alchemy, catalog_name)
        self._hooks = hooks or {}
        self._migrate = migrate
        weakref.finalize(self, self._alchemy.close)

    @property
    def _engine(self) -> Engine:
        return self._alchemy.engine

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def turns(self) -> dict[tuple[str, Kind], Turn]:
        """What is on record about schedules, by model and kind."""
        return self._read(schedules.turns, otherwise={})

    def undelivered(self) -> list[Delivery]:
        """Movements that hooks weren't told of yet, oldest first."""
        return self._read(deliveries.undelivered, otherwise=[])

    def last_delivered(self) -> dict[str, datetime]:
        """When each hook was told of a movement last."""
        return self._read(deliveries.last_delivered, otherwise={})

    def in_the_way(self, plan: Plan) -> list[InTheWay]:
        """Runs under way that write slices of this plan, oldest first."""
        return self._read(lambda connection: overlapping.in_the_way(connection, plan), otherwise=[])

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def prepare(self) -> None:
        """Make the ledger, or bring it up to date; to be called before writing."""
        self._require_no_look()
        with faults("the ledger is as it was"):
            if self._file is not None:
                make_file(self._file)
            with self._engine.connect() as connection:
                revision = revision_of(connection)
            require_known(revision)
            if revision != REVISIONS[-1]:
                with _MIGRATED:
                    self._migrate(self._engine)

    def bring_up_to_date(self) -> None:
        """The same for a ledger that is there; none is made."""
        if self.exists():
            self.prepare()

    def adopt(self, adoption: Adoption) -> None:
        """Record that a model took over a table."""
        row = {
            "model": adoption.model,
            "uuid": adoption.uuid,
            "snapshot_id": adoption.snapshot_id,
            "grain": str(adoption.slices.grain),
            "slices": adoption.slices.text,
            "who": adoption.who,
            "at": adoption.at,
            "reason": adoption.reason,
        }
        with _ADOPTED, faults(_NOTHING_RECORDED), self._writing().begin() as connection:
            _require_ledger(connection)
            connection.execute(insert(ADOPTIONS).values(row))

    def decide(
        self,
        entries: Sequence[LateEntry],
        decision: Decision,
        *,
        run: str | None = None,
        at: datetime,
        by: str,
        reason: str,
    ) -> None:
        """Record who decided what of late changes, and why: all of them or none."""
        with _DECIDED, faults(_NOTHING_RECORDED), self._writing().begin() as connection:
            _require_ledger(connection)
            deciding.decide(connection, entries, decision, run=run, at=at, by=by, reason=reason)

    def move_watermarks(
        self,
        advances: Sequence[Advance],
        late: Sequence[LateChange] = (),
        *,
        is_set: bool,
        why: str,
        at: datetime,
        who: str,
    ) -> None:
        """Set watermarks, or unset them, without a run; and note what they pass that is too old."""
        with _MOVED, faults(_NOTHING_RECORDED), self._writing().begin() as connection:
            _require_ledger(connection)
            moved = moving.move(connection, advances, at=at, who=who, why=why, is_set=is_set)
            deciding.record(connection, late, at=at)
            deliveries.put_after(connection, self._hooks, moved)

    def record_delivery(self, delivery: Delivery, *, at: datetime, error: str | None) -> None:
        """What came of telling a hook of a movement; without an error, it was taken."""
        with _DELIVERED, faults(_NOTHING_RECORDED), self._writing().begin() as connection:
            deliveries.record(connection, delivery, at=at, error=error)

    def claim_schedules(
        self,
        due: Mapping[tuple[str, Kind], datetime],
        driver: Driver,
        *,
        claim: str,
        over: Sequence[str] = (),
        seconds: float,
    ) -> list[tuple[str, Kind]]:
        """Take these times of schedules; those that this process got: the others are done, or another process is at
        them by a claim that isn't among those to be taken over.
        """
        with _CLAIMED, faults(_NOTHING_RECORDED), self._writing().begin() as connection:
            _require_ledger(connection)
            return schedules.take(connection, due, driver, claim=claim, over=over, seconds=seconds)

    def renew_claim(self, claim: str, *, seconds: float) -> bool:
        """Let a claim end later; False where other processes have taken all of it over."""
        with faults(_NOTHING_RECORDED), self._writing().begin() as connection:
            return schedules.extend(connection, claim, seconds=seconds)

    def end_claim(
        self, claim: str, *, at: datetime, trouble: str = "", troubles: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """The times that were taken are done, unless there was trouble, with all or some models: then they are free."""
        with _ENDED, faults(_NOTHING_RECORDED), self._writing().begin() as connection:
            for model, reason in troubles.items():
                schedules.end(connection, claim, at=at, trouble=reason, model=model)
            schedules.end(connection, claim, at=at, trouble=trouble)

    def open_run(self, plan: Plan, opened: RunOpened, *, at: datetime, who: str) -> Run:
        """The run of a plan: the one that is there, else a new one; refused where another one is in its way."""

        def open_it(connection: Connection) -> _Written:
            overlapping.queue(connection)
            link = None
            if reading.run(connection, plan.id) is None:
                if not plan.request.force:
                    require_nobody_in_the_way(
                        overlapping.in_the_way(connection, plan),
                        state="nothing was run",
                        force=f"`retcon plan --refresh backfills/{plan.id}.yaml --force`",
                    )
                link = insert_run(connection, plan, opened, at=at, who=who)
            return _Written(run=_required(reading.run(connection, plan.id), plan.id), link=link)

        with _RECORDED[RunOpened]:
            return self._write(open_it)

    def lease(self, run_id: str) -> Lease | None:
        """The lease on a run that hasn't run out."""
        return self._read(partial(leases.standing, run_id=run_id), otherwise=None)

    def take_lease(self, run_id: str, driver: Driver, *, over: int | None, seconds: float) -> int | None:
        """The token of a new lease; None where a process holds one, other than the one that is taken over from."""
        with _LEASED, faults(_NOTHING_RECORDED), self._writing().begin() as connection:
            _required(reading.locked_run(connection, run_id), run_id)
            held = leases.standing(connection, run_id)
            if held is not None and held.token != over:
                return None
            return leases.take(connection, run_id, driver, seconds=seconds)

    def renew_lease(self, run_id: str, token: int, *, seconds: float) -> bool:
        """Let a lease end later, or now; False where another process has taken over."""
        with faults(_NOTHING_RECORDED), self._writing().begin() as connection:
            return leases.extend(connection, run_id, token, seconds=seconds)

    def ask_to_stop(self, run_id: str, token: int, request: StopRequest) -> bool:
        """Ask the driver of this lease to stop; False where its turn is over."""
        with faults(_NOTHING_RECORDED), self._writing().begin() as connection:
            return leases.ask(connection, run_id, token, request)

    def record(self, run_id: str, event: Event, *, at: datetime, who: str, fence: int | None = None) -> Run:
        """Write down what happened to a run, and carry it through to all that is asked about runs."""
        if isinstance(event, RunOpened | Published | RolledBack | Rebuilt):
            raise ValueError(f"{type(event).__name__} is recorded by a method of its own")
        with _RECORDED[type(event)]:
            return self._write(lambda connection: _written(connection, run_id, event, fence, at=at, who=who))

    def intent(self, run_id: str) -> Intent | None:
        """What the catalog was asked for and isn't recorded yet."""
        return self._read(partial(outbox.read, run_id=run_id), otherwise=None)

    def intend(self, intent: Intent, *, at: datetime, who: str, fence: int | None = None) -> None:
        """Write down what the catalog is about to be asked for, if this driver still drives the run."""
        with _INTENDED, faults(_NOTHING_RECORDED), self._writing().begin() as connection:
            run = _required(reading.locked_run(connection, intent.run), intent.run)
            leases.require_fence(connection, intent.run, fence)
            outbox.put(connection, run, intent, at=at, who=who)

    def withdraw(self, run_id: str, why: str, *, at: datetime, who: str, fence: int | None = None) -> Run:
        """Give up what the catalog was asked for and can't take any more; a publish is sent back."""

        def take_out(connection: Connection) -> _Written:
            run = _required(reading.locked_run(connection, run_id), run_id)
            intent = outbox.read(connection, run_id)
            outbox.take_out(connection, run_id)
            if intent is not None and intent.is_publish:
                return _written(connection, run_id, PublishRefused(why=why), fence, at=at, who=who)
            leases.require_fence(connection, run_id, fence)
            return _Written(run=run, link=None)

        with _WITHDRAWN:
            return self._write(take_out)

    def publish(
        self,
        run_id: str,
        event: Published,
        swaps: Sequence[PointerSwap],
        *,
        at: datetime,
        who: str,
        fence: int | None = None,
    ) -> Run:
        """Make a run visible: pointers, consumption and the record in one transaction, all or nothing, once.

        Without swaps it is the record of what a catalog did that commits by itself.
        """
        return self._swap(run_id, event, swaps, fence, at=at, who=who)

    def roll_back(
        self,
        run_id: str,
        event: RolledBack,
        swaps: Sequence[PointerSwap],
        *,
        at: datetime,
        who: str,
        fence: int | None = None,
    ) -> Run:
        """Undo a publish the way it was made: all or nothing, once."""
        return self._swap(run_id, event, swaps, fence, at=at, who=who)

    def rebuild(self, plan: Plan, event: Rebuilt, *, at: datetime, who: str, fence: int | None = None) -> Run:
        """Record what the tables know of a run and the ledger doesn't; a run that it lost altogether is made."""

        def rebuild_it(connection: Connection) -> _Written:
            overlapping.queue(connection)
            if reading.run(connection, plan.id) is None:
                insert_lost_run(connection, plan, at=at, who=who)
            written = _written(connection, plan.id, event, fence, at=at, who=who)
            deliveries.put_of_run(connection, self._hooks, plan.id, at)
            return written

        with _RECORDED[Rebuilt]:
            return self._write(rebuild_it)

    def _swap(
        self,
        run_id: str,
        event: Published | RolledBack,
        swaps: Sequence[PointerSwap],
        fence: int | None,
        *,
        at: datetime,
        who: str,
    ) -> Run:
        if any(event.snapshots.get(swap.table) != swap.snapshot_id for swap in swaps):
            raise ValueError(f"the record of run {run_id} must name the snapshots that its tables move to")

        def swap_and_record(connection: Connection) -> _Written:
            written = _written(connection, run_id, event, fence, at=at, who=who)
            deliveries.put_of_run(connection, self._hooks, run_id, at)
            outbox.take_out(connection, run_id)
            # Last, so that other writers of these tables wait as short as can be.
            with _SWAPPED:
                swap_pointers(connection, self._catalog_name, swaps)
            return written

        with _RECORDED[type(event)]:
            return self._write(swap_and_record)

    # ── transactions ─────────────────────────────────────────────────────────────────────────────────────────────

    def _writing(self) -> Engine:
        self._require_no_look()
        return writing(self._engine)

    def _require_no_look(self) -> None:
        if self._look is not None:
            raise RuntimeError("nothing is written during a look: what was read would be of another moment")

    def _write(self, act: Callable[[Connection], _Written]) -> Run:
        written: _Written | None = None
        try:
            with self._writing().begin() as connection:
                _require_ledger(connection)
                written = act(connection)
        except DBAPIError as broken:
            # Broken after the last statement: COMMIT was sent, and only its answer may be lost.
            if written is None or written.link is None or not self._stands(written.link):
                raise fault_of(broken, _NOTHING_RECORDED) from broken
        return written.run

    def _stands(self, link: Link) -> bool:
        with faults(_UNKNOWN_OUTCOME), self._writing().begin() as connection:
            # The lock waits for a commit that is still under way on the server.
            reading.locked_run(connection, link.run)
            return chain.stands(connection, link)


def _written(
    connection: Connection, run_id: str, event: Event, fence: int | None, *, at: datetime, who: str
) -> _Written:
    before = _required(reading.locked_run(connection, run_id), run_id)
    leases.require_fence(connection, run_id, fence)
    link = write_event(connection, before, event, at=at, who=who)
    return _Written(run=_required(reading.run(connection, run_id), run_id), link=link)


def _required(run: Run | None, run_id: str) -> Run:
    if run is None:
        raise Refused(f"there is no run {run_id}", next="`retcon history` lists the runs")
    return run


def _require_ledger(connection: Connection) -> None:
    if not is_ready(connection):
        raise Refused("there is no ledger in the catalog's database", next="`retcon apply` makes one")
