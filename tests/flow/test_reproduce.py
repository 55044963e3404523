"""Which slices of a run are computed once more: those that it computed itself, by what a real ledger has on record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from retcon.core.events import ProvingBegan, PublishBegan, SlicesKept, StagingDone
from retcon.errors import BadArguments
from retcon.flow.reproduce import Wanted, wanted_slices
from tests.flow.workshops import Workshop
from tests.ledger.examples import (
    FCT,
    Driver,
    a_plan,
    all_staged,
    judged,
    published,
    rebased,
    tables_opened,
    wave_staged,
)

PLAN = a_plan("kept_run", days=4)
LABELS = PLAN.models[0].slices.labels
FIRST_TWO = SlicesKept(model=FCT, slices=dict.fromkeys(LABELS[:2], 100))
PROVEN = (StagingDone(), ProvingBegan(), judged(PLAN))


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    driver = Driver(Workshop(tmp_path).ledger, PLAN)
    driver.tell(tables_opened(PLAN))
    return driver


def computed(driver: Driver) -> str:
    """All that is wanted, once the run is proven and published."""
    driver.tell(*PROVEN, PublishBegan(locations={}))
    driver.publish(event=published(PLAN))
    return wanted_slices(driver.run, Wanted(), driver.ledger)[FCT].text


def test_what_a_run_kept_isnt_tried(driver: Driver) -> None:
    driver.tell(FIRST_TWO, wave_staged(PLAN, 2))
    assert computed(driver) == "2025-10-27..2025-10-28"
    with pytest.raises(BadArguments, match="computed none of these slices"):
        wanted_slices(driver.run, Wanted(slices={FCT: PLAN.models[0].waves[0]}), driver.ledger)


def test_what_it_kept_first_and_staged_after_a_rebase_is(driver: Driver) -> None:
    driver.tell(FIRST_TWO, wave_staged(PLAN, 2), *PROVEN, rebased(PLAN, LABELS[0]))
    wave = wave_staged(PLAN, 1)
    driver.tell(replace(wave, slices=wave.slices[:1]))
    assert computed(driver) == "2025-10-25, 2025-10-27..2025-10-28"


def test_what_it_kept_again_after_a_rebase_isnt(driver: Driver) -> None:
    driver.tell(FIRST_TWO, wave_staged(PLAN, 2), *PROVEN, rebased(PLAN, LABELS[0]))
    driver.tell(SlicesKept(model=FCT, slices={LABELS[0]: 100}))
    assert computed(driver) == "2025-10-27..2025-10-28"


def test_a_wave_that_was_staged_after_all_counts_as_computed(driver: Driver) -> None:
    driver.tell(FIRST_TWO, *all_staged(PLAN))
    assert computed(driver) == "2025-10-25..2025-10-28"
