"""`expect` in a plan's file: read without Spark, or refused with line and remedy."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from tests.core.test_plans import a_plan

from retcon.core.expectations import Expectation
from retcon.core.gates import Metric
from retcon.core.plans import Plan, Role
from retcon.errors import ProjectInvalid, Refused
from retcon.project.expectations import require_known_columns
from retcon.project.metrics import columns_in, read_condition
from retcon.project.plan_files import plan_path, read_plan, with_expectations, write_plan

MART = a_plan().models[0].name
FULL = {
    "metric": "sum(revenue_usd)",
    "change": {"from": "-3%", "to": "1%"},
    "where": "currency <> 'USD'",
    "unchanged": "currency = 'USD'",
}


def one_model() -> Plan:
    plan = a_plan()
    return replace(plan, models=plan.models[:1])


def edited(folder: Path, expect: str) -> Plan:
    """A plan whose file somebody gave an expectation, read again."""
    plan = one_model()
    write_plan(plan, folder)
    path = plan_path(folder, plan.id)
    path.write_text(path.read_text() + f"expect: {expect}\n")
    return read_plan(path, folder)


def test_what_is_written_by_hand_is_read_and_the_digest_still_fits(tmp_path: Path) -> None:
    plan = edited(
        tmp_path,
        "{metric: sum(revenue_usd), change: {from: -3%, to: 1%}, where: currency <> 'USD', "
        "unchanged: currency = 'USD'}",
    )
    assert plan.expect == (
        Expectation(
            model=MART,
            metric=Metric(expression="sum(revenue_usd)", is_additive=True),
            low=Decimal("-0.03"),
            high=Decimal("0.01"),
            where="currency <> 'USD'",
            unchanged="currency = 'USD'",
        ),
    )
    # What is written of it again is what people write, and reads the same.
    write_plan(plan, tmp_path)
    text = plan_path(tmp_path, plan.id).read_text()
    assert "additive" not in text
    assert read_plan(plan_path(tmp_path, plan.id), tmp_path) == plan


def test_there_may_be_several(tmp_path: Path) -> None:
    plan = edited(tmp_path, f"[{{metric: avg(x), change: {{to: 0.5}}}}, {{model: {MART}, unchanged: a IS NULL}}]")
    first, second = plan.expect
    assert first.metric == Metric(expression="avg(x)", is_additive=False)
    assert (first.low, first.high) == (None, Decimal("0.5"))
    assert (second.metric, second.unchanged) == (None, "a IS NULL")


@pytest.mark.parametrize(
    ("expect", "message"),
    [
        ("{metric: sum(a)}", "needs `metric`, and `change`"),
        ("{change: {from: 1%}}", "needs a `metric` with its `change`, or `unchanged`"),
        ("{unchanged: a = 1, where: b = 2}", "has a `where`, but no `metric`"),
        ("{metric: sum(a), change: {from: 1%, to: -1%}}", "can't be met"),
        ("{metric: a, change: {to: 1%}}", "isn't an aggregate"),
        ("{metrics: sum(a)}", "did you mean metric?"),
        ("{metric: sum(a), change: {until: 1%}}", "unknown key `expect.change.until`"),
        ("{metric: sum(a), change: {to: 1%}, additive: true}", "unknown key `expect.additive`"),
        ("{unchanged: rand() > 0.5}", "varies"),
        ("{unchanged: d < current_date}", "varies"),
        ("{unchanged: sum(a) > 1}", "holds an aggregate"),
        ("{unchanged: a IN (SELECT b FROM raw.t)}", "holds a subquery"),
        ("{unchanged: 'a = :day'}", "holds a parameter"),
        ("{unchanged: 'a = 1 -- and b'}", "holds a comment"),
        ("{unchanged: 'a = 1, b = 2'}", "must be one expression"),
        ("{unchanged: a = 1 FROM raw.t}", "must be one expression"),
        ("{unchanged: '1'}", "must be a condition"),
        ("{unchanged: a =}", "can't be read"),
        ("{model: mart.nope, unchanged: a = 1}", "isn't in the plan"),
        ("[3]", "must be a mapping"),
        ("something", "must be a mapping"),
    ],
)
def test_what_cant_be_expected_is_refused_with_its_line(tmp_path: Path, expect: str, message: str) -> None:
    with pytest.raises(ProjectInvalid) as error:
        edited(tmp_path, expect)
    [problem] = error.value.problems
    assert message in problem.message
    assert problem.line is not None
    assert problem.line > 20


def test_where_several_models_were_selected_one_has_to_be_named() -> None:
    plan = a_plan()
    second = replace(plan.models[0], name="mart.second")
    several = replace(plan, models=(replace(plan.models[0], role=Role.SELECTED), second))
    with pytest.raises(ProjectInvalid, match="several models"):
        with_expectations(several, FULL, "--expect")
    assert with_expectations(several, {**FULL, "model": "mart.second"}, "x").expect[0].model == "mart.second"
    downstream = replace(plan, models=(plan.models[0], replace(second, role=Role.DOWNSTREAM)))
    assert with_expectations(downstream, FULL, "x").expect[0].model == plan.models[0].name


def test_a_model_of_an_environment_may_be_called_as_production_calls_it() -> None:
    plan = one_model()
    there = replace(
        plan,
        request=replace(plan.request, environment="staging"),
        models=(replace(plan.models[0], name="staging_mart.x"),),
    )
    assert with_expectations(there, {**FULL, "model": "mart.x"}, "x").expect[0].model == "staging_mart.x"


def test_columns_that_a_model_doesnt_have_are_refused_with_the_nearest() -> None:
    plan = with_expectations(one_model(), FULL, "x")
    require_known_columns(plan, {MART: ("Currency", "revenue_USD")})
    require_known_columns(plan, {})
    with pytest.raises(Refused, match=r"`expect\.metric` is about revenue_usd") as error:
        require_known_columns(plan, {MART: ("currency", "revenue_eur")})
    assert error.value.next == "did you mean revenue_eur?"
    with pytest.raises(Refused, match=r"`expect\.where` is about currency"):
        require_known_columns(plan, {MART: ("revenue_usd",)})


def test_columns_of_conditions_are_found_where_they_are_nested_too() -> None:
    assert read_condition(" is_test ") == "is_test"
    found = columns_in("address.zip LIKE 'x%' AND `odd name` > 1 AND exists(tags, t -> t = 'a')")
    assert set(found) == {"address", "odd name", "tags"}
    assert columns_in("count(*)") == ()
