"""Profiles as plain data for machines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from retcon.cli.json_output import Json
from retcon.cli.status_results import run_fields
from retcon.core.profiles import ColumnProfile, stability_of
from retcon.flow.profile import ModelProfile, ProfileReport


def profile_result(report: ProfileReport, model: str | None) -> Json:
    """Per model and column: both sides, and the stability index."""
    models = [each for each in report.models if model in (None, each.model)]
    return {**run_fields(report.run), "profiles": [_model(each) for each in models]}


def _model(profile: ModelProfile) -> Json:
    columns = [
        {
            "column": column,
            "type": new.kind,
            "stability_index": stability_of(column, profile.profiled),
            "production": None if old is None else _side(old),
            "staged": _side(new),
        }
        for column, (old, new) in profile.columns.items()
    ]
    return {"model": profile.model, "columns": columns}


def _side(profile: ColumnProfile) -> dict[str, Any]:
    told = asdict(profile)
    return {
        **{key: told[key] for key in ("rows", "nulls", "distinct", "mean")},
        "min": told["low"],
        "max": told["high"],
        "quantiles": dict(zip(("5%", "25%", "50%", "75%", "95%"), told["quantiles"], strict=False)),
        "bins": told["bins"],
        "by_productions_bins": list(told["against"]),
    }
