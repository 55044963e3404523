"""Any order of events: those the state machine has are taken, the others refused without a trace."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retcon.core.chains import first_broken_link
from retcon.core.events import (
    Cancelled,
    Event,
    GateOverridden,
    Judged,
    Paused,
    ProvingBegan,
    PublishBegan,
    Published,
    PublishRefused,
    Rebased,
    Resumed,
    RollbackBegan,
    RolledBack,
    SampleChecked,
    SlicesKept,
    StagingDone,
    TablesOpened,
    WaveFailed,
    WaveStaged,
)
from retcon.core.plans import Plan
from retcon.core.runs import RunState
from retcon.errors import Refused
from retcon.ledger.store import SqlLedger
from tests.ledger.examples import ANN, FCT, NOON, Driver, a_plan, an_event, judged, verdict

S = RunState
RUNS = count()

# Kinds of events, and by state those that are taken, with the state they lead to. Written down apart from the code.
ENDS = {"paused": S.PAUSED, "cancelled": S.CANCELLED}
STAGES = dict.fromkeys(("tables opened", "wave staged", "wave failed", "slices kept", "resumed to staging"), S.STAGING)
REBASES = {"rebased": S.STAGING}
PROVES = dict.fromkeys(("proving began", "resumed to proving"), S.PROVING)
TAKEN: dict[RunState, dict[str, RunState]] = {
    S.PLANNED: {**STAGES, **ENDS},
    S.STAGING: {**STAGES, **ENDS, "staging done": S.STAGED},
    S.STAGED: {**STAGES, **PROVES, **ENDS, "staging done": S.STAGED},
    S.PROVING: {**PROVES, **ENDS, "passed": S.PROVEN, "failed": S.FAILED},
    S.PROVEN: {**STAGES, **PROVES, **ENDS, **REBASES, "publish began": S.PUBLISHING, "publish refused": S.PROVEN},
    S.FAILED: {**STAGES, **PROVES, **ENDS, "overridden": S.PROVEN},
    S.PUBLISHING: {
        **STAGES,
        **REBASES,
        "publish began": S.PUBLISHING,
        "publish refused": S.PROVEN,
        "published": S.PUBLISHED,
    },
    S.PUBLISHED: {"rollback began": S.PUBLISHED, "rolled back": S.ROLLED_BACK},
    S.PAUSED: {
        **ENDS,
        **PROVES,
        "tables opened": S.STAGING,
        "resumed to staging": S.STAGING,
        "wave staged": S.PAUSED,
        "wave failed": S.PAUSED,
        "slices kept": S.PAUSED,
    },
    S.ROLLED_BACK: {},
    S.CANCELLED: {"cancelled": S.CANCELLED},
}
for state in (S.STAGED, S.PROVING, S.PROVEN, S.FAILED, S.PUBLISHING, S.PUBLISHED, S.PAUSED, S.ROLLED_BACK):
    TAKEN[state] = {**TAKEN[state], "checked by hand": state}
KINDS = sorted({name for taken in TAKEN.values() for name in taken})
HOLD_VERDICTS = {S.PROVEN, S.FAILED, S.PUBLISHING, S.PUBLISHED, S.ROLLED_BACK}


def event_named(name: str, plan: Plan) -> Event:
    plain: dict[str, type[Event]] = {
        "tables opened": TablesOpened,
        "wave staged": WaveStaged,
        "wave failed": WaveFailed,
        "slices kept": SlicesKept,
        "staging done": StagingDone,
        "proving began": ProvingBegan,
        "passed": Judged,
        "overridden": GateOverridden,
        "publish began": PublishBegan,
        "publish refused": PublishRefused,
        "rebased": Rebased,
        "paused": Paused,
        "cancelled": Cancelled,
        "rollback began": RollbackBegan,
        "checked by hand": SampleChecked,
    }
    match name:
        case "failed":
            return judged(plan, verdict("rows"), verdict("drift", failed=True))
        case "resumed to staging" | "resumed to proving":
            return Resumed(to=RunState(name.rpartition(" ")[2]))
        case "published":
            return Published(snapshots={}, consumed=())
        case "rolled back":
            return RolledBack(reason="wrong", snapshots={FCT: 1})
        case _:
            return an_event(plain[name], plan)


def tell(driver: Driver, event: Event) -> None:
    match event:
        case Published():
            driver.publish(event=event)
        case RolledBack():
            driver.run = driver.ledger.roll_back(driver.plan.id, event, [], at=NOON, who=ANN)
        case _:
            driver.tell(event)


# Three of four steps are ones that fit, so that runs get far.
STEPS = st.lists(st.tuples(st.sampled_from([True, True, True, False]), st.integers(0, 10**6)), max_size=12)


@pytest.mark.slow
@given(steps=STEPS)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_run_is_where_the_state_machine_says_and_its_chain_is_sound(
    ledger: SqlLedger, steps: list[tuple[bool, int]]
) -> None:
    driver = Driver(ledger, a_plan(f"run_{next(RUNS)}", days=2))
    events = 1
    for fits, draw in steps:
        taken = {name: to for name, to in TAKEN[driver.run.state].items() if name not in _once(driver)}
        names = [name for name in KINDS if (name in taken) is fits and _makes_sense(name, driver)]
        if not names:
            continue
        name = names[draw % len(names)]
        if fits:
            tell(driver, event_named(name, driver.plan))
            events += 1
            assert driver.run.state is taken[name]
        else:
            _refused(driver, name)
        assert ledger.run(driver.plan.id) == driver.run
    chain = ledger.events(driver.plan.id)
    assert len(chain) == events
    assert first_broken_link(chain) is None
    _consistent(driver)


def _once(driver: Driver) -> set[str]:
    """What happened, and doesn't happen again: a run's tables are opened once."""
    return {"tables opened"} if driver.run.tables else set()


def _makes_sense(name: str, driver: Driver) -> bool:
    """Left out: judging tables that were never opened, and overriding one more time what was overridden."""
    if name in ("passed", "failed"):
        return bool(driver.run.tables)
    return (driver.run.state, name) != (S.PROVEN, "overridden")


def _refused(driver: Driver, name: str) -> None:
    try:
        tell(driver, event_named(name, driver.plan))
    except Refused:
        return
    raise AssertionError(f"{name} was taken")


def _consistent(driver: Driver) -> None:
    """What is proven is there exactly where the state says that it is."""
    run, ledger = driver.run, driver.ledger
    verdicts = ledger.verdicts(run.id)
    if run.state in HOLD_VERDICTS:
        assert verdicts
        assert run.totals
        assert all(slice.checksum for slice in ledger.slices(run.id))
        assert all(verdict.holds for verdict in verdicts) is (run.state is not S.FAILED)
    elif run.state not in (S.PAUSED, S.CANCELLED):
        assert not verdicts
        assert not run.totals
        assert not any(slice.checksum for slice in ledger.slices(run.id))
        assert not any(table.head for table in run.tables.values())
