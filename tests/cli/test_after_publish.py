"""What follows a publish, and what can be told of it later: without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from retcon.core.events import Certified, CheckedAfter
from retcon.wiring import Workspace
from tests.cli.conftest import Records, Retcon
from tests.cli.shops import ORDERS, REVENUE
from tests.cli.test_running import spark_is_an_error  # noqa: F401 (a fixture)
from tests.ledger.examples import certificate, verdict

RUN = "20260122_fct_orders_usd_k3f9"


def test_a_certificate_is_shown_in_a_line_and_whole(retcon: Retcon, recorded: Records) -> None:
    recorded().stage().prove().publish()
    shown = retcon("show", RUN).out
    assert "5 files, 60 rows: as they were" in shown
    assert "4 → 4 files, as proven" in shown
    assert "stand: the files that they were passed on are the published ones" in shown
    whole = retcon("show", RUN, "--certificate").out
    for told in ("✓ holds", "digest before", "d1", "3 opened, 2 shared and only counted", str(2**62 + 9)):
        assert told in whole
    result = retcon("show", RUN, "--certificate", "--json").json["result"]
    assert [each["table"] for each in result["certificate"]] == [ORDERS, REVENUE]
    assert result["certificate"][0]["published"] == str(2**62 + 9)
    assert result["certificate"][0]["holds"] is True
    assert retcon("show", RUN, "--json").json["result"]["after"]["judged_again"] == []


def test_where_there_is_none_it_says_what_makes_it(retcon: Retcon, recorded: Records) -> None:
    driver = recorded().stage().prove()
    answer = retcon("show", RUN, "--certificate")
    assert answer.code == 1
    assert "it isn't published" in answer.err
    driver.publish(followed_up=False)
    answer = retcon("show", RUN, "--certificate")
    assert answer.code == 1
    assert f"`retcon apply {RUN}` makes it" in answer.err
    assert retcon("show", RUN, "--certificate", "--code").code == 2
    assert retcon("show", ORDERS, "--certificate").code == 2


@pytest.mark.usefixtures("spark_is_an_error")
def test_apply_makes_up_for_it_once_and_tells_what_it_cannot(retcon: Retcon, recorded: Records, shop: Path) -> None:
    recorded().stage().prove().publish(followed_up=False)
    answer = retcon("apply", RUN)
    assert answer.code == 0
    assert "looking at it as it is published" in answer.err
    # Its tables were never made: nothing can be told of them, and nobody is asked to compute anything.
    assert "? can't be told" in answer.out
    assert f"{ORDERS} isn't there any more" in answer.out
    events = [event.kind for event in Workspace(shop).ledger.events(RUN)]
    assert events[-2:] == ["Certified", "CheckedAfter"]
    assert "nothing was done" in retcon("apply", RUN).err
    assert [event.kind for event in Workspace(shop).ledger.events(RUN)] == events


@pytest.mark.usefixtures("spark_is_an_error")
def test_a_publish_that_does_not_hold_is_told_every_time_with_the_way_back(retcon: Retcon, recorded: Records) -> None:
    driver = recorded().stage().prove().publish(followed_up=False)
    wrong = certificate(ORDERS, problems=("1 file proven, and not published, e.g. x.parquet",))
    driver.tell(
        Certified(tables=(wrong, certificate(REVENUE))),
        CheckedAfter(verdicts=(verdict("unique", failed=True, model=REVENUE),), held={}),
    )
    for _ in range(2):
        answer = retcon("apply", RUN)
        assert answer.code == 4
        assert "✗ doesn't hold" in answer.out
        assert "published; production shows it" in answer.err
        assert f"retcon rollback {RUN} --reason" in answer.err
    error = retcon("apply", RUN, "--json").json["error"]
    assert error["code"] == "production"
    assert error["certificate"][0]["problems"] == list(wrong.problems)
    assert error["after"]["judged_again"][0]["passed"] is False


def test_what_cannot_be_reproduced_is_refused_before_anything_is_started(retcon: Retcon, recorded: Records) -> None:
    driver = recorded().stage().prove()
    answer = retcon("reproduce", RUN)
    assert answer.code == 1
    assert "only what was published can be reproduced" in answer.err
    driver.publish()
    for argv, told in (
        (("--slices", "2026-01-02", "--limit", "1"), "--slices says which"),
        (("--model", "mart.nope"), "has no model mart.nope"),
        (("--slices", "2019-01-01..2019-01-02"), "names none of the run's slices"),
        (("--slices", "nonsense"), "names none of the run's slices"),
    ):
        answer = retcon("reproduce", RUN, *argv)
        assert answer.code == 2
        assert told in answer.err
    # The code on record isn't what the plan has the fingerprint of: that is found out without Spark.
    answer = retcon("reproduce", RUN, "--limit", "2")
    assert answer.code == 1
    assert "? can't" in answer.out
    result = retcon("reproduce", RUN, "--slices", "2026-01-02..2026-01-03", "--json").json["result"]
    assert (result["same"], result["differs"], result["impossible"]) == (0, 0, 4)
    assert {each["slice"] for each in result["slices"]} == {"2026-01-02", "2026-01-03"}
    assert "0 slices the same, 4 couldn't be computed; by" in retcon("show", RUN).out
