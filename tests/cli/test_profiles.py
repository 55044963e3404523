"""`diff --profile`: what columns look like, from the ledger."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retcon.core.events import Judged, ProvingBegan
from retcon.core.profiles import (
    Bins,
    ColumnProfile,
    ProfileEntry,
    Side,
    entry_document,
)
from retcon.wiring import Workspace
from tests.cli.conftest import Records, Retcon
from tests.cli.shops import ORDERS, REVENUE

RUN = "20260122_fct_orders_usd_k3f9"
OLD = ColumnProfile(
    column="amount_usd",
    type="decimal(18,4)",
    rows=1000,
    nulls=10,
    distinct=900,
    low="-3.5",
    high="1234567.8901",
    mean="12.25",
    quantiles=("0", "5", "10.5", "15", "20"),
    bins=Bins(edges=("5", "15"), counts=(300, 400, 290, 10)),
)
CURRENCY = ColumnProfile(
    column="currency",
    type="string",
    rows=1000,
    nulls=0,
    distinct=2,
    bins=Bins(edges=("aa", "bb"), counts=(600, 400, 0, 0), values=("USD", "EUR")),
)


def entry(side: Side, profile: ColumnProfile, model: str = ORDERS) -> ProfileEntry:
    return ProfileEntry(model=model, slice=None, side=side, profile=profile, scope="x")


@pytest.fixture
def profiled(recorded: Records) -> None:
    """A proven run with profiles of two models; of the second nothing was in production."""
    recorder = recorded().stage().prove()
    [proof] = [event.body for event in recorder.ledger.events(RUN) if event.kind == "Judged"]
    entries = [
        entry(Side.PRODUCTION, OLD),
        entry(Side.STAGED, replace(OLD, nulls=110, mean="13", against=(100, 200, 590, 110))),
        entry(Side.PRODUCTION, CURRENCY),
        entry(Side.STAGED, replace(CURRENCY, against=(500, 500, 0, 0))),
        entry(Side.STAGED, replace(CURRENCY, bins=Bins(edges=("aa",), counts=(9, 1, 0))), REVENUE),
    ]
    judged = Judged(
        heads=proof["heads"],
        slices=(),
        verdicts=(),
        totals={},
        profiles=tuple(entry_document(each) for each in entries),
    )
    recorder.tell(ProvingBegan(), judged)


@pytest.mark.usefixtures("profiled")
def test_both_sides_stand_below_one_another_with_their_shapes(retcon: Retcon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workspace, "spark", property(lambda _: pytest.fail("Spark was started")))
    monkeypatch.setenv("COLUMNS", "140")
    answer = retcon("diff", RUN, "--profile")
    assert answer.code == 0, answer.err
    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert "amount_usd production 1,000 1.0% ≈900 -3.5 10.5 12.25 1,234,567.8901 ▅▆▄▁" in lines
    assert "staged 1,000 11.0% ≈900 -3.5 10.5 13 1,234,567.8901 0.81 ▂▃█▂" in lines
    assert any("currency: USD 60.0% → 50.0%, EUR 40.0% → 50.0%" in line for line in lines)
    # Nothing to compare with: no index, and its values aren't known.
    assert "currency staged 1,000 0.0% ≈2 – – – – – █▁▁" in lines
    assert not any(line != line.rstrip() for line in answer.out.splitlines())
    only = retcon("diff", REVENUE, "--profile").out
    assert "amount_usd" not in only


@pytest.mark.usefixtures("profiled")
def test_machines_get_all_of_it(retcon: Retcon) -> None:
    first, second = retcon("diff", RUN, "--profile", "--json").result["profiles"]
    assert (first["model"], second["model"]) == (ORDERS, REVENUE)
    amount, currency = first["columns"]
    assert amount["stability_index"] == pytest.approx(0.8112, abs=1e-4)
    assert amount["production"]["quantiles"] == {"5%": "0", "25%": "5", "50%": "10.5", "75%": "15", "95%": "20"}
    assert amount["staged"]["by_productions_bins"] == [100, 200, 590, 110]
    assert currency["production"]["bins"]["values"] == ["USD", "EUR"]
    assert second["columns"][0]["production"] is None
    assert second["columns"][0]["stability_index"] is None


def test_a_run_without_profiles_says_how_to_get_them(retcon: Retcon, recorded: Records) -> None:
    recorded().stage().prove()
    answer = retcon("diff", RUN, "--profile")
    assert answer.code == 1
    assert "nothing was profiled" in answer.err
    assert "- profile: {columns: all}" in answer.err
    answer = retcon("diff", RUN, "--profile", "--all")
    assert answer.code == 2
