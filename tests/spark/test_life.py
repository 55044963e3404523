"""Anything, in any order: runs, loads, deletes, maintenance and crashes, with every promise looked at after each step.

`RETCON_EXAMPLES` says how many lives are drawn (3), `RETCON_STEPS` how long each is (15), `RETCON_SEED` which (1). A
failure prints its steps and what came of each; with `RETCON_SHRINK` fewer of them are looked for.
"""

from __future__ import annotations

import copy
import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, event, given, note, seed, settings
from hypothesis import strategies as st

from tests.conftest import SQLITE
from tests.lives import DAYS, Life, Step
from tests.shops import Shop

pytestmark = pytest.mark.spark

EXAMPLES = int(os.environ.get("RETCON_EXAMPLES", "3"))
STEPS = int(os.environ.get("RETCON_STEPS", "15"))
SEED = int(os.environ.get("RETCON_SEED", "1"))
WHAT = (
    "start", "start", "start", "go_on", "go_on", "go_on", "roll_back", "roll_back", "cancel", "sweep",
    "append", "append", "correct", "forget", "forget", "compact", "expire", "remove_orphans",
)  # fmt: skip
STEP = st.builds(
    Step,
    what=st.sampled_from(WHAT),
    day=st.integers(0, DAYS - 1),
    number=st.integers(0, 5),
    dies_at=st.none() | st.integers(0, 35),
)


def is_varied(steps: list[Step]) -> bool:
    """Hypothesis begins with the simplest there is, which is one and the same step over and over."""
    return len({step.what for step in steps}) > min(STEPS // 3, 4)


class Lives:
    """One beginning, from which every life starts anew."""

    def __init__(self, folder: Path) -> None:
        self._kept, self._root = folder / "kept", folder / "a shöp"
        with closing(Shop(self._root, SQLITE)) as shop:
            self._begun = Life(shop).begin()
        shutil.copytree(self._root, self._kept)

    def again(self) -> Life:
        # In the same place: Iceberg's metadata holds whole paths.
        shutil.rmtree(self._root)
        shutil.copytree(self._kept, self._root)
        shop, begun = self._begun.shop, self._begun
        shop.now = begun.runs[next(iter(begun.runs))].plan.created
        life = copy.deepcopy(begun, {id(shop): shop})
        assert life.shop is shop
        return life


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Lives:
    return Lives(tmp_path_factory.mktemp("life"))


@seed(SEED)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate, *((Phase.shrink,) if "RETCON_SHRINK" in os.environ else ())),
    suppress_health_check=list(HealthCheck),
)
@given(steps=st.lists(STEP, min_size=STEPS, max_size=STEPS).filter(is_varied))
def test_whatever_happens_nothing_is_lost_doubled_or_half_shown(lives: Lives, steps: list[Step]) -> None:
    note(f"RETCON_SEED={SEED} RETCON_EXAMPLES={EXAMPLES} RETCON_STEPS={STEPS}")
    life = lives.again()
    with closing(life.shop):
        for step in steps:
            life.told.clear()
            life.live(step)
            note(f"{step}: {'; '.join(life.told)}")
            for told in (step.what, *life.told):
                event(told)
