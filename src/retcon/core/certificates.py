"""Certificates: that a publish changed nothing outside its scope, and shows inside it what was proven.

Told by manifests alone. One that two snapshots share lists the same files in both: it is counted, and not opened.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from retcon.core.slices import Cut, SliceSet
from retcon.core.tables import TableFile, digest_of
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class CertifyRequest:
    """Which snapshots of a published table are compared."""

    published: int
    proven: int
    """The head of the run's branch."""
    base: int | None
    """What the run began with; None: the table had no rows. Main may have moved on from there before the publish."""
    tag: str
    """By which what main showed just before the publish is kept."""
    by: str | None
    grain: Cut


@dataclass(frozen=True, kw_only=True)
class Apart:
    """Two snapshots of a table: the manifests that both have, and the files that each lists in others."""

    manifests: tuple[str, ...] = ()
    """Of both."""
    files: int = 0
    """Data and delete files in these."""
    rows: int = 0
    """Of data files."""
    before: tuple[TableFile, ...] = ()
    after: tuple[TableFile, ...] = ()
    lapsed: int = 0
    """Delete files of the first snapshot, left out here, that apply to no file of the second."""
    opened: int = 0
    """Manifests that had to be read."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A published snapshot against what main was just before, and against what was proven."""

    before: int | None
    """Main's snapshot just before; None: there was none."""
    base: Apart | None
    """From that to what was published; None where it can't be told any more."""
    proven: Apart | None
    """From what was proven to what was published; None where it can't be told any more."""
    unknown: tuple[str, ...] = ()
    """Why something can't be told."""
    is_there: bool = True
    """Can what was published still be read?"""


@dataclass(frozen=True, kw_only=True)
class TableCertificate:
    """What a publish did to one table, file by file."""

    table: str
    slices: str
    """The scope: what the publish replaced."""
    base: int | None
    """Main's snapshot just before the publish; None: there was none."""
    published: int
    files_outside: int
    """Kept: in both snapshots."""
    rows_outside: int
    """As the manifests count them: rows that delete files hide are among them."""
    digest_before: str
    digest_after: str
    """Of all files outside, and of the manifests that both snapshots share."""
    files_replaced: int
    """Inside the scope before, and gone."""
    files_inside: int
    rows_inside: int
    manifests_shared: int
    manifests_opened: int
    problems: tuple[str, ...] = ()
    """What isn't as it must be."""
    unknown: tuple[str, ...] = ()
    """What couldn't be told, and why."""
    is_proven_inside: bool = False
    """The scope is made of exactly the files that were proven."""
    is_proven_whole: bool = False
    """So is all the rest of the table, slices that were left as they are aside."""
    is_there: bool = True
    """The published snapshot can be read."""
    took_place_of: str | None = None
    """Where it was built beside: the name that the table from before has now."""

    @property
    def holds(self) -> bool:
        return not self.problems and not self.unknown


def certificate_of(
    table: str, scope: SliceSet, same: SliceSet, request: CertifyRequest, compared: Compared
) -> TableCertificate:
    """The verdict of the manifests. `same` are slices that came out as they were, and were left alone."""
    base, proven = compared.base or Apart(), compared.proven or Apart()
    kept, now = (tuple(_outside(files, scope)) for files in (base.before, base.after))
    identities = {file.identity for file in kept}
    common = [file for file in now if file.identity in identities]
    replaced = [file for file in base.before if _is_inside(file, scope)]
    inside = [file for file in proven.after if _may_hold(file, scope)]
    of_proof = [file for file in proven.before if _may_hold(file, scope)]
    missing, foreign = _apart(of_proof, inside)
    return TableCertificate(
        table=table,
        slices=scope.text,
        base=compared.before,
        published=request.published,
        files_outside=base.files + len(common),
        rows_outside=base.rows + sum(file.rows for file in common if not file.is_delete),
        digest_before=_digest(base.manifests, kept),
        digest_after=_digest(base.manifests, now),
        files_replaced=len(replaced),
        files_inside=len(inside),
        rows_inside=sum(file.rows for file in inside if not file.is_delete),
        manifests_shared=len(base.manifests),
        manifests_opened=base.opened + proven.opened,
        problems=tuple(_problems(kept, now, missing, foreign)),
        unknown=compared.unknown,
        is_there=compared.is_there,
        is_proven_inside=compared.proven is not None and not missing and not foreign,
        is_proven_whole=compared.proven is not None and not any(_apart(*_without(same, proven.before, proven.after))),
    )


def certificate_from(document: Mapping[str, Any]) -> TableCertificate:
    """A certificate as it was recorded."""
    listed = {key: tuple(document[key]) for key in ("problems", "unknown")}
    return TableCertificate(**{**document, **listed})


def _problems(
    kept: Iterable[TableFile], now: Iterable[TableFile], missing: list[str], foreign: list[str]
) -> Iterator[str]:
    gone, come = _apart(kept, now, by_version=True)
    for files, what in (
        (gone, "outside the scope, and no longer there"),
        (come, "outside the scope, and not there before"),
        (missing, "proven, and not published"),
        (foreign, "inside the scope, and not proven"),
    ):
        if files:
            yield f"{len(files):,} {'file' if len(files) == 1 else 'files'} {what}, e.g. {files[0]}"


def _apart(
    before: Iterable[TableFile], after: Iterable[TableFile], *, by_version: bool = False
) -> tuple[list[str], list[str]]:
    """Files of only one of the two. A file that is published gets another version than it had on its branch."""
    # Counted: one file may hold the deletions of many.
    then, now = (Counter(file.identity if by_version else file.path for file in files) for files in (before, after))
    return sorted((then - now).elements()), sorted((now - then).elements())


def _without(same: SliceSet, *files: Iterable[TableFile]) -> tuple[list[TableFile], list[TableFile]]:
    first, second = ([file for file in held if not _is_inside(file, same)] for held in files)
    return first, second


def _outside(files: Iterable[TableFile], scope: SliceSet) -> Iterator[TableFile]:
    """Files that may hold rows of other slices: one that holds both is never replaced, so it must be there as well."""
    return (file for file in files if not _is_inside(file, scope))


def _is_inside(file: TableFile, scope: SliceSet) -> bool:
    return bool(file.slices) and _in_scope(file.slices, scope) == len(file.slices)


def _may_hold(file: TableFile, scope: SliceSet) -> bool:
    is_bounded = file.first is not None and file.last is not None
    return _in_scope(file.slices, scope) > 0 if is_bounded else bool(scope)


def _in_scope(slices: range, scope: SliceSet) -> int:
    """How many of them: a file may span years."""
    return bisect_left(scope.ordinals, slices.stop) - bisect_left(scope.ordinals, slices.start)


def _digest(manifests: Iterable[str], files: Iterable[TableFile]) -> str:
    return digest_of(sorted((*manifests, *(file.identity for file in files))))
