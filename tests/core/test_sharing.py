"""Sharing: what many waves read whole is kept where that saves more than it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from retcon.core.plans import Origin, PlannedModel, Version
from retcon.core.projects import Source
from retcon.core.reads import Read
from retcon.core.sharing import kept_inputs, with_kept
from retcon.core.slices import SliceSet
from tests.core.test_plans import planned_inputs, planned_models


@dataclass(frozen=True, kw_only=True)
class SimpleJob:
    reads: Mapping[str, Read]


def reading(model: PlannedModel, waves: int, **change: object) -> PlannedModel:
    """This model in so many waves, with one input that is read whole."""
    given = {"slices": None, "versions": (), "origin": Origin.SOURCE, "bytes": 1_000, "format": None, **change}
    i = replace(model.inputs[0], **given)
    return replace(model, inputs=(i,), waves=(SliceSet(model.slices.grain),) * waves)


models = st.builds(lambda model, i: replace(model, inputs=(i,)), planned_models(), planned_inputs())


@given(models)
def test_text_is_kept_from_the_second_read_and_columns_only_where_they_are_read_often(model: PlannedModel) -> None:
    table = model.inputs[0].table
    assert not kept_inputs([reading(model, 1, format="csv")], {})
    assert kept_inputs([reading(model, 2, format="csv")], {})[table].reads == 2
    assert not kept_inputs([reading(model, 6)], {})
    assert kept_inputs([reading(model, 30)], {})[table].stored == 2_700


@given(models)
def test_reads_of_several_models_count_together(model: PlannedModel) -> None:
    one = reading(model, 1, format="json")
    assert not kept_inputs([one], {})
    assert kept_inputs([one, replace(one, name="mart.another")], {})[model.inputs[0].table].reads == 2


@given(models, st.integers(1, 2**40))
def test_a_table_as_it_was_at_a_slices_end_isnt_kept_though_others_read_it_as_it_is(
    model: PlannedModel, snapshot: int
) -> None:
    plain = reading(model, 30)
    then = replace(plain.inputs[0], name="then", versions=(Version(slices=model.slices, snapshot_id=snapshot),))
    both = replace(plain, inputs=(*plain.inputs, then))
    reads = {i.name: Read(table=i.table, snapshot_id=snapshot, by=None, slices=None) for i in (plain.inputs[0], then)}
    job = with_kept(SimpleJob(reads=reads), both, kept_inputs([both], {}))  # type: ignore[arg-type] # all that is asked of a job
    assert {name: read.is_kept for name, read in job.reads.items()} == {plain.inputs[0].name: True, "then": False}


@given(models)
def test_what_is_cut_to_slices_or_made_by_the_run_isnt_kept(model: PlannedModel) -> None:
    for change in ({"slices": model.slices}, {"origin": Origin.RUN}, {"bytes": None}):
        whole = reading(model, 30, format="csv")
        assert not kept_inputs([replace(whole, inputs=(replace(whole.inputs[0], **change),))], {})


@given(models, st.sampled_from(["DROPMALFORMED", "permissive"]))
def test_text_whose_rows_depend_on_the_columns_that_are_read_isnt_kept(model: PlannedModel, mode: str) -> None:
    text, table = reading(model, 30, format="csv"), model.inputs[0].table
    assert not kept_inputs([text], {table: Source(name=table, format="csv", options={"Mode": mode})})
    assert kept_inputs([text], {table: Source(name=table, format="csv", options={"mode": "failfast"})})
