"""An input that every wave reads whole is read once, and let go when they are done."""

from __future__ import annotations

from typing import Any

import pytest

from retcon.errors import Fault
from retcon.flow.apply import Until
from tests.shops import Meddling, Shop

pytestmark = pytest.mark.spark

NAMED = """\
/* retcon
slices: {by: order_date, every: day}
inputs: {raw.orders: {time: order_date}, raw.customers: {}}
replay: {wave: 2}
*/
SELECT o.order_date, o.order_id, c.name FROM raw.orders o JOIN raw.customers c ON c.customer = o.customer
"""


@pytest.fixture
def named(shop: Shop) -> Shop:
    shop.open_doors()
    (shop.root / "customers.csv").write_text("customer,name\n" + "".join(f"c{n},customer {n}\n" for n in range(5)))
    settings = shop.root / "retcon.yaml"
    source = "{format: csv, path: customers.csv, columns: {customer: string, name: string}}"
    settings.write_text(settings.read_text() + f"sources: {{raw.customers: {source}}}\n")
    shop.write("mart.named", NAMED)
    return shop


def held(shop: Shop) -> int:
    """Frames that Spark keeps in memory."""
    return int(shop.workspace.spark.sparkContext._jsc.getPersistentRDDs().size())  # type: ignore[union-attr]


def test_waves_read_a_shared_text_once_and_let_it_go(named: Shop) -> None:
    before = held(named)
    kept: list[int] = []

    def counting(real: Any, *words: Any) -> Any:
        done = real(*words)
        kept.append(held(named) - before)
        return done

    plan = named.plan("mart.named")
    assert any("raw.customers would be read whole 4 times" in note for note in plan.notes)
    named.apply(plan, warehouse=Meddling(named.context().warehouse, "stage", counting))
    assert max(kept) == 1, "one frame for all waves"
    assert held(named) == before
    wanted = "SELECT order_date, order_id, concat('customer ', substr(customer, 2)) FROM raw.orders"
    assert named.production("mart.named") == named.rows(wanted)


def test_what_is_kept_is_let_go_where_a_wave_fails(named: Shop) -> None:
    before = held(named)
    named.edit("mart.named", "c.name FROM", "if(o.order_id = 95, raise_error('no'), c.name) AS name FROM")
    with pytest.raises(Fault, match="no"):
        named.apply(named.plan("mart.named"), until=Until.STAGED)
    assert held(named) == before
