"""Every combination that is supported gives one and the same table, however it is brought about.

In one wave or two; slice by slice, in any order, after a crash; and by plain SQL over all rows. After a part of it was
restated, by plain SQL over that part, with all other rows as they were. What isn't supported is refused before
anything runs. `RETCON_EXAMPLES` says how many projects of each family are drawn (1).
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from retcon.core.events import WaveStaged
from retcon.core.intervals import edge_text
from retcon.core.models import Order
from retcon.core.plans import Plan, PlannedModel
from retcon.core.runs import Run, RunState
from retcon.core.slices import Grain, SliceSet
from retcon.errors import ProjectInvalid, Refused
from retcon.flow import stage
from retcon.flow.context import Context
from tests.conftest import SQLITE
from tests.kinds import FAMILIES, Kind, Layer, a_kind, some_homes, some_nulls, some_rows, within
from tests.shops import Meddling, Shop

pytestmark = pytest.mark.spark

EXAMPLES = int(os.environ.get("RETCON_EXAMPLES", "1"))
Rows = Counter[tuple[Any, ...]]
NOT_SUPPORTED = (
    "which is a DATE and tells no hours",
    "reads the model mart.once by t, but its slices are",
    "nothing says whether t of",
)
VARIANTS = ("once", "crashed")
CRASHES = [
    ("warehouse", "stage", False), ("warehouse", "stage", True), ("ledger", "record", False),
    ("ledger", "record", True), ("ledger", "publish", False), ("ledger", "publish", True),
]  # fmt: skip
"""A part of retcon, what it does, and whether that is done when the process dies."""


@pytest.mark.parametrize("family", FAMILIES)
@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),  # an example takes seconds: too long to look for a smaller one
    suppress_health_check=list(HealthCheck),
)
@given(random=st.randoms(use_true_random=True))
def test_however_a_table_is_brought_about_it_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, family: str, random: Random
) -> None:
    random = Random(f"retcon{family}{random.random()}")  # each family draws otherwise
    kind = a_kind(random, family)
    root = tmp_path_factory.mktemp("kind")
    with closing(Project(root / uuid4().hex[:8], kind, random)) as project:
        refusal = project.refusal()
        event("refused" if refusal else "supported")
        if refusal:
            assert any(known in refusal for known in NOT_SUPPORTED), refusal
        else:
            project.build()
            project.change()
    shutil.rmtree(root)


class Project(Shop):
    """A project of one kind: each variant has tables of its own, over one source."""

    def __init__(self, root: Path, kind: Kind, random: Random) -> None:
        super().__init__(root, SQLITE)
        self.kind = kind
        self.random = random
        settings = root / "retcon.yaml"
        settings.write_text(
            f"{settings.read_text()}timezone: {kind.timezone}\nenvironments: {{staging: {{prefix: staging_}}}}\n"
        )
        self.environment = "staging" if kind.in_environment else None
        self.remove("mart.orders_usd", "mart.revenue")
        for variant in VARIANTS:
            source = "raw.s"
            for layer, name in zip(kind.layers, self.names(variant, ""), strict=True):
                path = root / "models" / f"{name.replace('.', '/')}.{layer.suffix}"
                path.write_text(layer.text(name, source))
                source = name
        self.sql("CREATE NAMESPACE IF NOT EXISTS raw")
        self.sql(f"CREATE TABLE raw.s (t {kind.type}, k STRING, v INT) USING iceberg {kind.partitioning}")
        self.sql("CREATE TABLE raw.names (k STRING, name STRING) USING iceberg")
        self.sql("INSERT INTO raw.names VALUES ('a', 'Ada'), ('b', NULL)")
        self.sql(f"CREATE TABLE raw.homes (k STRING, since {kind.type}, till {kind.type}) USING iceberg")
        self.move()
        self.insert([*some_rows(random, kind.type, kind.slices), *some_nulls(random)])

    # ── its parts ─────────────────────────────────────────────────────────────────────────────────────────────────

    def insert(self, rows: Sequence[str]) -> None:
        if rows:
            self.sql(f"INSERT INTO raw.s VALUES {', '.join(rows)}")

    def move(self) -> None:
        """Each key is at home somewhere, maybe where it was."""
        self.sql(
            f"INSERT OVERWRITE raw.homes VALUES {', '.join(some_homes(self.random, self.kind.type, self.kind.slices))}"
        )

    def names(self, variant: str, prefix: str | None = None) -> list[str]:
        """The tables of a variant; in the project's own words, or as they are called in the environment."""
        if prefix is None:
            prefix = "staging_" if self.environment else ""
        return [f"{prefix}mart.{variant}", f"{prefix}mart.{variant}_2"][: len(self.kind.layers)]

    def ask(self, *models: str, slices: SliceSet | None = None, **more: Any) -> Plan:
        start, end = (edge_text(edge) for edge in (slices or self.kind.slices).hull().edges)
        return self.plan(*models, start=start, end=end, allow_missing_source=True, **more)

    def refusal(self) -> str:
        """What `check` or `plan` say, if they refuse: what isn't supported never runs."""
        try:
            self.ask(*self.names("once"))
        except (Refused, ProjectInvalid) as refusal:
            return str(refusal)
        return ""

    # ── ways to build it ──────────────────────────────────────────────────────────────────────────────────────────

    def build(self) -> None:
        """In one wave, maybe over a table that was there; and slice by slice, in any order, with a crash."""
        if self.kind.is_adopted:
            self.adopt()
        for part in self.parts():
            self.apply_as_expected(self.ask(*self.names("once"), slices=part, wave=1000))
            self.move()
        self.crash(self.ask(*self.names("crashed"), wave=self.kind.wave))
        source = "raw.s"
        for layer, name in zip(self.kind.layers, self.names("crashed"), strict=True):
            assert self.production(name) == self.rows(layer.recomputed(source)), name
            source = name

    def parts(self) -> list[SliceSet]:
        """The whole range, or two runs in any order; what reads itself begins at its beginning."""
        slices = self.kind.slices
        if not self.kind.in_parts or not isinstance(self.kind.layers[0].cut, Grain):
            return [slices]
        middle = self.random.randrange(1, len(slices))
        parts = [SliceSet(slices.grain, slices.ordinals[:middle]), SliceSet(slices.grain, slices.ordinals[middle:])]
        return parts if self.kind.layers[0].reads_itself else self.random.sample(parts, 2)

    def adopt(self) -> None:
        """The table was there already, and wrong."""
        [name, *_], layer = self.names("once"), self.kind.layers[0]
        self.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.partition('.')[0]}")
        self.sql(
            f"CREATE TABLE {name} USING iceberg {self.random.choice(layer.partitionings())} "
            f"TBLPROPERTIES ('format-version' = '2') AS {layer.recomputed('raw.s', 'coalesce(v, 1) > 0')}"
        )
        w = self.workspace
        w.adopter.adopt(name, "a test", clock=w.clock, who=w.who)

    def crash(self, plan: Plan) -> None:
        """Killed once, anywhere; then applied again."""
        left = self.random.randrange(sum(len(model.waves) for model in plan.models))
        part, method, dies_after = self.random.choice(CRASHES)

        def dies(real: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal left
            is_counted = method != "record" or isinstance(args[1], WaveStaged)
            is_time = is_counted and (left == 0 or method == "publish")
            left -= is_counted
            if is_time and not dies_after:
                raise SystemExit("killed")
            found = real(*args, **kwargs)
            if is_time:
                raise SystemExit("killed")
            return found

        with self.in_any_order(), pytest.raises(SystemExit, match="killed"):
            self.apply(plan, **{part: Meddling(getattr(self.workspace, part), method, dies)})
        self.close()
        with self.in_any_order():
            assert self.apply(plan).state is RunState.PUBLISHED

    @contextmanager
    def in_any_order(self) -> Iterator[None]:
        """Waves out of order, but those that go by time."""
        in_order = stage._missing

        def shuffled(run: Run, context: Context) -> dict[str, list[tuple[int, SliceSet]]]:
            missing = in_order(run, context)
            return {
                planned.name: missing[planned.name]
                if planned.order is Order.SEQUENTIAL
                else self.random.sample(missing[planned.name], len(missing[planned.name]))
                for planned in run.plan.models
            }

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stage, "_missing", shuffled)
            yield

    # ── what it must hold ─────────────────────────────────────────────────────────────────────────────────────────

    def apply_as_expected(self, plan: Plan) -> None:
        """Apply, and find the rows of the scope as plain SQL has them, all others as they were."""
        planned = {model.name: model for model in plan.models}
        before = {name: self.there(name) for name in planned}
        outside = {
            name: self.there(name, f"NOT coalesce({self.scope(layer, planned[name], plan)}, false)")
            for layer, name in zip(self.kind.layers, self.names("once"), strict=True)
            if name in planned
        }
        unplanned = {name: self.there(name) for name in self.names("once") if name not in planned}
        self.apply(plan)
        source = "raw.s"
        for layer, name in zip(self.kind.layers, self.names("once"), strict=True):
            if name in planned:
                scope = self.scope(layer, planned[name], plan)
                computed = self.rows(layer.recomputed(source, scope))
                kept = outside[name] if layer.strategy != "merge" else _others(layer, before[name], computed)
                assert self.production(name) == computed + kept, name
            else:
                assert self.production(name) == unplanned[name], name
            source = name

    def there(self, name: str, where: str = "true") -> Rows:
        """What production shows; nothing where there is no table."""
        facts = self.workspace.tables.facts(name)
        return Counter() if facts is None else self.rows(f"SELECT * FROM {name} WHERE {where}")

    def scope(self, layer: Layer, planned: PlannedModel, plan: Plan) -> str:
        keys = f" AND k IN ({', '.join(map(repr, plan.keys.values))})" if planned.is_keyed and plan.keys else ""
        return f"({layer.inside(planned.computed)}){keys}"

    # ── and change ────────────────────────────────────────────────────────────────────────────────────────────────

    def change(self) -> None:
        """Rows of the source go and come, everywhere; a part of the first table is restated, and what reads it."""
        kind, random = self.kind, self.random
        first = random.randrange(len(kind.slices))
        last = random.randrange(first, len(kind.slices))
        part = SliceSet(kind.slices.grain, kind.slices.ordinals[first : last + 1])
        # What reads itself rests on what was published before.
        changed = SliceSet(part.grain, kind.slices.ordinals[first:]) if kind.layers[0].reads_itself else kind.slices
        gone = f"{random.randrange(5)}, {random.randrange(9)}"
        self.sql(f"DELETE FROM raw.s WHERE ({within(kind.type, part)}) AND v IN ({gone})")
        self.insert(some_rows(random, kind.type, changed, 2))
        self.move()
        keys = self.workspace.listed_keys("k=a,c").keys if kind.with_keys else None
        try:
            plan = self.ask(self.names("once")[0], slices=part, keys=keys)
        except Refused:
            assert keys is not None
            plan = self.ask(self.names("once")[0], slices=part)
        self.apply_as_expected(plan)


def _others(layer: Layer, before: Rows, computed: Rows) -> Rows:
    """Rows that stay when others are merged: those of other keys, which are a table's first columns here."""
    width = len(layer.key)
    keys = {row[:width] for row in computed}
    return Counter({row: n for row, n in before.items() if row[:width] not in keys})
