"""The name that was probably meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.suggestions import did_you_mean, nearest

MODELS = ["mart.fct_daily_revenue", "mart.fct_orders_usd", "raw.orders", "staging.customers"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("mart.fct_daily_revenu", "mart.fct_daily_revenue"), ("mart.fct_order_usd", "mart.fct_orders_usd"),
     ("fct_daily_revenue", "mart.fct_daily_revenue"), ("warehouse.customers", "staging.customers"),
     ("raw.order", "raw.orders"), ("raw.odrers", "raw.orders"), ("orders", "raw.orders")],
)  # fmt: skip
def test_a_misspelt_name_or_a_wrong_namespace_finds_the_one_that_was_meant(typed: str, meant: str) -> None:
    assert nearest(typed, MODELS) == meant
    assert did_you_mean(typed, MODELS) == f"did you mean {meant}?"


@pytest.mark.parametrize("typed", ["zzz", "", "qwerty.uiop"])
def test_a_name_like_no_other_gets_no_suggestion(typed: str) -> None:
    assert nearest(typed, MODELS) is None
    assert did_you_mean(typed, MODELS) == ""
    assert nearest("raw.orders", []) is None


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=6, unique=True), st.data())
def test_a_known_name_is_its_own_nearest(known: list[str], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(known))
    assert nearest(name, iter(known)) == name
