"""Great Expectations on staged slices. The library is an extra, and loaded when a suite is first judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import Any

from retcon.core.jobs import MeasureRequest
from retcon.core.suites import GreatExpectations, Unmet
from retcon.errors import Refused
from retcon.lakehouse.gate_values import STAGED
from retcon.lakehouse.scoped_reads import ScopedReads
from retcon.lakehouse.sessions import first_line

_LIBRARY = "great_expectations"
_EXAMPLES = 3
_MOST_SIGNS = 60
_COLUMNS = ("column", "column_A", "column_B", "column_list")


class Expectations:
    """Judges suites. One at a time: the library keeps what it is about in a global."""

    def __init__(self, reads: ScopedReads) -> None:
        self._reads = reads
        self._turn = Lock()

    def require_expectations(self) -> None:
        """Refused where the library isn't there: better before hours of staging than after."""
        if find_spec(_LIBRARY) is None:
            raise Refused(
                "a model has the gate great_expectations, and the library is not installed",
                state="nothing was judged by it; production is untouched",
                next="pip install 'retcon[great-expectations]', then the same command again",
            )

    def unmet(self, request: MeasureRequest, gate: GreatExpectations) -> tuple[Unmet, ...]:
        """The expectations of a suite that the slices don't meet; values of rows only where they may be shown."""
        self.require_expectations()
        shown = _EXAMPLES if request.model.samples else 0
        with self._turn:
            suite = _suite(request, gate)
            batch = _batch(self._reads.frame(request.staged_read))
            results = batch.validate(
                suite, result_format={"result_format": "SUMMARY", "partial_unexpected_count": shown}
            ).results
        for result in results:
            for message in _raised(result.exception_info):
                raise _unjudged(request, gate, result.expectation_config.type, message)
        return tuple(_unmet(result, with_values=request.model.samples) for result in results if not result.success)


def _suite(request: MeasureRequest, gate: GreatExpectations) -> Any:
    """The suite. Its own constructor would leave out what it doesn't know, with no more than a line in a log."""
    configured = import_module(f"{_LIBRARY}.expectations.expectation_configuration").ExpectationConfiguration
    expectations = []
    for each in gate.expectations:
        try:
            expectations.append(configured(type=each.type, kwargs=dict(each.arguments)).to_domain_obj())
        except Exception as error:  # of the library's own and of pydantic's, old and new
            raise _unjudged(request, gate, each.type, _in_a_line(error)) from error
    return import_module(f"{_LIBRARY}.core.expectation_suite").ExpectationSuite(
        name=gate.suite, expectations=expectations
    )


def _batch(frame: Any) -> Any:
    """The rows as the library has them: nothing kept, nothing sent, nothing printed."""
    context = import_module(_LIBRARY).get_context(mode="ephemeral")
    context.enable_analytics(False)
    bars = import_module(f"{_LIBRARY}.data_context.types.base").ProgressBarsConfig
    context.variables.progress_bars = bars(globally=False, metric_calculations=False)
    asset = context.data_sources.add_spark(name="retcon", persist=False).add_dataframe_asset(name="slices")
    return asset.add_batch_definition_whole_dataframe("staged").get_batch(batch_parameters={"dataframe": frame})


def _raised(info: Mapping[str, Any]) -> Iterator[str]:
    """Why an expectation couldn't be computed: told once, or once for each metric behind it."""
    each = [info] if "raised_exception" in info else list(info.values())
    yield from (str(one["exception_message"]) for one in each if one["raised_exception"])


def _unjudged(request: MeasureRequest, gate: GreatExpectations, type: str, why: str) -> Refused:
    return Refused(
        f"{request.model.path}: the gate {gate.name} can't be judged: {type} of {gate.suite}: {why}",
        state=STAGED,
        next="correct the suite, then `retcon apply` again",
    )


def _in_a_line(error: Exception) -> str:
    return " ".join(str(error).split()) or first_line(error)


def _unmet(result: Any, *, with_values: bool) -> Unmet:
    type, arguments, found = result.expectation_config.type, result.expectation_config.kwargs, dict(result.result)
    return Unmet(
        type=type,
        columns=tuple(_columns(arguments)),
        unexpected=found.get("unexpected_count"),
        rows=found.get("element_count"),
        observed=_observed(type, found.get("observed_value"), with_values=with_values),
        examples=tuple(_text(value) for value in found.get("partial_unexpected_list") or ()) if with_values else (),
    )


def _columns(arguments: Mapping[str, Any]) -> Iterator[str]:
    for key in _COLUMNS:
        value = arguments.get(key)
        yield from [str(value)] if isinstance(value, str) else map(str, value or ())


def _observed(type: str, value: object, *, with_values: bool) -> str:
    """What there was instead: a count is no value of a row, a maximum is one."""
    is_count = isinstance(value, int | float) and ("count" in type or "proportion" in type)
    return _text(value) if value is not None and (is_count or with_values) else ""


def _text(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text if len(text) <= _MOST_SIGNS else f"{text[: _MOST_SIGNS - 1]}…"
