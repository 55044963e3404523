"""What follows a publish: its certificate, and the gates on production. What a crash left out, `apply` makes up for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from time import monotonic
from typing import Any

from retcon.core.certificates import TableCertificate, certificate_from
from retcon.core.chains import RecordedEvent
from retcon.core.events import Certified, CheckedAfter
from retcon.core.gates import Verdict, verdict_from
from retcon.core.runs import Run, RunState
from retcon.errors import Fault, Interrupted, ProductionFailed, Refused
from retcon.flow.certify import certified
from retcon.flow.check_production import check_production
from retcon.flow.context import Context
from retcon.flow.ports import Ledger


def is_followed_up(run: Run, ledger: Ledger) -> bool:
    """Is everything recorded that follows a publish? Of one that was rebuilt from its tables, nothing can be; nor of
    one that left all as it was.
    """
    written = [run.tables[planned.name] for planned in run.as_published.plan.models]
    is_known = bool(written) and all(table.head is not None for table in written)
    if run.state is not RunState.PUBLISHED or not is_known:
        return True
    # The last of the two.
    return bool(ledger.events(run.id, kind=CheckedAfter))


def follow_up(run: Run, context: Context) -> Run:
    """Certify a publish and judge production, each once; raised where something doesn't hold, though all stands."""
    if not is_followed_up(run, context.ledger):
        began = monotonic()
        try:
            found = certified(run, context)
            if not context.ledger.events(run.id, kind=CheckedAfter):
                checked = check_production(run, found, context)
                run = context.record(run, replace(checked, seconds=round(monotonic() - began, 3)))
        except KeyboardInterrupt:
            context.warehouse.interrupt()
            raise Interrupted(
                f"interrupted after run {run.id} was published", state=_UNCHECKED, next=_again(run)
            ) from None
        except (Refused, Fault) as error:
            raise Fault(
                f"run {run.id} is published, but wasn't looked at as it is published: {error.message}",
                state=_UNCHECKED,
                next=_again(run),
                retryable=True,
            ) from error
    failed = failure_of(run, (*_last(run, context.ledger, Certified), *_last(run, context.ledger, CheckedAfter)))
    if failed is not None:
        raise failed
    return run


_UNCHECKED = "all of it is published; whether production passes isn't recorded yet"


def _again(run: Run) -> str:
    return f"`retcon apply {run.id}` makes up for it"


def _last(run: Run, ledger: Ledger, kind: type[Certified | CheckedAfter]) -> list[RecordedEvent]:
    return ledger.events(run.id, kind=kind)[-1:]


def failure_of(run: Run, events: Iterable[RecordedEvent]) -> ProductionFailed | None:
    """What of a publish doesn't hold, as it is recorded."""
    wrong: list[str] = []
    for event in events:
        if event.kind == Certified.__name__:
            wrong += [f"{each.table}: {problem}" for each in certificates_in(event.body) for problem in each.problems]
        elif event.kind == CheckedAfter.__name__:
            failed = [verdict for verdict in verdicts_in(event.body) if not verdict.passed]
            wrong += [f"{verdict.model}:{verdict.gate} fails in production" for verdict in failed]
    if not wrong:
        return None
    return ProductionFailed(
        f"run {run.id} was published, and doesn't hold there: {'; '.join(wrong)}",
        state="published; production shows it",
        next=f"`retcon show {run.id}` tells more; `retcon rollback {run.id} --reason …` takes it back",
    )


def certificates_in(body: Mapping[str, Any]) -> tuple[TableCertificate, ...]:
    """Of an event that was recorded."""
    return tuple(certificate_from(each) for each in body["tables"])


def verdicts_in(body: Mapping[str, Any]) -> tuple[Verdict, ...]:
    """Of an event that was recorded: those that were passed again on production."""
    return tuple(verdict_from(each) for each in body["verdicts"])
