"""One model: what its file says, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import NONE, Zone, count, slices
from retcon.cli.views.parts import QUIET, STRONG, consumer, facts, name, prose, section, stack, table, title
from retcon.cli.views.projects import batching_text, gates_text, input_text, schedules_text, slicing_text
from retcon.cli.views.states import state_text
from retcon.core.projects import Consumer
from retcon.core.schedules import schedules_of
from retcon.flow.statuses import ModelStatus
from retcon.flow.tell import ModelReport


def model_view(report: ModelReport, consumers: Mapping[str, Consumer], zone: Zone) -> RenderableType:
    """Keys, neighbours, state, last runs."""
    model = report.model
    return stack(
        [
            title("Model", Text(model.name, style=STRONG), Text(model.path, style=QUIET)),
            Text(model.description) if model.description else None,
            Text(),
            facts(_facts(report, consumers, zone)),
            _runs(report, zone),
        ]
    )


def _facts(report: ModelReport, consumers: Mapping[str, Consumer], zone: Zone) -> Iterator[tuple[str, RenderableType]]:
    model = report.model
    yield "slices", f"{slicing_text(model)}"
    yield "replay", batching_text(model)
    yield "key", ", ".join(model.key) or NONE
    yield "reads", stack(input_text(i, model.grain) for i in model.inputs)
    yield "readers", ", ".join(report.readers) or NONE
    yield "consumers", ", ".join(consumer(consumers, each) for each in model.consumers) or NONE
    yield "gates", gates_text(gate.name for gate in model.gates)
    if schedules_of(model):
        yield "loaded", schedules_text(model)
    yield "owner", model.owner or NONE
    if model.tags:
        yield "tags", ", ".join(model.tags)
    yield "old version", f"kept for {model.retention_days} days"
    yield "published", _published(report.status, zone)


def _published(status: ModelStatus, zone: Zone) -> str:
    if status.published is None:
        return f"never; adopted with {slices(status.unknown)}, unknown" if status.unknown else "never"
    held = f"{slices(status.slices)} ({count(len(status.slices))} slices, {count(status.rows)} rows)"
    return f"{held}, last {zone.named(status.published.published)}"


def _runs(report: ModelReport, zone: Zone) -> RenderableType:
    if not report.runs:
        return section("Runs", Text("none yet", style=QUIET))
    rows = [(run.id, state_text(run.state), zone.moment(run.created), run.by, run.plan.reason) for run in report.runs]
    heads = (name("run"), name("state"), name(f"begun ({zone.name})"), name("by"), prose("why"))
    return section("Last runs", table(heads, rows))
