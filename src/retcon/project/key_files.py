"""The keys of a plan: read from where they are, and kept beside it where they are many."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from retcon.core.keys import MOST_INLINE, Keys, keys_file
from retcon.core.limits import Limits
from retcon.core.plans import Plan
from retcon.errors import BadArguments, Fault, Refused
from retcon.values import dataclass

Values = tuple[str, Iterator[str | None]]
"""A column, and what it holds, as text."""


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """Keys, and the file that holds them if they are many: a temporary one until the plan is written."""

    keys: Keys
    spool: Path | None = None

    def drop(self) -> None:
        """Let go of the temporary file."""
        if self.spool is not None:
            self.spool.unlink(missing_ok=True)


def gathered(column: str, values: Iterable[str | None], limits: Limits) -> Gathered:
    """Few keys as they are, many in a file; refused where there are none, more than allowed, or a NULL."""
    texts = _texts(column, values)
    few: dict[str, None] = {}
    while len(few) <= MOST_INLINE and (text := next(texts, None)) is not None:
        few[text] = None
    if not few:
        raise BadArguments("--keys-from holds no keys", next="a plan without keys is about all of them")
    if len(few) <= MOST_INLINE:
        limits.require(keys=len(few))
        return Gathered(keys=Keys(column=column, count=len(few), values=tuple(few)))
    handle, name = tempfile.mkstemp(prefix="retcon-keys-", suffix=".jsonl")
    digest, count = hashlib.sha256(), 0
    try:
        with os.fdopen(handle, "wb") as file:
            for text in islice(chain(few, texts), limits.keys + 1):
                line = json.dumps({"k": text}, ensure_ascii=False).encode() + b"\n"
                file.write(line)
                digest.update(line)
                count += 1
        limits.require(keys=count)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Gathered(keys=Keys(column=column, count=count, digest=digest.hexdigest()), spool=Path(name))


def _texts(column: str, values: Iterable[str | None]) -> Iterator[str]:
    for value in values:
        if value is None:
            raise BadArguments(f"--keys-from: {column} holds a NULL, which is no key", next="leave such rows out")
        yield value


def values_in(path: Path) -> Values:
    """The keys in a CSV file with a header."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header = next(csv.reader(file), [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadArguments(f"--keys-from {path}: it can't be read as CSV: {error}") from error
    return one_column(header, str(path)), _lines(path)


def _lines(path: Path) -> Iterator[str | None]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file)
        next(rows, None)
        for row in rows:
            if row:
                yield row[0].strip() or None


def one_column(columns: Iterable[str], where: str) -> str:
    """Keys are the values of one column, and its name is the one that models carry."""
    names = [name.strip() for name in columns]
    if len(names) != 1 or not names[0]:
        found = f"has the columns {', '.join(names)}" if names else "is empty"
        raise BadArguments(
            f"--keys-from {where} {found}; keys are the values of one column, named as the models name it",
            next='name it, say by --keys-from "SELECT customer_id FROM …"',
        )
    return names[0]


def keep_keys(spool: Path, plan: Plan, root: Path) -> None:
    """Put the keys beside their plan, whole or not at all."""
    path = root / keys_file(plan.id)
    beside = path.with_suffix(".jsonl.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(spool, beside)
        os.replace(beside, path)
    except OSError as error:
        raise Fault(f"{path} can't be written: {error.strerror}", state="no plan was written") from error


def require_keys(plan: Plan, root: Path) -> None:
    """The many keys of a plan are there, and are those that were reviewed."""
    if plan.keys is None or not plan.keys.digest:
        return
    path = root / keys_file(plan.id)
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise Refused(
            f"the keys of plan {plan.id} can't be read: {keys_file(plan.id)}: {error.strerror}",
            state="nothing was run",
            next="restore the file, or plan anew",
        ) from error
    if digest.hexdigest() != plan.keys.digest:
        raise Refused(
            f"{keys_file(plan.id)} isn't what was reviewed: it was changed",
            state="nothing was run",
            next="restore the file, or plan anew",
        )


def kept_keys(plan_id: str, root: Path) -> Iterator[str | None]:
    """The many keys of an earlier plan."""
    path = root / keys_file(plan_id)
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)["k"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(f"the keys of plan {plan_id} can't be read: {error}", next="pass them again") from error
