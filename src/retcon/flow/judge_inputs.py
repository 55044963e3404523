"""Judge the inputs: what must hold of what is read, before anything is computed from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from retcon.core.events import InputsJudged
from retcon.core.gates import Verdict
from retcon.core.plans import PlannedModel
from retcon.core.reads import Read
from retcon.core.runs import Run
from retcon.core.validity import WindowCounts, judge_windows
from retcon.errors import GatesFailed
from retcon.flow.context import Context, placed
from retcon.flow.ports import Progress


def judge_inputs(
    run: Run,
    models: Collection[PlannedModel],
    tables: Collection[str],
    snapshots: Mapping[str, int | None],
    context: Context,
) -> Run:
    """Verdicts on the validity windows that these models read in these tables; one that fails stops the run."""
    looked: dict[tuple[object, ...], WindowCounts] = {}
    verdicts: list[Verdict] = []
    for planned in models:
        model = context.model(planned)
        for i in model.inputs:
            if i.valid is None or i.table not in tables:
                continue
            context.watch(Progress(step="open", model=planned.name, note=f"windows of {i.table}"))
            looking = (i.table, i.valid, model.samples)
            if looking not in looked:
                read = placed(run, Read(table=i.table, snapshot_id=snapshots[i.table], by=None, slices=None))
                looked[looking] = context.warehouse.windows(read, i.valid, samples=model.samples)
            verdicts.append(judge_windows(model.name, i.name, i.valid, looked[looking]))
    if not verdicts:
        return run
    run = context.record(run, InputsJudged(verdicts=tuple(verdicts)))
    failed = [verdict for verdict in verdicts if not verdict.passed]
    if failed:
        named = "; ".join(f"{v.model}:{v.gate}: {', '.join(f.text for f in v.findings)}" for v in failed)
        raise GatesFailed(
            f"validity windows that can't be joined by: {named}",
            state="nothing was staged from them; production is untouched",
            next=f"mend the history, then `retcon plan --refresh backfills/{run.id}.yaml`",
        )
    return run
