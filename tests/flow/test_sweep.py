"""Sweeping real tables by a real ledger, without a JVM."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from retcon.core.events import RolledBack
from retcon.core.intents import Intent
from retcon.core.plans import branch_of, tag_before, undo_branch_of
from retcon.core.runs import Run
from retcon.errors import Conflict
from retcon.flow.publish import publish
from retcon.flow.sweep import Swept, sweep
from tests.flow.test_publish import Exchanges, Swaps, context_of, give_up, proven, proven_beside
from tests.flow.workshops import Workshop
from tests.shops import Meddling


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path).shop()
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-20")
    return workshop


def staged(workshop: Workshop) -> Run:
    """A proven run, with a commit on its branch."""
    run = proven(workshop)
    base = workshop.lake.current("mart.a")
    assert base is not None
    workshop.lake.table("mart.a").manage_snapshots().create_branch(base, run.plan.branch).commit()
    workshop.lake.append("mart.a", "2026-01-04", branch=run.plan.branch, retcon__run=run.id)
    return run


def published(workshop: Workshop) -> Run:
    """The same, published, with its tag."""
    run = staged(workshop)
    before = workshop.lake.current("mart.a")
    assert before is not None
    workshop.lake.table("mart.a").manage_snapshots().create_tag(before, tag_before(run.id)).commit()
    return publish(run, context_of(workshop, Swaps(workshop)))


def swept(workshop: Workshop, *, dry: bool = False, tables: Any = None) -> Swept:
    w = workshop.workspace
    return sweep(w.outline, w.ledger, tables or w.tables, workshop.now, dry=dry)


def refs(workshop: Workshop) -> set[str]:
    return set(workshop.lake.table("mart.a").metadata.refs)


def test_a_publish_is_kept_for_its_retention_and_swept_after_it(workshop: Workshop) -> None:
    run = published(workshop)
    ours = {branch_of(run.id), tag_before(run.id)}
    workshop.now += timedelta(days=13)
    kept = swept(workshop)
    assert kept.dropped == ()
    assert {(each.name, each.until) for each in kept.kept} == {
        (n, (run.published or workshop.now) + timedelta(days=14)) for n in ours
    }
    workshop.now += timedelta(days=2)
    before = workshop.lake.table("mart.a").metadata
    dry = swept(workshop, dry=True)
    assert {each.name for each in dry.dropped} == ours
    assert workshop.lake.table("mart.a").metadata == before
    assert {each.name for each in swept(workshop).dropped} == ours
    after = workshop.lake.table("mart.a").metadata
    assert set(after.refs) == {"main"}
    assert after.current_snapshot_id == before.current_snapshot_id
    gone = {s.snapshot_id for s in before.snapshots} - {s.snapshot_id for s in after.snapshots}
    assert gone == {before.refs[branch_of(run.id)].snapshot_id}, "the branch's own snapshot, and no other"
    assert swept(workshop) == Swept(leftovers=(), is_dry=False)


def test_a_longer_retention_keeps_it_longer(workshop: Workshop) -> None:
    published(workshop)
    workshop.model("mart.a", keys="retention: 30 days")
    workshop.now += timedelta(days=20)
    assert swept(workshop).dropped == ()


def test_what_open_runs_stand_on_stays_whatever_their_age(workshop: Workshop) -> None:
    over, still_open = published(workshop), staged(workshop)
    workshop.now += timedelta(days=99)
    found = swept(workshop)
    assert {each.name for each in found.dropped} == {branch_of(over.id), tag_before(over.id)}
    assert [(each.name, each.why) for each in found.kept] == [(branch_of(still_open.id), "its run is proven")]


def test_what_no_run_is_known_of_waits_for_open_runs(workshop: Workshop) -> None:
    base = workshop.lake.current("mart.a")
    assert base is not None
    table = workshop.lake.table("mart.a")
    table.manage_snapshots().create_branch(base, "retcon_20250101_lost_x1y2").create_branch(base, "theirs").commit()
    run = staged(workshop)
    workshop.now += timedelta(days=3650)
    assert "some run is open" in next(each for each in swept(workshop).kept if "lost" in each.name).why
    give_up(workshop, run)
    assert [each.name for each in swept(workshop).dropped] == ["retcon_20250101_lost_x1y2"]
    assert refs(workshop) == {"main", "theirs"}


def test_without_any_run_in_the_ledger_nothing_goes(workshop: Workshop) -> None:
    base = workshop.lake.current("mart.a")
    assert base is not None
    workshop.lake.table("mart.a").manage_snapshots().create_branch(base, "retcon_20250101_lost_x1y2").commit()
    workshop.now += timedelta(days=3650)
    assert [each.why for each in swept(workshop).kept] == ["no run is known of it, and the ledger knows no run at all"]


def test_an_abandoned_rollbacks_branch_goes(workshop: Workshop) -> None:
    run = published(workshop)
    base = workshop.lake.current("mart.a")
    assert base is not None
    workshop.lake.table("mart.a").manage_snapshots().create_branch(base, undo_branch_of(run.id)).commit()
    assert [each.name for each in swept(workshop).dropped] == [undo_branch_of(run.id)]


def test_the_branch_of_a_rollback_that_the_catalog_may_yet_take_stays(workshop: Workshop) -> None:
    run = published(workshop)
    base = workshop.lake.current("mart.a")
    assert base is not None
    workshop.lake.table("mart.a").manage_snapshots().create_branch(base, undo_branch_of(run.id)).commit()
    asked = Intent(run=run.id, event=RolledBack(reason="wrong", snapshots={"mart.a": 7}), commits=())
    workshop.ledger.intend(asked, at=workshop.now, who="ada")
    assert swept(workshop).dropped == ()
    workshop.ledger.withdraw(run.id, "it didn't", at=workshop.now, who="ada")
    assert [each.name for each in swept(workshop).dropped] == [undo_branch_of(run.id)]


def test_a_ref_that_moves_meanwhile_makes_it_look_again(workshop: Workshop) -> None:
    published(workshop)
    workshop.now += timedelta(days=20)
    commits = iter([1])

    def somebody_first(real: Any, *args: Any) -> Any:
        for _ in commits:
            workshop.lake.append("mart.a", "2026-01-19")
        return real(*args)

    tables = Meddling(workshop.workspace.tables, "drop_refs", somebody_first)
    assert len(swept(workshop, tables=tables).dropped) == 2
    assert refs(workshop) == {"main"}

    def somebody_always(real: Any, *args: Any) -> Any:
        workshop.lake.append("mart.a", "2026-01-19")
        return real(*args)

    published(workshop)
    workshop.now += timedelta(days=20)
    with pytest.raises(Conflict, match=r"mart\.a was written by somebody else meanwhile"):
        swept(workshop, tables=Meddling(workshop.workspace.tables, "drop_refs", somebody_always))


@pytest.mark.parametrize("written", [False, True])
def test_the_table_that_was_replaced_goes_after_the_retention_unless_somebody_wrote_to_it(
    workshop: Workshop, written: bool
) -> None:
    run = publish(proven_beside(workshop), context_of(workshop, Exchanges(workshop)))
    place = run.plan.place("mart.a")
    facts = workshop.lake.metadata.facts(place)
    replaced = run.tables["mart.a"].replaces
    assert facts is not None
    assert replaced is not None
    assert facts.uuid == replaced.uuid
    workshop.now += timedelta(days=13)
    assert [each.name for each in swept(workshop).kept] == [place]
    workshop.now += timedelta(days=2)
    if written:
        workshop.lake.append(place, "2026-01-19")
        assert [each.why for each in swept(workshop).kept] == ["somebody wrote to it, or made it anew"]
        assert workshop.lake.metadata.facts(place) is not None
        return
    manifest = workshop.lake.table(place).metadata_location
    assert [each.name for each in swept(workshop, dry=True).dropped] == [place]
    assert [each.name for each in swept(workshop).dropped] == [place]
    assert workshop.lake.metadata.facts(place) is None
    assert not Path(manifest).exists()
    assert workshop.lake.contents("mart.a").files
