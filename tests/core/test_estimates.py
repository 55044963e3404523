"""How long a plan will take, from what was measured: ranges that hold what was seen, and grow with the work."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.budgets import Budget, budget_from, parse_budget, require_countable, require_within
from retcon.core.durations import seconds_text
from retcon.core.estimates import (
    Estimate,
    Learned,
    Price,
    RunSample,
    Share,
    Span,
    WaveSample,
    estimate_from,
    estimated,
    rest_of,
    staging_of,
)
from retcon.core.projects import SparkSettings
from retcon.errors import BadArguments, Refused

PRICE = Price(core_hour=0.12, currency="USD")
sizes = st.integers(1_000, 10**12)
times = st.floats(0.05, 10_000, allow_nan=False)


@st.composite
def measured(draw: st.DrawFn) -> WaveSample:
    seconds = draw(times)
    fixed = seconds * draw(st.floats(0, 1))
    cores = draw(st.sampled_from([1, 2, 16]))
    return WaveSample(seconds=seconds, fixed=fixed, slices=draw(st.integers(1, 90)), bytes=draw(sizes), cores=cores)


def a_wave(**more: Any) -> WaveSample:
    return WaveSample(**{"seconds": 10.0, "fixed": 2.0, "slices": 10, "bytes": 1_000_000, "cores": 2, **more})


def a_share(**more: Any) -> Share:
    return Share(**{"model": "mart.a", "waves": 1, "slices": 10, "bytes": 1_000_000, **more})


def span_of(found: Span | None) -> Span:
    assert found is not None
    return found


@given(st.lists(measured(), min_size=1, max_size=20), sizes, sizes)
def test_more_bytes_never_take_less_time(samples: list[WaveSample], one: int, other: int) -> None:
    less, much = sorted((one, other))
    small, large = (span_of(staging_of(a_share(bytes=size), samples, 2)) for size in (less, much))
    assert 0 < small.low <= small.high
    assert small.low <= large.low
    assert small.high <= large.high


@given(st.lists(measured(), min_size=1, max_size=20), st.integers(1, 50))
def test_more_waves_never_take_less_time(samples: list[WaveSample], waves: int) -> None:
    few, many = (span_of(staging_of(a_share(waves=number), samples, 2)) for number in (waves, waves + 1))
    assert few.low <= many.low
    assert few.high <= many.high


@given(measured(), st.integers(1, 12))
def test_what_was_measured_lies_in_the_range_that_it_makes(sample: WaveSample, times: int) -> None:
    share = a_share(bytes=sample.bytes, slices=sample.slices)
    span = span_of(staging_of(share, [sample] * times, sample.cores))
    assert span.low <= sample.seconds <= span.high


@given(st.lists(measured(), min_size=1, max_size=20))
def test_more_cores_never_take_more_time(samples: list[WaveSample]) -> None:
    two, four = (span_of(staging_of(a_share(), samples, cores)) for cores in (2, 4))
    assert four.high <= two.high * (1 + 1e-9)


def test_the_part_around_the_tasks_is_there_however_little_is_read() -> None:
    tiny = span_of(staging_of(a_share(bytes=1), [a_wave()] * 100, 2))
    assert tiny.low == pytest.approx(2.0, rel=0.1)
    ten = span_of(staging_of(a_share(bytes=10_000_000, waves=1), [a_wave()] * 100, 2))
    assert ten.low < 2 + 8 * 10 < ten.high


def test_one_wave_that_hung_doesnt_stretch_the_range() -> None:
    calm = span_of(staging_of(a_share(), [a_wave()] * 30, 2))
    hung = span_of(staging_of(a_share(), [*[a_wave()] * 29, a_wave(seconds=3_600.0)], 2))
    assert hung.high == pytest.approx(calm.high)


def test_the_first_waves_of_a_run_take_longer_and_the_others_make_up_for_it() -> None:
    runs = [[a_wave(seconds=40.0, run=run), *[a_wave(run=run)] * 9] for run in "abcdef"]
    span = span_of(staging_of(a_share(waves=10, bytes=10_000_000), [each for run in runs for each in run], 2))
    assert span.low < 40 + 9 * 10 < span.high
    assert span.high < 10 * 40 / 2, "not every wave is a first one"


def test_the_range_is_narrower_the_more_was_measured() -> None:
    one, many = (span_of(staging_of(a_share(), [a_wave()] * number, 2)) for number in (1, 25))
    assert (one.low, one.high) == (pytest.approx(10 / 1.5), pytest.approx(15.0))
    assert one.low < many.low < 10 < many.high < one.high


def test_where_bytes_arent_known_slices_are_counted() -> None:
    samples = [a_wave(bytes=None), a_wave(bytes=None)]
    one, three = (span_of(staging_of(a_share(bytes=None, slices=n), samples, 2)) for n in (10, 30))
    assert one.low < 10 < one.high
    assert three.low < 2 + 8 * 3 < three.high
    assert span_of(staging_of(a_share(bytes=5), samples, 2)) == one


def test_cores_that_arent_known_are_taken_to_be_the_same() -> None:
    samples = [a_wave(cores=None)]
    assert staging_of(a_share(), samples, 8) == staging_of(a_share(), samples, None)
    assert staging_of(a_share(), [a_wave()], None) == staging_of(a_share(), samples, None)


def test_a_model_that_was_never_measured_leaves_the_whole_unknown() -> None:
    shares = [a_share(), a_share(model="mart.b")]
    made = estimated(shares, Learned(waves={"mart.a": [a_wave()]}, cores=2), PRICE)
    assert (made.seconds, made.cost, made.unknown) == (None, None, ("mart.b",))
    assert set(made.models) == {"mart.a"}


RUNS = (RunSample(starting=5.0, staging=10.0, rest=6.0), RunSample(starting=6.0, staging=11.0, rest=7.0))


def test_the_whole_is_sparks_start_staging_and_what_comes_around_it() -> None:
    made = estimated([a_share()], Learned(waves={"mart.a": [a_wave()]}, runs=RUNS, cores=2), PRICE)
    assert made.seconds is not None
    assert made.seconds.low < 5.5 + 10 + 6.5 < made.seconds.high
    assert made.core_hours == made.seconds * (2 / 3600)
    assert made.cost == made.core_hours * 0.12
    assert made.basis == "1 wave of 2 earlier runs"


def test_small_runs_dont_say_that_large_ones_are_proven_as_slowly() -> None:
    tiny = [RunSample(starting=5.0, staging=2.0, rest=6.0)] * 3
    span = rest_of(Span(low=600.0, high=600.0), tiny)
    assert span.low < 6 < 1_800 < span.high, "nobody can tell: from the same to as much more"
    known = [
        *tiny,
        RunSample(starting=5.0, staging=300.0, rest=36.0),
        RunSample(starting=5.0, staging=500.0, rest=56.0),
    ]
    learned = rest_of(Span(low=600.0, high=600.0), known)
    assert learned.low < 66 < learned.high < 200


def test_a_canary_says_what_it_doesnt_measure() -> None:
    learned = Learned(waves={"mart.a": [a_wave(slices=1)]}, cores=2, canary=2)
    made = estimated([a_share()], learned, None)
    plain = estimated([a_share()], Learned(waves={"mart.a": [a_wave(slices=1)]}, cores=2), None)
    assert made.models["mart.a"].low == plain.models["mart.a"].low
    assert made.models["mart.a"].high > plain.models["mart.a"].high
    assert made.basis == (
        "2 slices of each model computed now, not written: writing is a guess; proving and publishing are a guess"
    )


@given(st.lists(measured(), min_size=1, max_size=5), st.sampled_from([None, PRICE, Price(core_hour=3.3)]))
def test_an_estimate_comes_back_from_a_file_as_it_was(samples: list[WaveSample], price: Price | None) -> None:
    made = estimated([a_share()], Learned(waves={"mart.a": samples}, runs=RUNS, cores=2), price)
    read = estimate_from(json.loads(json.dumps(made.document())))
    assert read == made
    assert read is not None
    assert read.document() == made.document()


def test_a_plan_of_before_there_were_estimates_has_none() -> None:
    assert estimate_from({"slices": 26, "waves": 2, "input_rows": 6231, "input_bytes": 149873}) is None


@pytest.mark.parametrize(("amount", "text"), [(0.0042, "0.0042 USD"), (12.5, "12.50 USD"), (0.12, "0.12 USD")])
def test_amounts_are_written_with_as_many_digits_as_tell_something(amount: float, text: str) -> None:
    assert PRICE.text(amount) == text
    assert Price(core_hour=1).text(amount) == text.removesuffix(" USD")


def test_seconds_are_told_as_people_do() -> None:
    assert [seconds_text(s) for s in (0.8, 42, 200, 7_500)] == ["0.8 s", "42 s", "3 min 20 s", "2 h 5 min"]


# ── budgets ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("5", Budget(cost=5.0)),
        ("0.5 usd", Budget(cost=0.5)),
        ("2 h", Budget(seconds=7_200.0)),
        ("2hours", Budget(seconds=7_200.0)),
        ("90 min", Budget(seconds=5_400.0)),
        ("1 day", Budget(seconds=86_400.0)),
        ("30 s", Budget(seconds=30.0)),
    ],
)
def test_a_budget_is_an_amount_or_a_time(text: str, budget: Budget) -> None:
    assert parse_budget(text, PRICE) == budget
    assert parse_budget(budget.words, PRICE) == budget
    assert budget_from(budget.document()) == budget


@pytest.mark.parametrize("text", ["", "lots", "5 EUR", "-5", "0", "0 h", "1e9"])
def test_what_isnt_one_is_refused(text: str) -> None:
    with pytest.raises(BadArguments, match="--budget"):
        parse_budget(text, PRICE)


def test_an_amount_needs_a_price_and_cores_and_a_time_doesnt() -> None:
    with pytest.raises(BadArguments, match="the project has no `cost`") as error:
        parse_budget("5", None)
    assert "core_hour" in error.value.next
    assert parse_budget("2 h", None) == Budget(seconds=7_200.0)
    with pytest.raises(Refused, match="how many cores yarn gives isn't known"):
        require_countable(Budget(cost=5.0), None, PRICE, "yarn")
    require_countable(Budget(seconds=5.0), None, None, "yarn")


def test_a_plan_is_refused_where_even_the_low_end_is_over_the_budget() -> None:
    estimate = Estimate(seconds=Span(low=3_600.0, high=7_200.0), cores=10, price=PRICE)
    with pytest.raises(Refused, match=r"over its budget of 1\.00 USD: it will take 1\.20 USD to 2\.40 USD"):
        require_within(Budget(cost=1.0), estimate, PRICE, state="")
    with pytest.raises(Refused, match="over its budget of 30 min: it will take 1 h to 2 h"):
        require_within(Budget(seconds=1_800.0), estimate, None, state="")
    require_within(Budget(cost=1.2), estimate, PRICE, state="")
    require_within(Budget(cost=0.1), Estimate(seconds=None), PRICE, state="")


@pytest.mark.parametrize(
    ("master", "conf", "cores"),
    [
        ("local[*]", {}, 8),
        ("local", {}, 1),
        ("local[3]", {}, 3),
        ("local[3, 2]", {}, 3),
        ("spark://host:7077", {}, None),
        ("spark://host:7077", {"spark.cores.max": "24"}, 24),
        ("yarn", {"spark.executor.instances": "5", "spark.executor.cores": "4"}, 20),
        (
            "yarn",
            {
                "spark.executor.instances": "5",
                "spark.executor.cores": "4",
                "spark.dynamicAllocation.enabled": "true",
            },
            None,
        ),
    ],
)
def test_a_master_says_how_many_cores_it_gives(master: str, conf: dict[str, str], cores: int | None) -> None:
    assert SparkSettings(master=master, conf=conf).cores(8) == cores
