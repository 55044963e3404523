"""Adopting tables that others made: what fits is taken over as it is, what doesn't is refused with the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.transforms import DayTransform, IdentityTransform, MonthTransform
from pyiceberg.typedef import Record
from pyiceberg.types import TimestampType

from retcon.core.plans import Plan
from retcon.core.slices import Grain
from retcon.errors import BadArguments, Refused
from retcon.flow.adopt import Adopted
from tests.flow.workshops import Workshop, scope
from tests.lakehouse.lakes import days, entry
from tests.ledger.examples import published_run


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path).shop()


def adopt(workshop: Workshop, name: str = "mart.a", reason: str = "the nightly job's") -> Adopted:
    w = workshop.workspace
    return w.adopter.adopt(name, reason, clock=w.clock, who=w.who)


def refusal(workshop: Workshop, name: str = "mart.a") -> Refused:
    before = workshop.lake.metadata.facts(name)
    with pytest.raises(Refused) as refused:
        adopt(workshop, name)
    assert workshop.lake.metadata.facts(name) == before
    assert workshop.workspace.ledger.adoption(name) is None
    assert refused.value.next
    return refused.value


def test_a_plan_leaves_a_table_of_others_alone_until_it_is_adopted(workshop: Workshop) -> None:
    workshop.lake.by_day("mart.a", "2026-01-01..2026-01-05", number="n")
    with pytest.raises(Refused, match="retcon neither made nor published") as refused:
        workshop.plan("mart.a", start="2026-01-03", end="2026-01-04")
    assert "retcon adopt mart.a" in refused.value.next
    before = workshop.lake.table("mart.a").metadata_location
    adopted = adopt(workshop)
    assert adopted.adoption.slices == days("2026-01-01..2026-01-05")
    assert (adopted.survey.rows, adopted.notes) == (5, ())
    assert workshop.lake.table("mart.a").metadata_location == before
    assert scope(workshop.plan("mart.a", start="2026-01-03", end="2026-01-04")) == {"mart.a": "2026-01-03..2026-01-04"}


def test_an_adoption_is_recorded_with_who_when_and_why_and_its_slices_are_unknown(workshop: Workshop) -> None:
    workshop.lake.by_day("mart.a", "2026-01-01..2026-01-05", number="n")
    adopt(workshop)
    recorded = workshop.workspace.ledger.adoption("mart.a")
    assert recorded is not None
    assert (recorded.who, recorded.at, recorded.reason) == ("ada", workshop.now, "the nightly job's")
    assert recorded.snapshot_id == workshop.lake.current("mart.a")
    [status] = workshop.workspace.statuses.status(("mart.a",))
    assert (status.unknown, status.published) == (days("2026-01-01..2026-01-05"), None)


def test_adopting_needs_a_reason_a_table_with_rows_and_happens_once(workshop: Workshop) -> None:
    with pytest.raises(BadArguments, match="needs a reason"):
        adopt(workshop, reason=" ")
    assert "no table" in refusal(workshop).message
    workshop.lake.by_day("mart.a", number="n")
    assert "no table with rows" in refusal(workshop).message
    workshop.publish_by_hand("mart.b", "2026-01-01")
    assert "retcon's own already" in refusal(workshop, "mart.b").message
    workshop.lake.catalog.drop_table("mart.a")
    workshop.lake.by_day("mart.a", "2026-01-01", number="n")
    adopt(workshop)
    with pytest.raises(Refused, match="was adopted by ada at 2026-01-22 12:00 UTC: the nightly job's"):
        adopt(workshop)


def test_a_table_made_again_under_its_name_must_be_adopted_again(workshop: Workshop) -> None:
    workshop.lake.by_day("mart.a", "2026-01-01..2026-01-05", number="n")
    adopt(workshop)
    workshop.lake.catalog.drop_table("mart.a")
    workshop.lake.by_day("mart.a", "2026-01-01..2026-01-02", number="n")
    with pytest.raises(Refused, match="retcon neither made nor published"):
        workshop.plan("mart.a", start="2026-01-03", end="2026-01-04")
    assert adopt(workshop).adoption.slices == days("2026-01-01..2026-01-02")


def test_a_table_cut_otherwise_or_with_columns_that_the_query_lacks_is_refused(workshop: Workshop) -> None:
    workshop.lake.make("mart.a", by=MonthTransform(), number="n")
    workshop.lake.add("mart.a", entry(1, Record(672)))
    assert "partitioned by month(d)" in refusal(workshop).message
    workshop.lake.by_day("mart.b", "2026-01-01", number="other")
    assert "the table has other" in refusal(workshop, "mart.b").message


def test_a_table_cut_otherwise_is_taken_over_by_a_model_that_builds_it_anew(workshop: Workshop) -> None:
    workshop.lake.make("mart.a", number="m")
    workshop.lake.append("mart.a", "2026-01-01", "2026-01-02")
    workshop.model("mart.a", keys="strategy: full")
    assert adopt(workshop).notes == (
        "partitioned: not at all becomes day(d): made by the first plan",
        "column m (bigint) goes away: made by the first plan",
        "new column n (its type is told by Spark when staging begins): made by the first plan",
    )
    [model] = workshop.plan("mart.a").models
    assert model.beside is not None


def test_files_of_an_old_partitioning_are_taken_over_where_each_lies_in_one_slice(workshop: Workshop) -> None:
    lake = workshop.lake
    lake.make("mart.a", by=MonthTransform(), number="n")
    day = days("2026-01-05").ordinals[0]
    lake.add("mart.a", entry(1, Record(672), low=day, high=day))
    _cut_by_day(lake)
    lake.add("mart.a", entry(2, Record(day + 1), low=day + 1, high=day + 1))
    adopted = adopt(workshop)
    assert adopted.adoption.slices == days("2026-01-05..2026-01-06")
    assert adopted.notes == ("1 files are still partitioned by month(d): each lies in one slice",)


def test_files_of_an_old_partitioning_that_hold_several_slices_are_refused_with_their_slices(
    workshop: Workshop,
) -> None:
    lake = workshop.lake
    lake.make("mart.a", by=MonthTransform(), number="n")
    first, last = days("2026-01-05..2026-01-07").ordinals[::2]
    lake.add("mart.a", entry(1, Record(672), low=first, high=last))
    _cut_by_day(lake)
    refused = refusal(workshop)
    assert "files that were partitioned by month(d) hold rows of more than one slice" in refused.message
    assert "2026-01-05..2026-01-07" in refused.message
    assert "rewrite_data_files" in refused.next


def test_files_that_do_not_tell_their_slices_are_refused(workshop: Workshop) -> None:
    lake = workshop.lake
    lake.make("mart.a", number="n")
    lake.add("mart.a", entry(1, Record()))
    with lake.table("mart.a").update_spec() as change:
        change.add_field("d", IdentityTransform(), "by_day")
    assert "slices unknown" in refusal(workshop).message


def test_delete_files_sort_orders_and_wap_are_told_and_stay(workshop: Workshop) -> None:
    lake = workshop.lake
    lake.by_day("mart.a", "2026-01-01..2026-01-02", number="n", properties={"write.wap.enabled": "true"})
    ordinal = days("2026-01-02").ordinals[0]
    lake.add("mart.a", entry(9, Record(ordinal), content=DataFileContent.POSITION_DELETES))

    def sort(metadata: dict[str, Any]) -> None:
        field = {"transform": "identity", "source-id": 2, "direction": "asc", "null-order": "nulls-first"}
        metadata["sort-orders"].append({"order-id": 1, "fields": [field]})
        metadata["default-sort-order-id"] = 1

    lake.rewrite("mart.a", sort)
    survey = lake.metadata.survey("mart.a", by="d", grain=Grain.DAY)
    assert (survey.delete_files, survey.takes_branches, survey.format_version) == (1, True, 2)
    notes = adopt(workshop).notes
    assert "1 delete files in 2026-01-02: they go with the slice when it is restated" in notes
    assert any(note.startswith("its sort order stays: n ") for note in notes)
    assert "write.wap.enabled stays: retcon writes to branches of its own" in notes


def test_a_table_of_an_older_format_is_refused_with_how_to_upgrade_it(workshop: Workshop) -> None:
    workshop.lake.by_day("mart.a", "2026-01-01", number="n", properties={"format-version": "1"})
    refused = refusal(workshop)
    assert "format version 1" in refused.message
    assert "'format-version' = '2'" in refused.next


def test_a_table_by_time_is_adopted_by_a_model_of_the_same_or_longer_slices(workshop: Workshop) -> None:
    lake = workshop.lake
    lake.make("mart.a", TimestampType(), by=DayTransform(), number="n")
    lake.add("mart.a", *(entry(o, Record(o)) for o in days("2026-01-01..2026-01-09").ordinals))
    workshop.model("mart.a", slices="by: d, every: week")
    assert adopt(workshop).adoption.slices.grain is Grain.WEEK


def _cut_by_day(lake: Any) -> None:
    with lake.table("mart.a").update_spec() as change:
        change.remove_field("d_cut")
        change.add_field("d", IdentityTransform(), "by_day")


def test_a_table_that_others_made_again_under_a_published_name_is_theirs(workshop: Workshop) -> None:
    workshop.lake.by_day("mart.a", "2026-01-01..2026-01-05", number="n")
    adopt(workshop)
    workshop.lake.catalog.drop_table("mart.a")
    workshop.lake.by_day("mart.a", "2026-01-01..2026-01-05", number="n")
    # Under this name something was published, but that was another table.
    published_run(workshop.ledger, adopted_plan(workshop))
    with pytest.raises(Refused, match="retcon neither made nor published"):
        workshop.plan("mart.a", start="2026-01-03", end="2026-01-04")
    assert adopt(workshop).adoption.slices == days("2026-01-01..2026-01-05")
    assert workshop.plan("mart.a", start="2026-01-03", end="2026-01-04")


def adopted_plan(workshop: Workshop) -> Plan:
    """A plan of the model, made while there is no table in its way."""
    name = workshop.lake.catalog.load_table("mart.a").metadata_location
    workshop.lake.catalog.drop_table("mart.a")
    plan = workshop.plan("mart.a", start="2026-01-03", end="2026-01-04")
    workshop.lake.catalog.register_table("mart.a", name)
    return plan
