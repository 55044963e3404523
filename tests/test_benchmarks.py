"""The pure parts of the benchmark: what it says of its measurements is right."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _benchmarks_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def module(name: str) -> ModuleType:
    return import_module(name)


def cost(cpu: float, wall: float = 1.0) -> Any:
    return module("measuring").Cost(cpu=cpu, wall=wall)


# ── measuring ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("power", "factor"), [(0.0, 3.0), (1.0, 0.5), (2.0, 7.0)])
def test_the_exponent_of_growth_is_found_whatever_the_factor(power: float, factor: float) -> None:
    sizes = [10, 100, 1000]
    assert module("measuring").exponent(sizes, [factor * size**power for size in sizes]) == pytest.approx(power)


@pytest.mark.parametrize(("sizes", "costs"), [([10, 10], [1, 2]), ([10], [1]), ([1, 10], [1]), ([1, 10], [0, 1])])
def test_an_exponent_needs_two_sizes_with_costs_above_nothing(sizes: list[float], costs: list[float]) -> None:
    with pytest.raises(ValueError):
        module("measuring").exponent(sizes, costs)


def test_each_run_is_divided_by_the_mean_of_the_reference_before_and_after_it() -> None:
    runs = [("by hand", cost(10)), ("ours", cost(12)), ("by hand", cost(14)), ("ours", cost(14)), ("by hand", cost(26))]
    ratio = module("measuring").against(runs, "ours", "by hand")
    assert (ratio.low, ratio.high) == (pytest.approx(14 / 20), pytest.approx(12 / 12))
    assert ratio.median == pytest.approx(0.85)
    assert ratio.count == 2


def test_a_run_after_the_last_reference_is_divided_by_that_one() -> None:
    runs = [("by hand", cost(10)), ("by hand", cost(20)), ("ours", cost(30))]
    assert module("measuring").against(runs, "ours", "by hand").median == pytest.approx(1.5)


def test_the_processor_time_of_a_process_has_that_of_all_below_it() -> None:
    tree = module("measuring")._tree({1: 0, 2: 1, 3: 2, 4: 3, 9: 1}, 2)
    assert tree == {2, 3, 4}


def test_work_in_this_process_is_measured() -> None:
    measured = module("measuring").measured(lambda: sum(range(3_000_000)))
    assert measured.wall > 0
    assert measured.cpu >= 0


# ── pages ─────────────────────────────────────────────────────────────────────────────────────────────────────────

PAGE = """\
# A page
before
<!-- measured: one -->
old
<!-- end: one -->
between
<!-- measured: two -->
stays
<!-- end: two -->
after
"""


def test_a_block_is_replaced_and_nothing_else() -> None:
    replaced = module("pages").replaced(PAGE, "one", "new\n\nlines \\1")
    assert replaced == PAGE.replace("\nold\n", "\nnew\n\nlines \\1\n")
    assert module("pages").replaced(replaced, "one", "old") == PAGE


@pytest.mark.parametrize("page", [PAGE.replace("end: one", "end"), PAGE + PAGE, "nothing"])
def test_a_block_that_isnt_there_once_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="measured: one"):
        module("pages").replaced(page, "one", "new")


def test_limits_are_told_as_reached_not_reached_and_not_measured() -> None:
    limit = module("pages").Limit
    limits = [
        limit(name="a", says="at most", bound=1.15),
        limit(name="b", says="at most too", bound=0.1, unit="s"),
        limit(name="c", says="at least", bound=3, is_least=True),
        limit(name="d", says="unknown", bound=1),
    ]
    table = module("pages").limits_table({"a": (1.15, "x"), "b": (0.2, "x"), "c": (3.5, "x")}, limits)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    assert [row[3] for row in rows] == ["reached", "**not reached**", "reached", "not measured"]
    assert [row[1] for row in rows] == ["≤ 1.15 ×", "≤ 0.1 s", "≥ 3 ×", "≤ 1 ×"]


def test_the_chart_is_an_image_with_a_bar_for_each() -> None:
    bar = module("pages").Bar
    svg = module("pages").bars("a < b", [bar(name="one & only", value=1), bar(name="ours", value=2, is_ours=True)])
    shapes = [shape for shape in ElementTree.fromstring(svg) if shape.tag.endswith("rect")]
    assert [shape.get("width") for shape in shapes[1:]] == ["170.0", "340.0"]


def test_what_was_measured_is_told_beside_its_limit() -> None:
    results = module("results")
    kept = {"steps": {"size": "90 days", "when": "2026-01-23", "ratios": {"publish": 1.2}}}
    assert results.measured_values(kept) == {"publish": (1.2, "90 days, 2026-01-23")}


@pytest.mark.parametrize(("is_full_size", "expected"), [(True, "reached"), (False, "not measured")])
def test_a_part_writes_its_block_and_only_full_sizes_are_held_against_limits(
    is_full_size: bool, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = module("results")
    (tmp_path / "images").mkdir()
    page = tmp_path / "performance.md"
    page.write_text((ROOT / "docs" / "performance.md").read_text())
    for name, path in (("DOCS", ""), ("KEPT", "performance.json"), ("CHART", "images/performance.svg")):
        monkeypatch.setattr(results, name, tmp_path / path)
    found = results.Found(
        part="year", size="some days", text="| a table |", ratios={"load": 0.01}, is_full_size=is_full_size
    )
    results.tell(found, write=False)
    assert "some days" not in page.read_text()
    results.tell(found, write=True)
    text = page.read_text()
    assert "| a table |\n<!-- end: year -->" in text
    [row] = [line for line in text.splitlines() if line.startswith("| daily load")]
    assert expected in row


# ── a petabyte ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_petabyte_is_on_the_line_through_the_two_largest_sizes() -> None:
    step = {"wall": 0.0, "python": 100.0, "heap": None}
    names = ("plan", "load finds nothing, first look", "load finds what changed", "`plan --changed` finds it")
    figures = {
        str(size): {name: {**step, "wall": wall} for name in names}
        for size, wall in ((1_000, 99.0), (10_000, 2.0), (100_000, 11.0))
    }
    text = module("petabyte").derived({"files": {"figures": figures}})
    assert "11.00 s at 100,000 | 0.100 ms | 1,953,125 files of the input | 196 s | 0.1 GiB | –" in text


def test_the_rows_of_a_petabyte_cost_what_the_bytes_that_were_read_did() -> None:
    figures = {
        "stage": {"cpu": 20.0, "rows": 10_000_000, "bytes": 250_000_000, "sides": 1},
        "prove, production read": {"cpu": 3.0, "rows": 20_000_000, "bytes": 500_000_000, "sides": 2},
    }
    text = module("petabyte").derived({"steps": {"figures": figures, "size": "some days"}})
    assert "| stage | 20.00 CPU s, 250 MB, 10.0 M rows | 80 CPU s | 2.00 CPU s | 24.7 TB | 548 | 137 |" in text
    assert "| 3.00 CPU s, 500 MB, 20.0 M rows | 6 CPU s | 0.15 CPU s | 49.3 TB | 82 | 21 |" in text
    assert "has 25.0 bytes a row: at that, a day of 274 GB would be 11.0 billion rows; at 100 bytes it is 2.7" in text


def test_staging_a_petabytes_days_holds_one_of_them_at_a_time() -> None:
    step = {"python": None, "heap": None}
    figures = {
        "1000": {"stage": {"wall": 10.0, "python": None, "heap": 100.0}},
        "10000": {"stage": {"wall": 100.0, "python": None, "heap": 10_000.0}, "prove": {"wall": 1.0, **step}},
    }
    text = module("petabyte").derived({"slices": {"figures": figures}})
    assert "| stage | 100.00 s at 10,000 | 10.000 ms | 48,159 files staged for 90 days | 8 min | – | 0.6 GiB |" in text
    assert "| prove" not in text, "it wasn't measured at both sizes"


def test_what_a_petabyte_is_derived_from_writes_it_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = module("results")
    (tmp_path / "images").mkdir()
    for page in ("performance.md", "scaling.md"):
        (tmp_path / page).write_text((ROOT / "docs" / page).read_text())
    for name, path in (("DOCS", ""), ("KEPT", "performance.json"), ("CHART", "images/performance.svg")):
        monkeypatch.setattr(results, name, tmp_path / path)
    figures = {"stage": {"cpu": 20.0, "rows": 10, "bytes": 1_000_000, "sides": 1}}
    results.tell(results.Found(part="steps", size="x", text="-", figures=figures), write=True)
    assert "| stage | 20.00 CPU s, 1 MB, 0.0 M rows |" in (tmp_path / "scaling.md").read_text()


def test_a_cost_that_fell_is_taken_for_level() -> None:
    line = module("petabyte").line_through((10, 5.0), (100, 4.0))
    assert line.at(1_000_000) == 4.0


# ── the pages as they are ─────────────────────────────────────────────────────────────────────────────────────────


def blocks(page: str) -> list[str]:
    return re.findall(r"<!-- measured: (\w+) -->", (ROOT / "docs" / page).read_text())


def test_every_part_of_the_benchmark_has_its_block() -> None:
    parts = [block for blocks in module("bench").SCRIPTS.values() for block in blocks]
    assert sorted(blocks("performance.md")) == sorted([*parts, "limits"])
    assert sorted(blocks("scaling.md")) == ["cluster", "files", "models", "petabyte", "slices"]


def test_what_is_kept_of_measurements_is_that_of_the_parts() -> None:
    kept = json.loads((ROOT / "docs" / "performance.json").read_text())
    assert set(kept) <= {*blocks("performance.md"), *blocks("scaling.md")}
    for part in kept.values():
        assert {"when", "size", "machine", "ratios", "chart"} <= set(part)


def test_measuring_needs_the_standard_library_only() -> None:
    text = (ROOT / "benchmarks" / "measuring.py").read_text()
    imported = re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)
    assert set(imported) <= set(sys.stdlib_module_names)
