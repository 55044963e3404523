"""Reports as plain data for machines: decimals as text, moments in ISO with Z.

Snapshot ids are text, too: they don't fit the numbers of most JSON readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retcon.cli.certificate_results import followed_up_result
from retcon.cli.figures import moment
from retcon.cli.status_results import model_status_result, progress_result, run_fields
from retcon.cli.timing_results import taken_result
from retcon.cli.views.projects import CheckReport, next_commands
from retcon.cli.views.sql import Rendering
from retcon.core.evolution import ColumnStep
from retcon.core.expectations import expectation_document
from retcon.core.models import Input, Model, Reach, reach_text
from retcon.core.plans import Plan, to_document
from retcon.core.promises import promise_of, seen_of
from retcon.core.runs import RecordedVerdict, RecordedWave, Run
from retcon.core.sweeping import Leftover
from retcon.core.troubles import Trouble
from retcon.flow.adopt import Adopted
from retcon.flow.doctor import Checkup
from retcon.flow.rollback import Undone
from retcon.flow.statuses import RunProgress
from retcon.flow.sweep import Swept
from retcon.flow.tell import Change, DiffReport, EnvironmentDiff, ModelDiff, ModelReport, RunReport

if TYPE_CHECKING:
    from retcon.lakehouse.samples import Samples

Json = dict[str, Any]


def new_project_result(folder: Path, files: Iterable[Path], samples: Samples) -> Json:
    return {
        "folder": str(folder.absolute()),
        "files": [str(file) for file in files],
        "tables": list(samples.tables),
        "first": _day(samples.first),
        "last": _day(samples.last),
        "next": list(next_commands(folder, samples)),
    }


def check_result(report: CheckReport) -> Json:
    return {
        "project": report.project.settings.name,
        "timezone": report.project.settings.timezone,
        "environment": report.project.environment,
        "environments": dict(report.project.settings.environments),
        "models": [_model(model) for model in report.models],
        "foreign": [
            {"name": s.name, "format": s.format, "promise": promise_of(s), "seen": seen_of(s)} for s in report.foreign
        ],
        "notes": list(report.notes),
    }


def _model(model: Model) -> Json:
    return {
        "name": model.name,
        "path": model.path,
        "description": model.description,
        "owner": model.owner,
        "tags": list(model.tags),
        "slices": {
            "by": model.slicing.by,
            "every": str(model.grain),
            "start": None if model.slicing.start is None else _day(model.slicing.start),
        },
        "key": list(model.key),
        "inputs": [_input(i) for i in model.inputs],
        "after": list(model.after),
        "order": model.replay.order.value,
        "in_waves": not model.one_by_one,
        "slice_by_slice": list(model.one_by_one or model.batching.reasons),
        "gates": [gate.name for gate in model.gates],
        "consumers": list(model.consumers),
        "schedule": model.schedule,
        "deep": model.replay.deep,
        "retention_days": model.retention_days,
        "code": model.fingerprint,
    }


def _input(i: Input) -> Json:
    return {
        "name": i.name,
        "table": i.table,
        "time": i.time,
        "lookback": _reach(i.lookback),
        "lookahead": _reach(i.lookahead),
        "on_change": i.on_change.value,
        "valid": None if i.valid is None else asdict(i.valid),
        "as_of": "slice" if i.at_slice_end else None,
    }


def _reach(reach: Reach) -> int | str:
    """A number of slices, or a time in words."""
    return reach if isinstance(reach, int) else reach_text(reach)


def rendering_result(rendering: Rendering) -> Json:
    return {
        "model": rendering.model.name,
        "slices": rendering.slices.text,
        "jobs": len(rendering.jobs),
        "inputs": [
            {
                "name": each.input.name,
                "table": each.read.table,
                "view": each.view,
                "snapshot": id_text(each.read.snapshot_id),
                "slices": None if each.read.slices is None else each.read.slices.text,
                "filter": each.filter,
            }
            for each in rendering.inputs
        ],
        "parameters": {key: _plain(value) for key, value in rendering.parameters.items()},
        "output_filter": rendering.output_filter,
        "python" if rendering.model.is_python else "sql": rendering.text,
    }


def plan_result(plan: Plan, path: Path | None) -> Json:
    """The document of the plan's file, and where that is; None for a dry run."""
    return {"file": None if path is None else str(path), "plan": _plan(plan)}


def _plan(plan: Plan) -> Json:
    document = to_document(plan)
    for model in document["models"]:
        for each in model["inputs"]:
            each["snapshot"] = id_text(each["snapshot"])
            for version in each.get("as_of", ()):
                version["snapshot"] = id_text(version["snapshot"])
        if "beside" in model:
            model["beside"]["instead_of"] = id_text(model["beside"]["instead_of"])
    return document


def schema_result(model: str, steps: Sequence[ColumnStep]) -> Json:
    """The history of a table's columns, oldest first."""
    return {
        "model": model,
        "columns": [
            {
                "column": step.column,
                "step": step.step.value,
                "type": step.type,
                "before": step.before,
                "snapshot": id_text(step.version.snapshot_id),
                "at": moment(step.version.at),
                "or_earlier": step.version.is_oldest_kept,
                "run": step.version.run,
            }
            for step in steps
        ],
    }


def adopted_result(adopted: Adopted) -> Json:
    """What was taken over."""
    adoption = adopted.adoption
    return {
        "model": adoption.model,
        "snapshot": id_text(adoption.snapshot_id),
        "slices": adoption.slices.text,
        "slice_count": len(adoption.slices),
        "rows": adopted.survey.rows,
        "reason": adoption.reason,
        "by": adoption.who,
        "at": moment(adoption.at),
        "notes": list(adopted.notes),
    }


def run_result(report: RunReport, diff: DiffReport | None, *, code: bool = False, slices: bool = False) -> Json:
    """One run with everything that was recorded; code and slices where they are asked for."""
    result = {
        **progress_result(report.progress),
        "expectations": [
            {**expectation_document(each), "verdict": verdict_results([found])[0] if found is not None else None}
            for each, found in report.expectations
        ],
        "tables": [_table(report.run, model) for model in report.run.tables],
        "rollback_until": moment(report.rollback_until),
        "old_version": report.old_version,
        "consumers": list(report.run.plan.consumers),
        "verdicts": verdict_results(report.verdicts),
        "waves": [_wave(wave) for wave in report.waves],
        "totals": _totals(report.run),
        "taken": taken_result(report),
        **followed_up_result(report),
        "parameters": dict(report.parameters),
        "applied": [{"at": e.at, "who": e.who, **e.body} for e in report.applied],
        "rebases": [
            {
                "round": each.round,
                "at": each.at,
                "slices": {model: slices.text for model, slices in each.slices.items()},
                "commits": {name: list(commits) for name, commits in each.commits.items()},
                "replaced": {model: slices.text for model, slices in each.replaced.items()},
            }
            for each in report.rebases
        ],
        "reproduced": [{"at": e.at, "who": e.who, **e.body} for e in report.reproduced],
        "checked": [{"at": e.at, "who": e.who, **e.body} for e in report.checked],
        "rebuilt": [
            {"at": e.at, "who": e.who, "from": e.body["source"], "undone": e.body["undone"]} for e in report.rebuilt
        ],
        "record": {
            "events": [
                {"number": e.number, "at": e.at, "who": e.who, "kind": e.kind, "hash": e.hash} for e in report.events
            ],
            "sound": report.broken_link is None,
            "broken_at": report.broken_link,
        },
        "plan": _plan(report.run.plan),
    }
    if diff is not None:
        result["diff"] = [_model_diff(model, slices=False) for model in diff.models]
    if code:
        result["code"] = dict(report.code)
    if slices:
        result["slices"] = [
            {**asdict(each), "state": each.state.value, "metrics": _pairs(each.metrics)} for each in report.slices
        ]
    return result


def verdict_results(verdicts: Sequence[RecordedVerdict]) -> list[Json]:
    return [
        {
            "model": each.verdict.model,
            "gate": each.verdict.gate,
            "kind": each.verdict.kind,
            "passed": each.verdict.passed,
            "warning": each.verdict.is_warning,
            "holds": each.holds,
            "override": each.override,
            "summary": each.verdict.summary,
            "findings": [asdict(finding) for finding in each.verdict.findings],
        }
        for each in verdicts
    ]


def _table(run: Run, model: str) -> Json:
    table = run.tables[model]
    return {
        "table": table.table,
        "base_snapshot": id_text(table.snapshot_before),
        "proven_snapshot": id_text(table.head),
        "published_snapshot": id_text(table.published_snapshot),
        "made": table.made,
        "beside": None if table.replaces is None else table.replaces.beside,
    }


def _wave(wave: RecordedWave) -> Json:
    return {**asdict(wave), "state": wave.state.value, "snapshot_id": id_text(wave.snapshot_id)}


def _totals(run: Run) -> Json:
    return {model: _pairs(pairs) for model, pairs in run.totals.items()}


def _pairs(pairs: Mapping[str, tuple[str | None, str | None]]) -> Json:
    return {name: {"old": old, "new": new} for name, (old, new) in pairs.items()}


def diff_result(report: DiffReport, model: str | None) -> Json:
    return {
        **run_fields(report.run),
        "compared": "before and published" if report.is_published else "production and staged",
        "diff": [_model_diff(each, slices=True) for each in report.models if model in (None, each.model)],
    }


def environment_diff_result(report: EnvironmentDiff) -> Json:
    return {
        "environment": report.environment,
        "compared": f"production and {report.environment}",
        "same": report.is_same,
        "same_code": report.same_code,
        "only_in_production": report.only_production.text,
        "only_in_environment": report.only_environment.text,
        "diff": [_model_diff(report.model, slices=True)],
    }


def _model_diff(diff: ModelDiff, *, slices: bool) -> Json:
    result: Json = {
        "model": diff.model,
        "slices_changed": diff.changed,
        "rows": _counts(diff.rows),
        "totals": {name: _change(pair) for name, pair in diff.totals.items()},
    }
    if slices:
        result["slices"] = [
            {
                "slice": each.slice,
                "rows": _counts(each.rows),
                "metrics": {name: _change(pair) for name, pair in each.metrics.items()},
                "same_content": each.same_content,
            }
            for each in diff.slices
        ]
    return result


def _change(pair: Change) -> Json:
    return {"old": _plain(pair.old), "new": _plain(pair.new), "relative": _plain(pair.relative)}


def _counts(pair: Change) -> Json:
    old, new = (None if value is None else int(value) for value in (pair.old, pair.new))
    return {"old": old, "new": new, "relative": _plain(pair.relative)}


def undone_result(undone: Undone) -> Json:
    stale = [{"model": model, "slices": slices, "run": run} for model, slices, run in undone.stale]
    tables = [_table(undone.run, model) for model in undone.run.tables]
    ways = [
        {"table": undo.table, "way": undo.way.value, "later": [str(landing.snapshot_id) for landing in undo.later]}
        for undo in undone.ways
    ]
    kept = list(undone.run.added_columns)
    return {**run_fields(undone.run), "tables": tables, "ways": ways, "stale": stale, "columns_kept": kept}


def paused_result(progress: RunProgress) -> Json:
    return progress_result(progress)


def cancelled_result(run: Run) -> Json:
    return {**run_fields(run), "columns_kept": list(run.added_columns)}


def swept_result(swept: Swept) -> Json:
    return {
        "dry_run": swept.is_dry,
        "dropped": [_leftover(each) for each in swept.dropped],
        "kept": [_leftover(each) for each in swept.kept],
    }


def _leftover(left: Leftover) -> Json:
    return {
        "table": left.table,
        "name": left.name,
        "kind": left.kind.value,
        "run": left.run,
        "why": left.why,
        "until": moment(left.until),
    }


def checkup_result(checkup: Checkup) -> Json:
    return {
        "troubles": [_trouble(each) for each in checkup.troubles],
        "repaired": [_trouble(each) for each in checkup.repaired],
        "looked_at": {
            "runs": checkup.runs,
            "tables": checkup.tables,
            "files": checkup.files,
            "files_left": checkup.files_left,
        },
    }


def _trouble(trouble: Trouble) -> Json:
    return {
        "kind": trouble.kind.value,
        "table": trouble.table or None,
        "run": trouble.run or None,
        "what": trouble.what,
        "means": trouble.means,
        "repair": trouble.repair or None,
        "next": trouble.remedy,
        "files": list(trouble.details),
    }


def model_result(report: ModelReport) -> Json:
    return {
        **_model(report.model),
        "readers": list(report.readers),
        "status": model_status_result(report.status),
        "runs": [run_fields(run) for run in report.runs],
    }


def _plain(value: object) -> Any:
    match value:
        case Decimal():
            return str(value)
        case datetime():
            return moment(value)
        case date():
            return _day(value)
        case _:
            return value


def _day(day: date) -> str:
    return day.isoformat()


def id_text(snapshot: int | None) -> str | None:
    return None if snapshot is None else str(snapshot)
