"""A group through a catalog that commits by itself, broken off at every point; the ledger is real, the catalog not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retcon.core.events import Published, RolledBack
from retcon.core.intents import MainLine, Standing, standing_of
from retcon.core.pointers import PointerSwap, TableCommit
from retcon.core.runs import Run, RunState
from retcon.errors import Conflict, Fault, Refused
from retcon.flow.apply import apply
from retcon.flow.cancel import cancel
from retcon.flow.commit import publish_group, roll_back_group, settle
from retcon.flow.context import Context
from retcon.flow.ports import Tables
from retcon.flow.rollback import roll_back
from retcon.flow.tell import Teller
from retcon.ledger.migrate import migrate
from retcon.ledger.store import SqlLedger
from retcon.processes import is_gone, this_process
from tests.ledger.examples import AGG, ANN, FCT, NOON, Driver, a_plan, a_publishing_run, published

BEFORE, AFTER = 100, 301
TABLES = (FCT, AGG)


class Killed(BaseException):
    """The process ends here."""


class Server:
    """A catalog with a main line per table, which breaks as it is told to; also what the tables show."""

    def __init__(self, *troubles: str) -> None:
        line = frozenset({BEFORE})
        at_first = MainLine(uuid="u", schema_id=0, spec_id=0, snapshot_id=BEFORE, sequence=7, line=line)
        self.mains = dict.fromkeys(TABLES, at_first)
        self.troubles = list(troubles)
        self.moves = dict.fromkeys(TABLES, 0)
        self.asked = 0
        self.answers_questions = True
        self.cleaned: set[str] = set()
        """Tables of which somebody deleted the files that no snapshot leads to."""

    def lost_for(self, commit: TableCommit) -> tuple[str, ...]:
        return (f"{commit.table}/m.avro",) if commit.is_new and commit.table in self.cleaned else ()

    def main_line(self, name: str) -> MainLine:
        if not self.answers_questions:
            raise Fault("it doesn't answer")
        return self.mains[name]

    def __getattr__(self, _: str) -> Any:
        """Nothing else is there: no branch to drop, no table."""
        return lambda *_: None

    def write(self, table: str, snapshot: int = 777) -> None:
        """Somebody else's commit."""
        main = self.mains[table]
        line = main.line | {snapshot}
        self.mains[table] = replace(main, snapshot_id=snapshot, sequence=main.sequence + 1, line=line)

    def write_elsewhere(self, table: str) -> None:
        """Somebody's commit to another branch."""
        self.mains[table] = replace(self.mains[table], sequence=self.mains[table].sequence + 1)

    def commit(self, requests: Sequence[str]) -> None:
        self.asked += 1
        trouble = self.troubles.pop(0) if self.troubles else ""
        if trouble == "killed before":
            raise Killed
        if trouble == "lost before":
            raise Fault("no route to it")
        if trouble == "no":
            raise Refused("it isn't allowed")
        steps = [json.loads(request) for request in requests]
        if any(self.mains[step["table"]].snapshot_id != step["base"] for step in steps):
            raise Conflict("a requirement failed")
        if any(step["to"] == AFTER and self.mains[step["table"]].sequence != 7 for step in steps):
            raise Conflict("its number is taken")
        taken = steps[:1] if trouble == "half" else steps
        for step in taken:
            main = self.mains[step["table"]]
            line = frozenset({BEFORE}) if step["to"] == BEFORE else main.line | {step["to"]}
            self.mains[step["table"]] = replace(main, snapshot_id=step["to"], sequence=main.sequence + 1, line=line)
            self.moves[step["table"]] += 1
        if trouble == "killed after":
            raise Killed
        if trouble in ("lost after", "half"):
            raise Fault("the answer is lost")


def step(table: str, base: int, to: int) -> PointerSwap:
    commit = TableCommit(
        table=table,
        uuid="u",
        schema_id=0,
        spec_id=0,
        base=base,
        snapshot_id=to,
        is_new=to == AFTER,
        sequence=8 if to == AFTER else None,
        request=json.dumps({"table": table, "base": base, "to": to}),
    )
    return PointerSwap(table=table, old_location="m0", new_location="s1", snapshot_id=to, commit=commit)


FORWARD = [step(table, BEFORE, AFTER) for table in TABLES]
BACK = [step(table, AFTER, BEFORE) for table in TABLES]
UNDONE = RolledBack(reason="wrong", snapshots=dict.fromkeys(TABLES, BEFORE))


class Desk:
    """A run that is about to be published, and a new process for every call."""

    def __init__(self, folder: Path, server: Server, run: str = "run_a") -> None:
        self.server = server
        self.ledger = SqlLedger(f"sqlite:///{folder}/ledger.db", "lake", migrate=migrate)
        self.ledger.prepare()
        self.driver: Driver = a_publishing_run(self.ledger, run, models=TABLES)
        self.id = run

    @property
    def run(self) -> Run:
        found = self.ledger.run(self.id)
        assert found is not None
        return found

    @property
    def context(self) -> Context:
        parts: dict[str, Any] = {"project": None, "warehouse": None, "tables": self.server, "catalog": self.server}
        return Context(
            ledger=self.ledger,
            clock=lambda: NOON,
            who=ANN,
            watch=lambda _: None,
            driver=this_process("ada"),
            is_gone=is_gone,
            **parts,
        )

    def publish(self) -> Run:
        return publish_group(self.run, published(a_plan(self.id, models=TABLES)), FORWARD, self.context)

    def roll_back(self) -> Run:
        return roll_back_group(self.run, UNDONE, BACK, self.context)

    def settle(self) -> Run:
        return settle(self.run, self.context)

    def cancel(self) -> Run:
        tables: Any = self.server
        return cancel(self.run, "enough", self.ledger, tables, clock=lambda: NOON, who=ANN)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.ledger.events(self.id)]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, Server())


def test_a_group_is_committed_once_and_then_recorded_with_what_it_consumed(desk: Desk) -> None:
    run = desk.publish()
    assert run.state is RunState.PUBLISHED
    assert (desk.server.asked, set(desk.server.moves.values())) == (1, {1})
    assert desk.ledger.intent(desk.id) is None
    assert desk.ledger.consumption(desk.id)
    assert desk.settle() == run


@pytest.mark.parametrize("trouble", ["killed before", "killed after"])
def test_after_a_crash_the_tables_decide_and_the_run_is_published_once(desk: Desk, trouble: str) -> None:
    desk.server.troubles = [trouble]
    with pytest.raises(Killed):
        desk.publish()
    assert desk.run.state is RunState.PUBLISHING
    assert desk.settle().state is RunState.PUBLISHED
    assert set(desk.server.moves.values()) == {1}
    assert desk.kinds().count("Published") == 1
    assert desk.ledger.consumption(desk.id)


@pytest.mark.parametrize("trouble", ["lost before", "lost after"])
def test_an_answer_that_is_lost_is_looked_up_in_the_tables(desk: Desk, trouble: str) -> None:
    desk.server.troubles = [trouble]
    assert desk.publish().state is RunState.PUBLISHED
    assert set(desk.server.moves.values()) == {1}


def test_a_catalog_that_never_says_leaves_the_intent_to_be_settled_later(desk: Desk) -> None:
    desk.server.troubles = ["lost before"] * 3
    with pytest.raises(Fault, match="whether the catalog took run run_a isn't known") as fault:
        desk.publish()
    assert fault.value.retryable
    assert desk.run.state is RunState.PUBLISHING
    assert desk.settle().state is RunState.PUBLISHED


def test_while_the_catalog_answers_nothing_at_all_nothing_is_concluded(desk: Desk) -> None:
    desk.server.troubles = ["lost after"]
    desk.server.answers_questions = False
    with pytest.raises(Fault, match="isn't known"):
        desk.publish()
    assert desk.ledger.intent(desk.id) is not None
    desk.server.answers_questions = True
    assert desk.settle().state is RunState.PUBLISHED
    assert set(desk.server.moves.values()) == {1}


def test_a_commit_of_somebody_else_refuses_it_and_the_run_goes_back_to_proven(desk: Desk) -> None:
    desk.server.write(AGG)
    with pytest.raises(Conflict, match="a requirement failed"):
        desk.publish()
    assert desk.run.state is RunState.PROVEN
    assert desk.ledger.intent(desk.id) is None
    assert set(desk.server.moves.values()) == {0}


def test_a_catalog_that_says_no_is_believed_and_nothing_is_left_open(desk: Desk) -> None:
    desk.server.troubles = ["no"]
    with pytest.raises(Refused, match="it isn't allowed"):
        desk.publish()
    assert (desk.run.state, desk.server.asked) == (RunState.PROVEN, 1)
    assert desk.ledger.intent(desk.id) is None


def test_after_a_crash_before_the_commit_a_table_that_moved_on_sends_it_back(desk: Desk) -> None:
    desk.server.troubles = ["killed before"]
    with pytest.raises(Killed):
        desk.publish()
    desk.server.write(FCT)
    assert desk.settle().state is RunState.PROVEN
    assert set(desk.server.moves.values()) == {0}
    assert "Published" not in desk.kinds()


@pytest.mark.parametrize("crashed", [False, True])
def test_a_commit_to_another_branch_takes_the_number_and_sends_it_back(desk: Desk, crashed: bool) -> None:
    if crashed:
        desk.server.troubles = ["killed before"]
        with pytest.raises(Killed):
            desk.publish()
    desk.server.write_elsewhere(AGG)
    if crashed:
        desk.settle()
    else:
        with pytest.raises(Conflict, match="its number is taken"):
            desk.publish()
    assert desk.run.state is RunState.PROVEN
    assert desk.ledger.intent(desk.id) is None


def test_a_no_isnt_final_while_an_earlier_request_may_be_under_way(desk: Desk) -> None:
    desk.server.troubles = ["lost before", "no", "no"]
    with pytest.raises(Fault, match="isn't known: it isn't allowed"):
        desk.publish()
    assert desk.ledger.intent(desk.id) is not None
    assert desk.settle().state is RunState.PUBLISHED


def test_what_landed_on_top_of_the_publish_meanwhile_doesnt_hide_it(desk: Desk) -> None:
    desk.server.troubles = ["killed after"]
    with pytest.raises(Killed):
        desk.publish()
    desk.server.write(FCT)
    assert desk.settle().state is RunState.PUBLISHED


def test_a_commit_that_lands_while_the_tables_are_asked_isnt_taken_for_half(desk: Desk) -> None:
    desk.server.troubles = ["killed before"]
    with pytest.raises(Killed):
        desk.publish()
    asked: list[str] = []

    def main_line(name: str) -> MainLine:
        asked.append(name)
        if len(asked) == 2:
            desk.server.commit([swap.commit.request for swap in FORWARD if swap.commit is not None])
        return desk.server.mains[name]

    context = desk.context
    context.tables = cast(Tables, SimpleNamespace(main_line=main_line))
    assert settle(desk.run, context).state is RunState.PUBLISHED
    assert set(desk.server.moves.values()) == {1}


def test_a_request_whose_files_were_deleted_meanwhile_isnt_sent_again(desk: Desk) -> None:
    desk.server.troubles = ["killed before"]
    with pytest.raises(Killed):
        desk.publish()
    desk.server.cleaned = {AGG}
    assert desk.settle().state is RunState.PROVEN
    assert (desk.server.asked, set(desk.server.moves.values())) == (1, {0})
    assert desk.ledger.intent(desk.id) is None
    assert desk.ledger.events(desk.id)[-1].body["why"] == (
        f"the catalog didn't take it, and files that it would lead to are gone, e.g. {AGG}/m.avro"
    )


def test_files_of_a_publish_that_the_catalog_took_are_no_reason_to_withdraw_it(desk: Desk) -> None:
    desk.server.troubles = ["killed after"]
    with pytest.raises(Killed):
        desk.publish()
    desk.server.cleaned = set(TABLES)
    assert desk.settle().state is RunState.PUBLISHED


def test_half_a_group_whose_rest_lost_its_files_stays_a_fault_that_names_it(desk: Desk) -> None:
    desk.server.troubles = ["half"]
    with pytest.raises(Fault):
        desk.publish()
    desk.server.cleaned = {AGG}
    with pytest.raises(Fault, match="took only a part") as fault:
        desk.settle()
    assert fault.value.next.startswith(f"{AGG} moved on, or lost files of this step")
    assert (desk.run.state, desk.server.asked) == (RunState.PUBLISHING, 1)


def test_half_a_group_is_said_table_by_table_and_the_rest_follows_when_it_can(desk: Desk) -> None:
    desk.server.troubles = ["half"]
    with pytest.raises(Fault, match="took only a part of run run_a") as fault:
        desk.publish()
    assert fault.value.state == f"as they were: {AGG}; changed by this step: {FCT}"
    assert "`retcon apply run_a` commits the rest" in fault.value.next
    assert desk.run.state is RunState.PUBLISHING
    assert desk.settle().state is RunState.PUBLISHED
    assert desk.server.moves == {FCT: 1, AGG: 1}


def test_half_a_group_whose_rest_moved_on_stays_a_fault_that_names_it(desk: Desk) -> None:
    desk.server.troubles = ["half"]
    with pytest.raises(Fault):
        desk.publish()
    desk.server.write(AGG)
    for act in (desk.settle, desk.cancel):
        with pytest.raises(Fault, match="took only a part") as fault:
            act()
        assert fault.value.next.startswith(f"{AGG} moved on, or lost files of this step")
    assert desk.run.state is RunState.PUBLISHING


@pytest.mark.parametrize("trouble", ["killed before", "killed after"])
def test_a_run_whose_publish_may_be_visible_cant_be_cancelled(desk: Desk, trouble: str) -> None:
    desk.server.troubles = [trouble]
    with pytest.raises(Killed):
        desk.publish()
    with pytest.raises(Refused, match="the catalog may have taken it"):
        desk.cancel()


def test_a_run_whose_publish_never_will_be_visible_can_be_cancelled(desk: Desk) -> None:
    desk.server.troubles = ["killed before"]
    with pytest.raises(Killed):
        desk.publish()
    for table in TABLES:
        desk.server.write(table)
    assert desk.cancel().state is RunState.CANCELLED


@pytest.mark.parametrize("trouble", ["", "lost before", "lost after", "killed before", "killed after"])
def test_a_rollback_goes_the_same_way(desk: Desk, trouble: str) -> None:
    desk.publish()
    desk.server.troubles = [trouble]
    try:
        desk.roll_back()
    except Killed:
        assert desk.run.state is RunState.PUBLISHED
        desk.settle()
    assert desk.run.state is RunState.ROLLED_BACK
    assert {main.snapshot_id for main in desk.server.mains.values()} == {BEFORE}
    assert set(desk.server.moves.values()) == {2}


@pytest.mark.parametrize("trouble", ["killed before", "killed after"])
def test_a_rollback_publishes_nothing_that_was_left_open(desk: Desk, trouble: str) -> None:
    desk.server.troubles = [trouble]
    with pytest.raises(Killed):
        desk.publish()
    moves = dict(desk.server.moves)
    with pytest.raises(Refused, match="run run_a is publishing: there is no publish to roll back") as refused:
        roll_back(desk.run, "wrong", desk.context)
    assert "`retcon apply run_a`" in refused.value.next
    assert (desk.run.state, desk.server.asked, desk.server.moves) == (RunState.PUBLISHING, 1, moves)


@pytest.mark.parametrize("trouble", ["killed before", "killed after"])
def test_a_rollback_that_was_left_open_is_finished_by_the_same_command(desk: Desk, trouble: str) -> None:
    desk.publish()
    desk.server.troubles = [trouble]
    with pytest.raises(Killed):
        desk.roll_back()
    undone = roll_back(desk.run, "wrong", desk.context)
    assert undone.run.state is desk.run.state is RunState.ROLLED_BACK
    assert set(desk.server.moves.values()) == {2}


def test_applying_a_run_whose_rollback_was_left_open_finishes_that(desk: Desk) -> None:
    desk.publish()
    desk.server.troubles = ["killed before"]
    with pytest.raises(Killed):
        desk.roll_back()
    done = apply(desk.run, desk.context)
    assert done.state is RunState.ROLLED_BACK
    assert desk.kinds()[-1] == "RolledBack"
    assert desk.server.moves == dict.fromkeys(TABLES, 2)


def test_a_driver_that_was_taken_over_from_doesnt_ask_the_catalog(desk: Desk) -> None:
    old = desk.ledger.take_lease(desk.id, this_process("ada"), over=None, seconds=60)
    assert desk.ledger.take_lease(desk.id, this_process("ben"), over=old, seconds=60) is not None
    context = desk.context
    context.fence = old
    with pytest.raises(Conflict, match="was taken over"):
        publish_group(desk.run, published(a_plan(desk.id, models=TABLES)), FORWARD, context)
    assert desk.server.asked == 0


def test_a_second_intent_waits_for_the_first(desk: Desk) -> None:
    desk.server.troubles = ["killed before"]
    with pytest.raises(Killed):
        desk.publish()
    with pytest.raises(Conflict, match="an earlier try isn't recorded yet"):
        desk.publish()
    assert desk.server.asked == 1


@settings(max_examples=60, deadline=None)
@given(
    troubles=st.lists(
        st.sampled_from(["", "lost before", "lost after", "killed before", "killed after", "half"]), max_size=8
    )
)
def test_whatever_breaks_it_is_published_once_and_whole(
    tmp_path_factory: pytest.TempPathFactory, troubles: list[str]
) -> None:
    desk = Desk(tmp_path_factory.mktemp("desk"), Server(*troubles))
    for act in (desk.publish, *[desk.settle] * (len(troubles) + 1)):
        with suppress(Killed, Fault):
            act()
    assert desk.run.state is RunState.PUBLISHED
    assert set(desk.server.moves.values()) == {1}
    assert desk.kinds().count("Published") == 1


@pytest.mark.parametrize(
    "change", [{"uuid": "v"}, {"schema_id": 1}, {"spec_id": 1}, {"snapshot_id": 5}, {"sequence": 8}]
)
def test_a_commit_is_lost_when_anything_that_it_requires_is_gone(change: dict[str, Any]) -> None:
    commit = FORWARD[0].commit
    assert commit is not None
    main = Server().mains[FCT]
    assert standing_of(commit, main) is Standing.OPEN
    assert standing_of(commit, replace(main, **change)) is Standing.LOST
    assert standing_of(commit, None) is Standing.LOST


def test_an_intent_is_kept_as_it_is(desk: Desk) -> None:
    event = published(a_plan(desk.id, models=TABLES))
    desk.server.troubles = ["killed before"]
    with pytest.raises(Killed):
        desk.publish()
    intent = desk.ledger.intent(desk.id)
    assert intent is not None
    assert isinstance(intent.event, Published)
    assert intent.event == event
    assert intent.commits == tuple(swap.commit for swap in FORWARD)


@pytest.mark.parametrize("step", ["publish", "roll_back"])
def test_whoever_looks_at_the_run_is_told_that_the_answer_is_missing(desk: Desk, step: str) -> None:
    if step == "roll_back":
        desk.publish()
    desk.server.troubles = ["killed before"]
    with pytest.raises(Killed):
        getattr(desk, step)()
    graph: Any = SimpleNamespace(models={})
    project: Any = SimpleNamespace(graph=graph, settings=SimpleNamespace(cost=None))
    report = Teller(project, desk.ledger).show_run(desk.run)
    assert report.asked == {"publish": "publish it", "roll_back": "roll it back"}[step]
    desk.settle()
    told = Teller(project, desk.ledger).show_run(desk.run)
    assert told.asked is None
    # How long it took isn't known: another process found out.
    assert step == "roll_back" or told.events[-1].body["settled"]
