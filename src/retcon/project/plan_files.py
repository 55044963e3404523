"""Plan files: `backfills/<id>.yaml`, reviewed and versioned like code."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import yaml

from retcon.core.budgets import Budget, budget_from
from retcon.core.expectations import written
from retcon.core.keys import Keys, keys_from
from retcon.core.plans import Document, Plan, Request, digest, from_document, request_from, to_document
from retcon.core.suggestions import did_you_mean
from retcon.errors import Fault, Refused
from retcon.project.expectations import read_expectations
from retcon.project.text_files import read_text, shown_path
from retcon.project.yaml_text import YamlDocument, read_yaml
from retcon.values import dataclass

FOLDER = "backfills"
_ID = re.compile(r"[a-z0-9_]+")
_HEADER = """\
# {command}
# reason and expect may be edited; everything else is covered by the digest.
"""


def plan_path(root: Path, plan_id: str) -> Path:
    """Where the plan of this id is kept."""
    return root / FOLDER / f"{plan_id}.yaml"


def write_plan(plan: Plan, root: Path) -> Path:
    """Write the plan's file, whole or not at all."""
    path = plan_path(root, plan.id)
    text = _HEADER.format(command=" ".join(plan.request.command.split())) + yaml.safe_dump(
        _file_document(plan), sort_keys=False, allow_unicode=True, width=120
    )
    beside = path.with_suffix(".yaml.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    except OSError as error:
        raise Fault(
            f"{path} can't be written: {error.strerror}",
            state="no plan was written",
            next="make the project folder writable for you",
        ) from error
    return path


def _file_document(plan: Plan) -> Document:
    document = to_document(plan)
    return {**document, "expect": written(plan.expect)} if plan.expect else document


def find_plan(name: str, root: Path) -> Path:
    """The file that a path or a plan id means."""
    given = Path(name)
    if given.suffix in (".yaml", ".yml"):
        for candidate in (given, root / given):
            if candidate.is_file():
                return candidate
    elif _ID.fullmatch(name) and plan_path(root, name).is_file():
        return plan_path(root, name)
    known = [path.stem for path in sorted((root / FOLDER).glob("*.yaml"))]
    raise Refused(
        f"there is no plan {name}",
        next=did_you_mean(given.stem, known) or "`retcon plan …` makes one; plans are kept in backfills/",
    )


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a plan was made for: enough to make it anew."""

    id: str
    reason: str
    request: Request
    keys: Keys | None = None
    budget: Budget | None = None
    expect: object = None
    """As it is written; whether it fits is told by the plan that is made anew."""


def read_asked(path: Path, root: Path) -> Asked:
    """What the plan in this file asked for, whatever became of the rest of it."""
    _, document = _documents(path, root)
    try:
        return Asked(
            id=str(document["id"]),
            reason=str(document["reason"]),
            request=request_from(document["request"]),
            keys=keys_from(document["keys"]) if "keys" in document else None,
            budget=budget_from(document.get("budget")),
            expect=document.get("expect"),
        )
    except (KeyError, TypeError):
        shown = shown_path(path, root)
        raise Refused(f"{shown} doesn't say any more what was asked for", next="plan it anew: retcon plan …") from None


def read_plan(path: Path, root: Path) -> Plan:
    """The plan in this file; refused if its computed part was changed by hand."""
    shown = shown_path(path, root)
    text, document = _documents(path, root)
    if document["digest"] != digest(document):
        raise Refused(
            f"{shown} was changed by hand beyond its reason and what it expects",
            state="nothing was run",
            next=f"`retcon plan --refresh {shown}` computes it anew",
        )
    reason = document.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise Refused(f"{shown} has no reason", next="write why under `reason:`")
    plan = from_document({key: value for key, value in document.items() if key != "expect"})
    return replace(plan, expect=read_expectations(plan, text, shown))


def with_expectations(plan: Plan, expect: object, where: str) -> Plan:
    """A plan that is being made, with what is expected of it, written as in a plan's file."""
    text = YamlDocument(value={"expect": expect}, lines={})
    return replace(plan, expect=read_expectations(plan, text, where))


def _documents(path: Path, root: Path) -> tuple[YamlDocument, Document]:
    shown = shown_path(path, root)
    text = read_yaml(read_text(path, root), path=shown)
    if not isinstance(text.value, dict) or "digest" not in text.value:
        raise Refused(f"{shown} isn't a plan", next="`retcon plan …` makes one")
    return text, text.value
