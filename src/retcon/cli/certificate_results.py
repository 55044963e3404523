"""What was looked at after a publish, for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from retcon.core.certificates import TableCertificate
from retcon.core.gates import Verdict
from retcon.flow.tell import AfterReport, RunReport


def followed_up_result(report: RunReport) -> dict[str, Any]:
    """The certificate of a run, and the gates on production."""
    return {"certificate": certificate_results(report.certificates), "after": _after(report.after)}


def certificate_results(certificates: Sequence[TableCertificate]) -> list[dict[str, Any]]:
    """What a publish did to each table, file by file."""
    return [
        {
            **asdict(each),
            "base": None if each.base is None else str(each.base),
            "published": str(each.published),
            "problems": list(each.problems),
            "unknown": list(each.unknown),
            "holds": each.holds,
        }
        for each in certificates
    ]


def _after(after: AfterReport | None) -> dict[str, Any] | None:
    if after is None:
        return None
    return {
        "at": after.at,
        "verdicts_standing": after.held,
        "judged_again": [_verdict(each) for each in after.verdicts],
        "unjudged": dict(after.unjudged),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "model": verdict.model,
        "gate": verdict.gate,
        "kind": verdict.kind,
        "passed": verdict.passed,
        "warning": verdict.is_warning,
        "summary": verdict.summary,
        "findings": [asdict(finding) for finding in verdict.findings],
    }
