"""What each event does to a run and to what the ledger answers about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import get_args

import pytest

from retcon.core.chains import event_body, first_broken_link
from retcon.core.events import (
    ApplyBegan,
    Cancelled,
    Certified,
    CheckedAfter,
    Event,
    GateOverridden,
    Judged,
    Paused,
    ProvingBegan,
    PublishBegan,
    Published,
    PublishRefused,
    Rebased,
    Rebuilt,
    Reproduced,
    Resumed,
    RollbackBegan,
    RolledBack,
    RunOpened,
    SampleChecked,
    StagingDone,
    WaveFailed,
)
from retcon.core.plans import canonical, to_document
from retcon.core.profiles import Bins, ColumnProfile, ProfileEntry, Side, entry_document
from retcon.core.runs import Rebase, RunState, RunTable, ScanEvidence, SliceState, WaveState
from retcon.errors import Refused
from retcon.ledger.store import SqlLedger
from tests.ledger.conftest import Database
from tests.ledger.crowds import at_once
from tests.ledger.examples import (
    AGG,
    ANN,
    FCT,
    NOON,
    Driver,
    a_plan,
    all_staged,
    an_event,
    judged,
    opened,
    published_run,
    rebased,
    rebuilt,
    tables_opened,
    verdict,
    wave_staged,
)

S = RunState


def test_a_run_opens_as_planned_with_its_waves_and_slices_pending(ledger: SqlLedger) -> None:
    plan = a_plan(models=(FCT, AGG))
    run = ledger.open_run(plan, opened(plan), at=NOON, who=ANN)
    assert (run.id, run.kind, run.state, run.by, run.created) == (plan.id, "backfill", S.PLANNED, ANN, NOON)
    assert run.plan == plan
    assert run == ledger.run(plan.id)
    waves = ledger.waves(plan.id)
    assert [(w.model, w.wave, w.slices, w.state, w.attempts) for w in waves[:2]] == [
        (AGG, 1, "2025-10-25..2025-10-26", WaveState.PENDING, 0),
        (AGG, 2, "2025-10-27..2025-10-28", WaveState.PENDING, 0),
    ]
    assert len(waves) == 4
    assert [(s.slice, s.wave, s.state, s.rows) for s in ledger.slices(plan.id, FCT)] == [
        ("2025-10-25", 1, SliceState.PENDING, None),
        ("2025-10-26", 1, SliceState.PENDING, None),
        ("2025-10-27", 2, SliceState.PENDING, None),
        ("2025-10-28", 2, SliceState.PENDING, None),
    ]
    assert len(ledger.slices(plan.id)) == 8
    assert [event.kind for event in ledger.events(plan.id)] == ["RunOpened"]
    assert ledger.code(plan.id) == {FCT: f"SELECT 1 -- {FCT}", AGG: f"SELECT 1 -- {AGG}"}


def test_opening_a_run_again_returns_it_as_it_is(ledger: SqlLedger, database: Database) -> None:
    driver = Driver(ledger, a_plan())
    driver.stage()
    before = database.counts()
    again = ledger.open_run(driver.plan, opened(driver.plan), at=NOON + timedelta(days=1), who="bob")
    assert again == driver.run
    assert database.counts() == before


def test_many_drivers_that_open_one_run_at_once_get_the_same_run(ledger: SqlLedger) -> None:
    plan = a_plan()
    results = at_once([lambda: ledger.open_run(plan, opened(plan), at=NOON, who=ANN)] * 6)
    assert all(result == ledger.run(plan.id) for result in results)
    assert len(ledger.events(plan.id)) == 1


def test_opened_tables_begin_the_staging(ledger: SqlLedger) -> None:
    driver = Driver(ledger, a_plan())
    run = driver.tell(tables_opened(driver.plan))
    assert run.state is S.STAGING
    assert run.tables == {
        FCT: RunTable(
            table=FCT, uuid=f"uuid-{FCT}", schema_id=0, spec_id=0, base_snapshot=2**62 + 1, made=False, head=None
        )
    }
    assert run.pins == {"raw.orders": 11, "raw.new": None}
    assert run.run_ts == "2026-01-22T12:00:00Z"
    assert run.updated == NOON + timedelta(seconds=1)


def test_a_staged_wave_is_done_and_its_slices_have_rows_or_are_empty(ledger: SqlLedger) -> None:
    driver = Driver(ledger, a_plan())
    driver.tell(tables_opened(driver.plan), wave_staged(driver.plan, 1), wave_staged(driver.plan, 2, rows=0))
    first, second = ledger.waves(driver.plan.id)
    assert (first.state, first.attempts, first.snapshot_id, first.seconds) == (WaveState.DONE, 1, 2**62 + 101, 1.25)
    assert first.scans == (ScanEvidence(input="o", scanned_files=2, scope_files=2, table_files=90),)
    assert second.state is WaveState.DONE
    assert [(s.state, s.rows, s.bytes, s.files) for s in ledger.slices(driver.plan.id)] == [
        (SliceState.DONE, 100, 1000, 1),
        (SliceState.DONE, 100, 1000, 1),
        (SliceState.EMPTY, 0, 0, 0),
        (SliceState.EMPTY, 0, 0, 0),
    ]


def test_a_wave_that_failed_can_be_staged_again(ledger: SqlLedger) -> None:
    driver = Driver(ledger, a_plan())
    driver.tell(tables_opened(driver.plan), WaveFailed(model=FCT, wave=1, error="executor lost"))
    failed = ledger.waves(driver.plan.id)[0]
    assert (failed.state, failed.attempts, failed.error) == (WaveState.FAILED, 1, "executor lost")
    assert driver.run.state is S.STAGING
    driver.tell(wave_staged(driver.plan, 1))
    done = ledger.waves(driver.plan.id)[0]
    assert (done.state, done.attempts, done.error) == (WaveState.DONE, 2, None)


def test_a_wave_that_fails_when_staged_anew_leaves_its_slices_to_be_staged(ledger: SqlLedger) -> None:
    driver = Driver(ledger, a_plan())
    driver.stage()
    run = driver.tell(WaveFailed(model=FCT, wave=2, error="disk full"))
    assert run.state is S.STAGING
    states = [s.state for s in ledger.slices(driver.plan.id)]
    assert states == [SliceState.DONE, SliceState.DONE, SliceState.PENDING, SliceState.PENDING]


def test_a_wave_or_slice_that_the_plan_does_not_have_is_an_error_and_leaves_no_trace(
    ledger: SqlLedger, database: Database
) -> None:
    driver = Driver(ledger, a_plan())
    driver.tell(tables_opened(driver.plan))
    before = database.counts()
    stranger = wave_staged(a_plan(days=9, wave=9), 1)
    for event in (replace(stranger, wave=7), stranger, WaveFailed(model=AGG, wave=1, error="?")):
        with pytest.raises(ValueError, match="has no"):
            driver.tell(event)
    assert database.counts() == before
    assert ledger.run(driver.plan.id) == driver.run


def test_a_judgement_records_heads_measures_verdicts_and_totals(ledger: SqlLedger) -> None:
    driver = Driver(ledger, a_plan())
    driver.stage()
    run = driver.prove(verdict("rows"), verdict("drift"))
    assert run.state is S.PROVEN
    assert run.tables[FCT].head == 2**62 + 200
    assert run.totals == {FCT: {"sum(revenue_usd)": ("360.00", None)}}
    proven = ledger.slices(driver.plan.id)[0]
    assert (proven.rows, proven.checksum, proven.old_rows, proven.old_checksum) == (100, "sum-2025-10-25", 90, None)
    assert proven.metrics == {"sum(revenue_usd)": ("90.00", "100.10"), "count(*)": (None, "100")}
    assert [r.verdict for r in ledger.verdicts(driver.plan.id)] == [verdict("rows"), verdict("drift")]


def test_a_failed_gate_fails_the_run_and_every_failed_one_must_be_overridden(ledger: SqlLedger) -> None:
    driver = Driver(ledger, a_plan())
    driver.stage()
    failed = (verdict("drift", failed=True), verdict("drift-2", failed=True), verdict("rows"))
    assert driver.prove(*failed).state is S.FAILED
    assert [r.verdict for r in ledger.verdicts(driver.plan.id)] == list(failed)
    assert driver.tell(GateOverridden(model=FCT, gate="drift", reason="new prices")).state is S.FAILED
    assert driver.tell(GateOverridden(model=FCT, gate="drift-2", reason="it's 'fine'")).state is S.PROVEN
    assert [r.override for r in ledger.verdicts(driver.plan.id)] == ["new prices", "it's 'fine'", None]
    assert all(r.holds for r in ledger.verdicts(driver.plan.id))


@pytest.mark.parametrize(("model", "gate"), [(FCT, "rows"), (FCT, "none"), (AGG, "drift"), (FCT, "schema")])
def test_a_gate_that_passed_is_unknown_or_must_hold_is_not_overridden(ledger: SqlLedger, model: str, gate: str) -> None:
    driver = Driver(ledger, a_plan())
    driver.stage()
    driver.prove(verdict("drift", failed=True), verdict("rows"), verdict("schema", kind="schema", failed=True))
    with pytest.raises(Refused):
        driver.tell(GateOverridden(model=model, gate=gate, reason="please"))
    assert [r.override for r in ledger.verdicts(driver.plan.id)] == [None, None, None]


@pytest.mark.parametrize("again", [ProvingBegan(), Resumed(to=S.STAGING), Resumed(to=S.PROVING), "wave", "failed wave"])
def test_whatever_is_staged_or_proven_anew_takes_verdicts_and_overrides_with_it(
    ledger: SqlLedger, again: Event | str
) -> None:
    driver = Driver(ledger, a_plan())
    driver.stage()
    driver.prove(verdict("drift", failed=True))
    driver.tell(GateOverridden(model=FCT, gate="drift", reason="new prices"))
    events: dict[str, Event] = {
        "wave": wave_staged(driver.plan, 2),
        "failed wave": WaveFailed(model=FCT, wave=2, error="lost"),
    }
    run = driver.tell(events[again] if isinstance(again, str) else again)
    assert run.state in (S.STAGING, S.PROVING)
    assert run.tables[FCT].head is None
    assert run.totals == {}
    assert ledger.verdicts(driver.plan.id) == []
    assert {(s.checksum, s.old_rows, s.old_checksum) for s in ledger.slices(driver.plan.id)} == {(None, None, None)}
    assert all(s.metrics == {} for s in ledger.slices(driver.plan.id))


def test_staging_goes_on_without_losing_what_other_waves_staged(ledger: SqlLedger) -> None:
    driver = Driver(ledger, a_plan())
    driver.begin_publish()
    run = driver.tell(wave_staged(driver.plan, 2, rows=7))
    assert run.state is S.STAGING
    assert [s.rows for s in ledger.slices(driver.plan.id)] == [100, 100, 7, 7]
    assert [w.attempts for w in ledger.waves(driver.plan.id)] == [1, 2]
    driver.tell(StagingDone())
    assert driver.prove().state is S.PROVEN


def test_a_publish_that_was_refused_leaves_the_run_proven(ledger: SqlLedger) -> None:
    driver = Driver(ledger, a_plan())
    assert driver.begin_publish().state is S.PUBLISHING
    run = driver.tell(PublishRefused(why="somebody wrote 2025-10-26"))
    assert run.state is S.PROVEN
    assert run.tables[FCT].head == 2**62 + 200
    # The next try was refused while it was prepared.
    assert driver.tell(PublishRefused(why="still there")).state is S.PROVEN
    assert len(ledger.verdicts(driver.plan.id)) == 1


def test_a_rebased_run_has_some_slices_to_stage_anew_and_keeps_the_others(ledger: SqlLedger) -> None:
    driver = Driver(ledger, a_plan())
    driver.begin_publish()
    run = driver.tell(rebased(driver.plan, "2025-10-28"))
    assert run.state is S.STAGING
    assert (run.pins["raw.orders"], run.tables[FCT].base_snapshot) == (12, 2**62 + 50)
    assert run.tables[FCT].rebase == Rebase(round=1, head=2**62 + 200, restaged=("2025-10-28",))
    assert run.tables[FCT].head is None
    assert ledger.verdicts(driver.plan.id) == []
    states = {s.slice: (s.state, s.rows) for s in ledger.slices(driver.plan.id)}
    assert states.pop("2025-10-28") == (SliceState.PENDING, None)
    assert set(states.values()) == {(SliceState.DONE, 100)}
    # Neither has a commit of its own on the new branch; of the second, one slice is to be staged.
    assert [(w.state, w.snapshot_id) for w in ledger.waves(driver.plan.id)] == [
        (WaveState.DONE, None),
        (WaveState.PENDING, None),
    ]
    anew = replace(wave_staged(driver.plan, 2), slices=wave_staged(driver.plan, 2).slices[1:])
    driver.tell(anew, StagingDone())
    assert driver.prove().state is S.PROVEN
    assert driver.tell(rebased(driver.plan, number=2)).state is S.STAGING


@pytest.mark.parametrize("state", [S.PLANNED, S.STAGING, S.STAGED, S.PROVING])
def test_a_publish_can_not_be_refused_before_anything_is_proven(ledger: SqlLedger, state: RunState) -> None:
    driver = Driver(ledger, a_plan())
    steps: list[Event] = [tables_opened(driver.plan), StagingDone(), ProvingBegan()]
    driver.tell(*steps[: [S.PLANNED, S.STAGING, S.STAGED, S.PROVING].index(state)])
    assert driver.run.state is state
    with pytest.raises(Refused, match=state.value):
        driver.tell(PublishRefused(why="?"))


def test_resuming_does_not_lead_past_the_gates(ledger: SqlLedger) -> None:
    driver = Driver(ledger, a_plan())
    driver.stage()
    driver.prove(verdict("drift", failed=True))
    with pytest.raises(Refused, match="resumed"):
        driver.tell(Resumed(to=S.PROVEN))


def test_a_run_is_paused_and_goes_on(ledger: SqlLedger) -> None:
    driver = Driver(ledger, a_plan())
    driver.tell(tables_opened(driver.plan), wave_staged(driver.plan, 1))
    assert driver.tell(Paused(why="Ctrl-C")).state is S.PAUSED
    # The other job was still running, and ended.
    assert driver.tell(wave_staged(driver.plan, 2)).state is S.PAUSED
    assert [w.state for w in ledger.waves(driver.plan.id)] == [WaveState.DONE, WaveState.DONE]
    assert driver.tell(Resumed(to=S.STAGING)).state is S.STAGING


def test_a_cancelled_run_says_why_and_takes_nothing_more(ledger: SqlLedger) -> None:
    driver = Driver(ledger, a_plan())
    run = driver.tell(Cancelled(reason="not needed"))
    assert (run.state, run.why_ended) == (S.CANCELLED, "not needed")
    with pytest.raises(Refused, match="cancelled"):
        driver.tell(tables_opened(driver.plan))


@pytest.mark.parametrize("kind", [RunOpened, Published, RolledBack, Rebuilt])
def test_what_has_its_own_way_in_is_not_merely_recorded(ledger: SqlLedger, kind: type[Event]) -> None:
    driver = Driver(ledger, a_plan())
    with pytest.raises(ValueError, match="own"):
        driver.tell(an_event(kind, driver.plan))


def test_a_publish_that_was_lost_is_recorded_without_what_was_proven(ledger: SqlLedger) -> None:
    driver = Driver(ledger, a_plan())
    driver.begin_publish()
    run = ledger.rebuild(driver.plan, rebuilt(driver.plan), at=NOON + timedelta(days=3), who="doctor")
    assert (run.state, run.published, run.tables[FCT].published_snapshot) == (S.PUBLISHED, NOON, 301)
    assert ledger.published_slices(FCT) == {}
    assert ledger.unmeasured_slices(FCT) == tuple(slice.label for slice in driver.plan.models[0].slices)
    assert ledger.last_published([FCT])[FCT].id == run.id
    assert (ledger.verdicts(run.id), ledger.consumption(run.id)) == ([], [])
    assert (ledger.events(run.id)[-1].kind, ledger.events(run.id)[-1].who) == ("Rebuilt", "doctor")
    with pytest.raises(Refused, match="published"):
        driver.tell(Paused(why="?"))
    with pytest.raises(Refused, match="nothing of it is lost"):
        ledger.rebuild(driver.plan, rebuilt(driver.plan), at=NOON, who=ANN)
    undone = ledger.rebuild(driver.plan, rebuilt(driver.plan, undone=True), at=NOON + timedelta(days=4), who=ANN)
    assert (undone.state, undone.rolled_back) == (S.ROLLED_BACK, NOON + timedelta(days=4))
    assert ledger.unmeasured_slices(FCT) == ()
    assert first_broken_link(ledger.events(run.id)) is None


def test_a_run_that_was_lost_is_made_again_and_says_that_it_was_rebuilt(ledger: SqlLedger) -> None:
    plan = a_plan()
    run = ledger.rebuild(plan, rebuilt(plan, lost=True), at=NOON, who=ANN)
    assert (run.kind, run.state, run.plan) == ("rebuilt", S.PUBLISHED, plan)
    assert [event.kind for event in ledger.events(plan.id)] == ["Rebuilt"]
    assert first_broken_link(ledger.events(plan.id)) is None
    assert ledger.code(plan.id) == {}


def test_what_is_measured_later_is_no_longer_unknown(ledger: SqlLedger) -> None:
    ledger.rebuild(a_plan("run_a"), rebuilt(a_plan("run_a"), lost=True), at=NOON, who=ANN)
    published_run(ledger, a_plan("run_b", days=2))
    assert ledger.unmeasured_slices(FCT) == ("2025-10-27", "2025-10-28")
    assert set(ledger.published_slices(FCT)) == {"2025-10-25", "2025-10-26"}


def test_an_event_for_a_run_that_is_not_there_is_refused(ledger: SqlLedger) -> None:
    with pytest.raises(Refused, match="no run"):
        ledger.record("nowhere", Paused(why="?"), at=NOON, who=ANN)


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_every_kind_of_event_is_recorded_and_read_back_as_it_was_hashed(
    ledger: SqlLedger, database: Database, kind: type[Event]
) -> None:
    driver = Driver(ledger, a_plan())
    event = an_event(kind, driver.plan)
    _lead_up_to(kind, driver)
    if isinstance(event, Published):
        driver.publish(event=event)
    elif isinstance(event, RolledBack):
        ledger.roll_back(driver.plan.id, event, [], at=NOON, who=ANN)
    elif isinstance(event, Rebuilt):
        ledger.rebuild(driver.plan, event, at=NOON, who=ANN)
    elif not isinstance(event, RunOpened):
        driver.tell(event)
    chain = ledger.events(driver.plan.id)
    assert chain[-1].kind == kind.__name__
    assert canonical(chain[-1].body) == canonical(event_body(event))
    stored = database.run("SELECT body FROM retcon_events ORDER BY entry DESC LIMIT 1")[0].body
    assert stored == canonical(event_body(event))
    assert first_broken_link(chain) is None


def _lead_up_to(kind: type[Event], driver: Driver) -> None:
    plan = driver.plan
    leads: dict[type[Event], Callable[[], object]] = {
        WaveFailed: lambda: driver.tell(tables_opened(plan)),
        StagingDone: lambda: driver.tell(tables_opened(plan)),
        ProvingBegan: driver.stage,
        SampleChecked: driver.stage,
        Judged: lambda: (driver.stage(), driver.tell(ProvingBegan())),
        GateOverridden: lambda: (driver.stage(), driver.prove(verdict("drift", failed=True))),
        PublishBegan: lambda: (driver.stage(), driver.prove()),
        PublishRefused: driver.begin_publish,
        Rebased: driver.begin_publish,
        Published: driver.begin_publish,
        Certified: lambda: (driver.begin_publish(), driver.publish()),
        CheckedAfter: lambda: (driver.begin_publish(), driver.publish()),
        Reproduced: lambda: (driver.begin_publish(), driver.publish(), driver.roll_back()),
        RollbackBegan: lambda: (driver.begin_publish(), driver.publish()),
        RolledBack: lambda: (driver.begin_publish(), driver.publish()),
        Resumed: lambda: driver.tell(Paused(why="lunch")),
    }
    leads.get(kind, lambda: None)()


def test_hostile_text_is_kept_word_for_word(ledger: SqlLedger) -> None:
    model = """märt."o'x"; DROP TABLE retcon_runs; --"""
    who, words = 'o\'Brien "bob" {{ 1 }}', "'; DROP TABLE retcon_events; -- 東京 🙂 %s :x ?1 \\ \n {{ }}"
    driver = Driver(ledger, replace(a_plan(models=(model,)), reason=words))
    driver.tell(tables_opened(driver.plan), WaveFailed(model=model, wave=1, error=words))
    ledger.record(driver.plan.id, Cancelled(reason=words), at=NOON, who=who)
    run = ledger.run(driver.plan.id)
    assert run is not None
    assert (run.plan.reason, run.why_ended) == (words, words)
    assert ledger.waves(driver.plan.id)[0].error == words
    assert [r.id for r in ledger.runs(model=model)] == [driver.plan.id]
    assert list(run.tables) == [model]
    assert ledger.events(driver.plan.id)[-1].who == who
    assert first_broken_link(ledger.events(driver.plan.id)) is None


def test_text_that_no_database_holds_is_made_harmless(ledger: SqlLedger) -> None:
    driver = Driver(ledger, a_plan())
    driver.tell(tables_opened(driver.plan))
    error = "bad bytes \0 and half a pair \ud83d"
    ledger.record(driver.plan.id, WaveFailed(model=FCT, wave=1, error=error), at=NOON, who="a\0\ud83d")
    assert ledger.waves(driver.plan.id)[0].error == "bad bytes \N{REPLACEMENT CHARACTER} and half a pair ?"
    assert first_broken_link(ledger.events(driver.plan.id)) is None


def test_times_are_utc_to_the_microsecond_whatever_zone_they_came_in(ledger: SqlLedger, database: Database) -> None:
    plan = a_plan()
    kolkata = timezone(timedelta(hours=5, minutes=30))
    run = ledger.open_run(plan, opened(plan), at=datetime(2026, 1, 1, 0, 0, 0, 7, tzinfo=kolkata), who=ANN)
    assert run.created == datetime(2025, 12, 31, 18, 30, 0, 7, tzinfo=UTC)
    assert run.created.tzinfo is UTC
    assert database.run("SELECT created FROM retcon_runs")[0].created == "2025-12-31T18:30:00.000007Z"
    assert ledger.events(plan.id)[0].at == "2025-12-31T18:30:00.000007Z"
    with pytest.raises(ValueError, match="time zone"):
        ledger.record(plan.id, Paused(why="?"), at=datetime(2026, 1, 1), who=ANN)


def test_runs_are_listed_newest_first_by_model_and_up_to_a_limit(ledger: SqlLedger) -> None:
    for day, models in enumerate([(FCT,), (FCT, AGG), (AGG,)]):
        Driver(ledger, a_plan(f"run_{day}", models=models), at=NOON + timedelta(days=day))
    assert [run.id for run in ledger.runs()] == ["run_2", "run_1", "run_0"]
    assert [run.id for run in ledger.runs(model=FCT)] == ["run_1", "run_0"]
    assert [run.id for run in ledger.runs(limit=1)] == ["run_2"]
    assert [run.id for run in ledger.runs(model=AGG, limit=1)] == ["run_2"]
    assert ledger.runs(model="mart.unknown") == []


def test_unfinished_runs_are_all_that_something_is_left_to_be_done_for(ledger: SqlLedger) -> None:
    def begun(number: int) -> Driver:
        return Driver(ledger, a_plan(f"run_{number}", days=1, wave=1), at=NOON + timedelta(days=number))

    def failing(driver: Driver) -> None:
        driver.stage()
        driver.prove(verdict("drift", failed=True))

    def cancelled(driver: Driver) -> None:
        driver.tell(an_event(Cancelled, driver.plan))

    def rolled_back(driver: Driver) -> None:
        driver.begin_publish()
        driver.publish()
        driver.roll_back()

    def publishing(driver: Driver) -> None:
        driver.begin_publish()

    ways = [lambda _: None, lambda d: d.tell(tables_opened(d.plan)), lambda d: d.stage(), failing, cancelled]
    for number, way in enumerate([*ways, rolled_back, lambda d: (d.begin_publish(), d.publish()), publishing]):
        way(begun(number))
    assert len({run.state for run in ledger.runs()}) == 8
    assert ledger.unfinished_runs() == [run for run in ledger.runs() if not run.state.is_over]
    assert [run.id for run in ledger.unfinished_runs()] == ["run_7", "run_3", "run_2", "run_1", "run_0"]


def test_names_sort_by_their_characters_on_every_database(ledger: SqlLedger) -> None:
    models = ("mart.B", "mart._a", "mart.a", "marT.é", "mart.a_b", "mart.aB")
    Driver(ledger, a_plan(models=models, days=1, wave=1))
    assert [wave.model for wave in ledger.waves(a_plan().id)] == sorted(models)


def test_waves_that_end_at_once_are_all_recorded_in_one_sound_chain(ledger: SqlLedger) -> None:
    driver = Driver(ledger, a_plan(days=8, wave=1))
    driver.tell(tables_opened(driver.plan))
    results = at_once(
        [partial(ledger.record, driver.plan.id, wave, at=NOON, who=ANN) for wave in all_staged(driver.plan)]
    )
    assert not [result for result in results if isinstance(result, Exception)]
    assert {wave.state for wave in ledger.waves(driver.plan.id)} == {WaveState.DONE}
    assert [event.number for event in ledger.events(driver.plan.id)] == list(range(1, 11))
    assert first_broken_link(ledger.events(driver.plan.id)) is None


@pytest.mark.slow
def test_ten_thousand_slices_are_opened_proven_and_read(ledger: SqlLedger) -> None:
    plan = a_plan(days=10_000, wave=15)
    driver = Driver(ledger, plan)
    driver.tell(tables_opened(plan), wave_staged(plan, 1), StagingDone(), ProvingBegan(), judged(plan))
    assert len(ledger.slices(plan.id)) == 10_000


def test_the_newest_publish_that_stands_is_found_per_slice_and_per_model(ledger: SqlLedger, database: Database) -> None:
    database.add_table(FCT)
    published_run(ledger, a_plan("first", days=4), checksum="first")
    published_run(ledger, a_plan("second", days=2), at=NOON + timedelta(days=1), checksum="second")
    Driver(ledger, a_plan("third", days=4), at=NOON + timedelta(days=2)).begin_publish(checksum="third")
    found = ledger.published_slices(FCT)
    assert {label: (slice.run, slice.checksum, slice.rows) for label, slice in found.items()} == {
        "2025-10-25": ("second", "second-2025-10-25", 100),
        "2025-10-26": ("second", "second-2025-10-26", 100),
        "2025-10-27": ("first", "first-2025-10-27", 100),
        "2025-10-28": ("first", "first-2025-10-28", 100),
    }
    last = ledger.last_published([FCT, AGG])
    assert {model: run.id for model, run in last.items()} == {FCT: "second"}
    assert ledger.last_published([]) == {}


def test_some_slices_are_asked_for_as_all_of_them_are(ledger: SqlLedger, database: Database) -> None:
    database.add_table(FCT)
    published_run(ledger, a_plan("first", days=600), checksum="first")
    published_run(ledger, a_plan("second", days=2), at=NOON + timedelta(days=1), checksum="second")
    everything, consumed = ledger.published_slices(FCT), ledger.standing_consumption(FCT)
    labels = list(everything)
    for few in ([], labels[1:3], ["1999-01-01", labels[-1]]):
        assert ledger.published_slices(FCT, few) == {label: everything[label] for label in few if label in everything}
        assert ledger.standing_consumption(FCT, few) == {label: consumed[label] for label in few if label in consumed}
    # Of so many, all come along.
    assert ledger.published_slices(FCT, labels) == everything
    assert ledger.standing_consumption(FCT, labels) == consumed


def test_empty_are_the_slices_whose_newest_publish_has_no_rows(ledger: SqlLedger) -> None:
    plan = a_plan("first", days=3)
    first, second, _ = (slice.label for slice in plan.models[0].slices)
    published_run(ledger, plan, empty=(first, second))
    assert ledger.empty_slices(FCT) == (first, second)
    published_run(ledger, a_plan("second", days=1), at=NOON + timedelta(days=1))
    assert ledger.empty_slices(FCT) == (second,)


def test_what_was_rolled_back_uncovers_the_publish_before_it(ledger: SqlLedger, database: Database) -> None:
    published_run(ledger, a_plan("first"), checksum="first")
    published_run(ledger, a_plan("second"), at=NOON + timedelta(days=1), checksum="second").roll_back()
    assert {slice.run for slice in ledger.published_slices(FCT).values()} == {"first"}
    assert ledger.last_published([FCT])[FCT].id == "first"


def test_the_later_publish_counts_even_if_its_driver_had_a_slow_clock(ledger: SqlLedger) -> None:
    published_run(ledger, a_plan("first"), checksum="first")
    published_run(ledger, a_plan("second"), at=NOON - timedelta(days=1), checksum="second")
    assert {slice.run for slice in ledger.published_slices(FCT).values()} == {"second"}
    assert ledger.last_published([FCT])[FCT].id == "second"


def test_a_plan_is_the_same_document_after_its_round_trip(ledger: SqlLedger) -> None:
    plan = a_plan(models=(FCT, AGG))
    run = ledger.open_run(plan, opened(plan), at=NOON, who=ANN)
    assert canonical(to_document(run.plan)) == canonical(to_document(plan))


def test_the_tables_of_a_run_are_opened_once(ledger: SqlLedger) -> None:
    driver = Driver(ledger, a_plan())
    driver.stage()
    with pytest.raises(Refused, match="has its tables open already"):
        driver.tell(tables_opened(driver.plan))


def test_an_expectation_that_was_edited_is_on_record_and_has_to_be_judged_anew(ledger: SqlLedger) -> None:
    expect = ({"model": FCT, "unchanged": "currency = 'USD'"},)
    began = an_event(ApplyBegan, a_plan())
    assert isinstance(began, ApplyBegan)
    driver = Driver(ledger, a_plan())
    driver.stage()
    driver.prove(verdict("drift", failed=True))
    assert driver.tell(began).state is RunState.FAILED
    run = driver.tell(replace(began, expect=expect))
    assert run.state is RunState.PROVING
    assert [each.unchanged for each in run.plan.expect] == ["currency = 'USD'"]
    assert ledger.run(run.id) == run
    assert ledger.verdicts(run.id) == []
    assert driver.prove().state is RunState.PROVEN
    # Nothing is expected any more: that has to be judged, too.
    assert driver.tell(replace(began, expect=())).state is RunState.PROVING
    driver.prove()
    driver.tell(PublishBegan(locations={}))
    with pytest.raises(Refused, match="publishing"):
        driver.tell(replace(began, expect=expect))
    assert first_broken_link(ledger.events(run.id)) is None


def test_profiles_are_kept_with_the_proof_and_go_with_it(ledger: SqlLedger) -> None:
    days = [slice.label for slice in a_plan().models[0].slices]
    whole = ColumnProfile(column="amount", rows=400, nulls=4, mean="1.5", bins=Bins(edges=("1",), counts=(2, 2, 0)))
    light = ColumnProfile(column="amount", rows=100, nulls=1)
    entries = [ProfileEntry(model=FCT, slice=None, side=Side.STAGED, profile=whole, scope="x")]
    entries += [ProfileEntry(model=FCT, slice=day, side=Side.STAGED, profile=light) for day in days]
    proof = replace(judged(a_plan()), profiles=tuple(entry_document(entry) for entry in entries))
    driver = Driver(ledger, a_plan())
    driver.stage()
    for _ in range(2):
        driver.tell(ProvingBegan())
        assert ledger.profiles(driver.plan.id) == []
        driver.tell(proof)
    assert ledger.profiles(driver.plan.id) == entries[:1]
    assert ledger.slice_profiles(FCT) == {}
    driver.tell(PublishBegan(locations={}))
    driver.publish()
    assert ledger.slice_profiles(FCT) == {day: {"amount": light} for day in days}
    driver.roll_back()
    assert ledger.slice_profiles(FCT) == {}
    assert first_broken_link(ledger.events(driver.plan.id)) is None
