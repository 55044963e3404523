"""`migrate`: what is refused before Spark is started, and how a comparison reads."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from rich.console import Console

from retcon.cli.views.migrations import migration_result, migration_view
from retcon.core.measures import SliceMeasure
from retcon.core.migrations import ComparedSlice, Comparison, Cost
from tests.cli.conftest import Retcon
from tests.core.examples import days


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("mart.fct_dayly_revenue", "--days", "3"), 1, "did you mean mart.fct_daily_revenue?"),
        (("mart.fct_daily_revenue",), 2, "--days"),
        (("mart.fct_daily_revenue", "--days", "0"), 2, "--days"),
        (("mart.whole", "--days", "3"), 1, "mart.whole isn't cut by time"),
    ],
)
def test_what_cant_be_migrated_is_refused_and_nothing_is_written(
    retcon: Retcon, shop: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    whole = "/* retcon\ninputs: {raw.orders: {}}\n*/\nSELECT count(*) AS n FROM raw.orders\n"
    (shop / "models" / "mart" / "whole.sql").write_text(whole)
    answer = retcon("migrate", *words)
    assert answer.code == code
    assert said in answer.err
    assert not list((shop / "backfills").glob("*.yaml"))


def measure(total: str) -> SliceMeasure:
    return SliceMeasure(rows=12, checksum="a", metrics={"sum(x)": Decimal(total), "avg(x)": None})


def comparison(*apart: int, unsliced: int = 0) -> Comparison:
    return Comparison(
        model="mart.m",
        run="20260122_m_k3f9",
        slices=tuple(
            ComparedSlice(slice=at, incremental=measure("10"), full=measure("12.5" if rows else "10"), apart=rows)
            for at, rows in zip(days("2026-01-05..2026-01-06"), apart, strict=True)
        ),
        full_rows=96,
        unsliced=unsliced,
        cost=Cost(incremental=12.3, waves=3, full=61),
        additive=("sum(x)",),
        reasons=("lookback 1",) if any(apart) else (),
    )


def shown(found: Comparison, *, may_publish: bool = True) -> str:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(migration_view(found, may_publish=may_publish))
    return captured.get()


def test_all_the_same_leads_to_the_cut_over() -> None:
    text = shown(comparison(0, 0))
    assert "the same in every slice" in text
    assert "12 s in 3 waves" in text
    assert "1 min 1 s, 96 rows in all of history, not written" in text
    assert "cut over  retcon apply 20260122_m_k3f9" in text
    assert "cut over" not in shown(comparison(0, 0), may_publish=False)


def test_a_difference_leads_to_its_reasons_and_back() -> None:
    text = shown(comparison(0, 4))
    assert "1 of 2 slices differs" in text
    assert "4 rows apart" in text
    assert "lookback 1" in text
    assert "retcon cancel 20260122_m_k3f9" in text
    assert "retcon apply" not in text
    assert "rows that are in none" in shown(comparison(0, 0, unsliced=2))


def test_machines_get_all_of_it() -> None:
    told = migration_result(comparison(0, 4))
    assert (told["same"], told["compared"], told["differing"]) == (False, "2026-01-05..2026-01-06", "2026-01-06")
    assert told["totals"] == {
        "rows": {"incremental": "24", "full_refresh": "24"},
        "sum(x)": {"incremental": "20", "full_refresh": "22.5"},
    }
    assert told["slices"][1]["full_refresh"]["metrics"] == {"sum(x)": "12.5", "avg(x)": None}
