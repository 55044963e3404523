"""Schedules and freshness on the command line, over real tables and a real ledger, without a JVM."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, NestedField

from retcon.cli.schedule import _called
from retcon.core.events import RolledBack
from retcon.core.exceptions import LateChange
from retcon.core.plans import Load
from retcon.core.runs import RunState
from retcon.core.schedules import Kind
from retcon.core.watermarks import Advance, Mark
from retcon.errors import Fault
from retcon.lakehouse.metadata_files import MetadataFiles
from retcon.ledger.store import SqlLedger
from retcon.processes import this_process
from retcon.wiring import Workspace
from tests.cli.conftest import Records, Retcon, loaded
from tests.cli.shops import NOON, ORDERS, REVENUE, Recorder, days

MODEL = "models/mart/fct_orders_usd.sql"
YEARLY = "0 0 1 1 *"
"""Came not long ago, and doesn't come while a test runs."""


def catalog(shop: Path) -> SqlCatalog:
    return SqlCatalog("lake", uri=f"sqlite:///{shop}/.retcon/lake.db", warehouse=f"{shop}/.retcon/warehouse")


def edit(shop: Path, old: str, new: str, model: str = MODEL) -> None:
    path = shop / model
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def schedule(shop: Path, cron: str = YEARLY) -> None:
    edit(shop, "\n*/", f'\nschedule: "{cron}"\n*/')


@pytest.fixture
def built(shop: Path, recorded: Records) -> Path:
    """Both models with ten days in their tables, published, and every watermark where its input is."""
    recorded("k3f9").stage().prove().publish()
    lake = catalog(shop)
    lake.create_namespace("mart")
    spec = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="order_date"))
    for model in (ORDERS, REVENUE):
        made = lake.create_table(model, Schema(NestedField(1, "order_date", DateType())), partition_spec=spec)
        made.append(pa.table({"order_date": pa.array(days())}))
    lake.close()
    workspace = Workspace(shop)
    advances = []
    for model in (ORDERS, REVENUE):
        for i in workspace.project.graph.models[model].inputs:
            facts = workspace.tables.facts(i.table)
            assert facts is not None
            mark = Mark(model=model, input=i.name, table=i.table, uuid=facts.uuid, snapshot_id=facts.snapshot_id)
            advances.append(Advance(mark=mark, after=0))
    workspace.ledger.move_watermarks(advances, is_set=True, why="a test", at=NOON, who="ann")
    workspace.close()
    return shop


def turns(shop: Path) -> dict[str, bool]:
    """Which schedules are done, by kind."""
    workspace = Workspace(shop)
    found = {kind.value: turn.done is not None for (_, kind), turn in workspace.ledger.turns().items()}
    workspace.close()
    return found


def test_a_load_that_finds_nothing_loads_neither_spark_nor_iceberg_nor_a_parser(built: Path) -> None:
    loaded("check", cwd=built)  # reads the SQL
    found = loaded("load", cwd=built)
    assert not found & {"pyspark", "py4j", "pyiceberg", "pyarrow", "alembic", "sqlglot"}
    assert "sqlalchemy" in found, "it did look"


def test_what_is_due_is_looked_at_once_also_where_nothing_is_found(retcon: Retcon, built: Path) -> None:
    schedule(built)
    (before,) = retcon("schedule", "--json").result["schedules"]
    assert (before["model"], before["kind"], before["cron"]) == (ORDERS, "load", YEARLY)
    assert (before["overdue"], before["last_done"]) == (True, None)
    assert len(before["next"]) == 3
    dry = retcon("load", "--due", "--dry-run", "--json").result
    assert [each["model"] for each in dry["due"]] == [ORDERS]
    assert turns(built) == {}, "it wrote nothing"
    answer = retcon("load", "--due", "--json")
    assert answer.code == 0, answer.err
    assert [each["model"] for each in answer.result["models"]] == [ORDERS], "the other has no schedule"
    assert "starting Spark" not in answer.err
    assert turns(built) == {"load": True}
    again = retcon("load", "--due")
    assert again.out.startswith(f"nothing is due; next is {ORDERS} at ")
    assert retcon("load", "--due", "--json").result["due"] == []
    (after,) = retcon("schedule", "--json").result["schedules"]
    assert (after["overdue"], after["last_done"]) == (False, after["last_due"])
    assert "done" in retcon("schedule").out


def test_a_ledger_is_brought_up_to_date_before_it_is_asked_for_schedules(
    retcon: Retcon, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule(built)
    asked: list[str] = []

    def noted(method: str) -> None:
        real = getattr(SqlLedger, method)
        monkeypatch.setattr(SqlLedger, method, lambda ledger: (asked.append(method), real(ledger))[1])

    noted("bring_up_to_date")
    noted("turns")
    assert retcon("load", "--due").code == 0
    assert asked == ["bring_up_to_date", "turns"]


def test_a_load_by_hand_is_a_look_too(retcon: Retcon, built: Path) -> None:
    schedule(built)
    assert retcon("load").code == 0
    assert turns(built) == {"load": True}
    assert retcon("load", "--due", "--json").result["due"] == []


def test_a_load_that_fails_leaves_its_time_open_and_tells_why(
    retcon: Retcon, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule(built)

    def away(*_: object) -> object:
        raise Fault("the catalog is away")

    with monkeypatch.context() as broken:
        broken.setattr(MetadataFiles, "facts", away)
        assert retcon("load", "--due").code == 3
    (standing,) = retcon("schedule", "--json").result["schedules"]
    assert (standing["overdue"], standing["trouble"]) == (True, "the catalog is away")
    assert "overdue, never done: the catalog is away" in " ".join(retcon("schedule").out.split())
    assert retcon("load", "--due").code == 0
    assert turns(built) == {"load": True}


def test_a_model_that_was_left_alone_is_due_again(retcon: Retcon, built: Path) -> None:
    schedule(built)
    lake = catalog(built)
    lake.rename_table("raw.orders", "raw.elsewhere")
    refused = retcon("load", "--due")
    assert (refused.code, "raw.orders is not there" in refused.err) == (1, True)
    (standing,) = retcon("schedule", "--json").result["schedules"]
    assert (standing["overdue"], standing["trouble"]) == (True, "raw.orders is not there")
    lake.rename_table("raw.elsewhere", "raw.orders")
    lake.close()
    assert retcon("load", "--due").code == 0
    assert turns(built) == {"load": True}


def test_a_load_that_somebody_paused_ends_nobody_who_stays() -> None:
    assert _called([sys.executable, "-c", "import sys; sys.exit(130)"]) == 130


def test_a_load_that_was_begun_with_other_code_is_found_anew(retcon: Retcon, built: Path) -> None:
    workspace = Workspace(built)
    (made,) = workspace.ledger.runs()
    stuck = Recorder(workspace, replace(made.plan, id="20260122_fct_orders_usd_st1k", load=Load(advances=()))).stage()
    edit(built, "SELECT", "SELECT 1 AS one,")
    answer = retcon("load")
    assert answer.code == 0, answer.err
    assert f"{stuck.run.id} isn't gone on with: the code of {ORDERS} changed since" in " ".join(answer.err.split())
    workspace = Workspace(built)
    run = workspace.ledger.run(stuck.run.id)
    workspace.close()
    assert run is not None
    assert run.state is RunState.CANCELLED


def test_what_another_process_is_at_is_left_to_it(retcon: Retcon, built: Path) -> None:
    schedule(built)
    workspace = Workspace(built)
    mine = this_process("ben")
    workspace.ledger.claim_schedules({(ORDERS, Kind.LOAD): NOON}, mine, claim="a", seconds=60)
    workspace.close()
    answer = retcon("load", "--due")
    assert (answer.code, "nothing is left to load" in answer.out) == (0, True)
    assert f"{ORDERS}: {mine} is at it" in answer.out
    (standing,) = retcon("schedule", "--json").result["schedules"]
    assert standing["claimed_by"] == str(mine)


def test_a_deep_load_compares_all_whatever_watermarks_say_and_reports_what_is_too_old(
    retcon: Retcon, built: Path
) -> None:
    edit(built, "\n*/", f'\nreplay: {{window: 3 days, deep: "{YEARLY}"}}\n*/')
    assert "compared as a whole 0 0 1 1 *" in retcon("check").out
    assert retcon("load", ORDERS, "--json").result["models"][0]["compared"] is None
    assert turns(built) == {}, "a load of what changed isn't a deep one"
    deep = retcon("load", ORDERS, "--deep", "--dry-run", "--json").result
    (model,) = deep["models"]
    assert model["compared"] == 10
    assert model["differ"] == {"raw.orders": "2026-01-01..2026-01-10", "raw.fx_rates": "2026-01-01..2026-01-10"}
    assert (model["stale"], model["late"]) == ("", "2026-01-01..2026-01-10"), "none of them within the window"
    answer = retcon("load", "--due", "--dry-run")
    assert answer.code == 0, answer.err
    assert "Compared with what was consumed" in answer.out
    assert "raw.fx_rates      10  2026-01-01..2026-01-10" in answer.out
    assert "older than its window" in answer.out
    assert "starting Spark" not in answer.err
    assert retcon("load", "--due", "--deep").code == 2


def test_whoever_stays_loads_what_is_due_and_ctrl_c_ends_it(built: Path) -> None:
    schedule(built)
    command = [sys.executable, "-m", "retcon", "schedule", "--watch"]
    stays = subprocess.Popen(
        command,
        cwd=built,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Whoever was started in the background ignores it, and so do its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + 60
        while turns(built) != {"load": True} and time.monotonic() < deadline and stays.poll() is None:
            time.sleep(0.5)
        stays.send_signal(signal.SIGINT)
        told = stays.communicate(timeout=60)[0]
    finally:
        stays.kill()
    assert turns(built) == {"load": True}, told
    assert stays.returncode == 130
    assert f"due: {ORDERS}" in told
    assert "nothing to load: 1 model" in told


def test_who_has_nothing_to_stay_for_is_told(retcon: Retcon, shop: Path) -> None:
    assert retcon("schedule", "--watch").code == 1
    assert retcon("schedule", "--watch", "--json").code == 2
    assert "no model has a schedule" in retcon("schedule").out
    assert "none of these models has a schedule" in retcon("load", "--due").out


def test_status_tells_how_fresh_models_are(retcon: Retcon, built: Path) -> None:
    def fresh(model: str = ORDERS) -> dict[str, object]:
        (found,) = retcon("status", model, "--json").result["models"]
        return dict(found["freshness"])

    assert (fresh()["known"], fresh()["complete_up_to"], fresh()["stale_by_input"]) == (True, "2026-01-10", {})
    since = (date.today() - date(2026, 1, 11)).days
    assert f"2026-01-10      {since} days" in retcon("status").out
    lake = catalog(built)
    orders = lake.load_table("raw.orders")
    orders.append(orders.scan().to_arrow().slice(2, 1))
    lake.close()
    stale = fresh()
    assert stale["stale_by_input"] == {"raw.orders": {"slices": "2026-01-03", "count": 1}}
    assert stale["complete_up_to"] == "2026-01-02"
    assert fresh(REVENUE)["complete_up_to"] == "2026-01-10"
    # What is on record as an exception is passed by watermarks, and stale until somebody has decided.
    workspace = Workspace(built)
    late = LateChange(model=ORDERS, slice="2026-01-02", contents={}, because_of=("raw.fx_rates",))
    workspace.ledger.move_watermarks([], is_set=True, why="a test", at=NOON, who="ann", late=[late])
    workspace.close()
    assert fresh()["stale_by_input"] == {
        "raw.orders": {"slices": "2026-01-03", "count": 1},
        "raw.fx_rates": {"slices": "2026-01-02", "count": 1},
    }
    assert fresh()["complete_up_to"] == "2026-01-01"
    edit(built, "SELECT", "SELECT 1 AS one,")
    assert fresh()["stale_by_code"] == {"slices": "2026-01-01..2026-01-10", "count": 10}
    shown = " ".join(retcon("status").out.split())
    for told in ("raw.orders 1 2026-01-03", "raw.fx_rates 1 2026-01-02", "code, settings 10 2026-01-01..2026-01-10"):
        assert f"{ORDERS} {told}" in shown
    workspace = Workspace(built)
    (made,) = workspace.ledger.runs()
    workspace.ledger.roll_back(made.id, RolledBack(reason="no", snapshots={}), [], at=NOON, who="ann")
    workspace.close()
    assert fresh()["held"] == {"slices": "2026-01-01..2026-01-10", "count": 10}


def test_status_says_what_it_cant_tell(retcon: Retcon, built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def away(_: object, table: str) -> object:
        asked.append(table)
        raise Fault("the catalog is away")

    with monkeypatch.context() as broken:
        broken.setattr(MetadataFiles, "facts", away)
        answer = retcon("status")
        assert answer.code == 0, answer.err
        assert f"how fresh {ORDERS}, {REVENUE} are: the catalog is away" in answer.out
        assert len(asked) == 1, "who doesn't answer isn't asked again and again"
        models = retcon("status", "--json").result["models"]
        assert [each["freshness"]["known"] for each in models] == [False, False]
        assert [each["slice_count"] for each in models] == [10, 10]
    lake = catalog(built)
    lake.drop_table("raw.orders")
    lake.close()
    answer = retcon("status")
    assert answer.code == 0, answer.err
    assert f"how fresh {ORDERS} is: raw.orders is not there" in answer.out
    edit(built, "SELECT", "SELEC")
    answer = retcon("status")
    assert answer.code == 0, answer.err
    assert "not known" in answer.out
