"""Sharing: what many waves read whole is kept where that saves more than it takes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from retcon.core.plans import Origin, PlannedModel
from retcon.core.sharing import kept_inputs
from retcon.core.slices import SliceSet
from tests.core.test_plans import planned_inputs, planned_models


def reading(model: PlannedModel, waves: int, **change: object) -> PlannedModel:
    """This model in so many waves, with one input that is read whole."""
    given = {"slices": None, "versions": (), "origin": Origin.SOURCE, "bytes": 1_000, "format": None, **change}
    i = replace(model.inputs[0], **given)
    return replace(model, inputs=(i,), waves=(SliceSet(model.slices.grain),) * waves)


models = st.builds(lambda model, i: replace(model, inputs=(i,)), planned_models(), planned_inputs())


@given(models)
def test_text_is_kept_from_the_second_read_and_columns_only_where_they_are_read_often(model: PlannedModel) -> None:
    table = model.inputs[0].table
    assert not kept_inputs([reading(model, 1, format="csv")])
    assert kept_inputs([reading(model, 2, format="csv")])[table].reads == 2
    assert not kept_inputs([reading(model, 6)])
    assert kept_inputs([reading(model, 30)])[table].stored == 2_700


@given(models)
def test_reads_of_several_models_count_together(model: PlannedModel) -> None:
    one = reading(model, 1, format="json")
    assert not kept_inputs([one])
    assert kept_inputs([one, replace(one, name="mart.another")])[model.inputs[0].table].reads == 2


@given(models)
def test_what_is_cut_to_slices_or_made_by_the_run_isnt_kept(model: PlannedModel) -> None:
    for change in ({"slices": model.slices}, {"origin": Origin.RUN}, {"bytes": None}):
        whole = reading(model, 30, format="csv")
        assert not kept_inputs([replace(whole, inputs=(replace(whole.inputs[0], **change),))])
