"""Rows that differ, as they are shown: on a terminal, as a page, as CSV; and what the options refuse."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser

from retcon.cli.attributions import attributions_result
from retcon.cli.figures import Zone
from retcon.cli.row_results import hand_checks_result, row_diffs_result
from retcon.cli.views.attributions import attributions_view
from retcon.cli.views.hand_check_pages import hand_checks_csv, hand_checks_page
from retcon.cli.views.hand_checks import confirmed_view, hand_checks_view
from retcon.cli.views.pages import Bar, stacked_bars
from retcon.cli.views.row_diffs import row_diffs_view
from retcon.cli.views.row_pages import row_diffs_page
from retcon.cli.views.runs import run_view
from retcon.core.attributions import AttributedSlice, Attribution, Parts
from retcon.core.hand_checks import HandCheck, InputRows, TracedInput
from retcon.core.row_diffs import ComparedColumn, RowCounts, RowDiff, RowKind, RowPair
from retcon.core.slices import Grain, Slice, SliceSet
from retcon.flow.hand_check import confirm
from retcon.wiring import Workspace
from tests.cli.conftest import Records, Retcon
from tests.cli.shops import ORDERS
from tests.cli.test_views import drawn

DAYS = SliceSet.parse(Grain.DAY, "2026-01-01..2026-01-20")
EVIL = '<img src=x onerror="alert(1)">'
PAIRS = (
    RowPair(
        slice="2026-01-02",
        kind=RowKind.CHANGED,
        times=1,
        key={"order_id": "7"},
        old={"order_id": "7", "note": EVIL, "usd": None},
        new={"order_id": "7", "note": "=1+1", "usd": "2.50"},
        differs=("note", "usd"),
    ),
    RowPair(
        slice="2026-01-03",
        kind=RowKind.REMOVED,
        times=3,
        key={"order_id": None},
        old={"order_id": None, "note": "two\nlines", "usd": "x" * 80},
        new=None,
        differs=(),
    ),
)
DIFF = RowDiff(
    model=ORDERS,
    slices=DAYS,
    key=("order_id",),
    why_no_key="",
    tolerance=1e-9,
    without_key=3,
    counts={Slice(Grain.DAY, DAYS.ordinals[at]): RowCounts(changed=at + 1, removed=3) for at in range(1, 16)},
    columns=(ComparedColumn(name="note", changed=9), ComparedColumn(name=EVIL, changed=1, note="added")),
    left_out=("loaded_at",),
    sample=PAIRS,
)
TRACED = TracedInput(
    name="raw.orders",
    table="raw.orders",
    snapshot_id=42,
    found_by="order_id",
    rows=(InputRows(total=9, rows=({"order_id": "7", "note": EVIL},)), InputRows(total=0, rows=())),
)
CHECK = HandCheck(
    diff=DIFF,
    seed="s",
    inputs=(TRACED, TracedInput(name="raw.r", table="raw.r", snapshot_id=None, found_by="", why_not="no column")),
    snapshots=(1, 2),
)


class Tags(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""
        self.feed(page)
        assert self.open == [], "every tag is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        if tag not in ("meta", "rect", "line"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("rect", "line"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_pages_hold_every_value_as_text_and_load_nothing(recorded: Records) -> None:
    run = recorded().stage().prove().run
    evil = replace(run, plan=replace(run.plan, reason=EVIL))
    for page in (row_diffs_page(evil, [DIFF, replace(DIFF, counts={}, sample=())]), hand_checks_page(evil, [CHECK])):
        tags = Tags(page)
        assert not tags.seen & {"script", "img", "link", "iframe", "object"}
        assert EVIL in tags.text
        assert "default-src 'none'" in page
        assert re.search(r"https?:|@import|url\(", page) is None
    assert "No row differs." in row_diffs_page(run, [replace(DIFF, counts={}, sample=())])
    assert "raw.orders (1 of 9 rows)" in hand_checks_page(run, [CHECK])


def test_of_many_slices_neighbours_share_a_bar_and_none_is_lost() -> None:
    chart = stacked_bars([Bar(label=f"s{at}", values=(1, 2, 0)) for at in range(1000)])
    told = re.findall(r"<title>.*?: (\d+) changed, (\d+) added</title>", chart)
    assert len(told) < 400
    assert [sum(int(pair[at]) for pair in told) for at in (0, 1)] == [1000, 2000]


def test_a_terminal_shows_counts_columns_and_rows_in_lines(recorded: Records) -> None:
    run = recorded().stage().prove().run
    text = drawn(row_diffs_view(run, [DIFF, replace(DIFF, model="mart.same", counts={}, sample=())], 100))
    assert f"{ORDERS}: {sum(range(2, 17))} changed, 45 removed rows" in text
    assert "~ changed  2026-01-02  order_id = 7" in text
    assert re.search(r"usd +NULL +→ +2\.50", text)
    assert "- removed  2026-01-03  order_id = NULL  3 times" in text
    assert "two⏎lines" in text
    assert "x" * 47 + "…" in text
    assert "3 more slices (those with fewer" in text
    assert "left out, as volatile: loaded_at" in text
    assert "3 rows compared as a multiset" in text
    assert "mart.same: no row differs" in text
    assert row_diffs_result(run, [DIFF], None)["models"][0]["rows"] == {
        "changed": sum(range(2, 17)), "added": 0, "removed": 45,
    }  # fmt: skip


def test_a_sample_says_what_was_traced_what_wasnt_and_how_to_confirm_it(recorded: Records) -> None:
    run = recorded().stage().prove().run
    text = drawn(hand_checks_view(run, [CHECK], "--rows 2"))
    assert "raw.orders: found by order_id, at snapshot 42" in text
    assert "raw.r: not traced: no column" in text
    assert "from raw.orders (1 of 9 rows)" in text
    assert "from raw.orders: none" in text
    assert f"retcon sample {run.id} --rows 2 --confirm --by …" in text
    rows = list(csv.DictReader(io.StringIO(hand_checks_csv([CHECK]), newline="")))
    assert [(row["kind"], row["column"]) for row in rows] == [
        ("changed", "note"), ("changed", "usd"), ("removed", "note"), ("removed", "usd"),
    ]  # fmt: skip
    assert rows[0]["new"] == "'=1+1"
    told = hand_checks_result(run, [CHECK], (), None)["models"][0]["rows"]
    assert [len(row["inputs"]["raw.orders"]["rows"]) for row in told] == [1, 0]


def test_a_check_is_recorded_once_without_values_and_shown_with_the_run(recorded: Records, shop: object) -> None:
    driven = recorded().stage().prove()
    w = Workspace(shop)
    check = replace(CHECK, snapshots=(1, driven.run.tables[ORDERS].head))
    for _ in range(2):
        told = confirm(driven.run, [check], w.ledger, by=" Ada ", note="fine", at=driven.run.updated, who="root")
    assert "2 rows checked by Ada" in drawn(confirmed_view(driven.run, told))
    report = w.teller.show_run(w.ledger.run(driven.run.id))
    (event,) = report.checked
    assert event.body["keys"] == list(check.key_hashes)
    assert EVIL not in str(event.body)
    text = drawn(run_view(report, Zone()))
    assert "2 rows of mart.fct_orders_usd by Ada" in text
    assert "staged anew since" not in text
    confirm(driven.run, [replace(CHECK, snapshots=(1, 2))], w.ledger, by="Bo", note="", at=driven.run.updated, who="x")
    assert "staged anew since" in drawn(run_view(w.teller.show_run(w.ledger.run(driven.run.id)), Zone()))
    w.close()


def test_what_a_change_comes_from_is_shown_with_what_is_unknown(recorded: Records) -> None:
    run = recorded().stage().prove().run
    known = Parts(old=Decimal(100), new=Decimal(111), code=Decimal(10), inputs=Decimal(1), chance=Decimal(0))
    slices = (
        AttributedSlice(slice="2026-01-02", before="run_1", parts={"rows": known}, unlike=0),
        AttributedSlice(slice="2026-01-03", before=None, parts={"rows": replace(known, code=None)}, unlike=2,
                        notes=("old code on new inputs: gone",)),
    )  # fmt: skip
    found = Attribution(model=ORDERS, moved=9, slices=slices, additive=frozenset({"rows"}))
    text = drawn(attributions_view(run, [found, replace(found, slices=(), why_not="it merges")]))
    assert f"{ORDERS}: 2 of 9 slices that moved" in text
    assert re.search(r"rows +100 +111 +\+11 +\+10 +\+1 +0 +0", text)
    assert re.search(r"rows +100 +111 +\+11 +– +\+1 +0 +–", text)
    assert "2 rows come out otherwise" in text
    assert "can't be told" in text
    endless = replace(known, new=Decimal("Infinity"), chance=Decimal("NaN"))
    text = drawn(attributions_view(run, [replace(found, slices=(replace(slices[0], parts={"rows": endless}),))]))
    assert re.search(r"rows +100 +Infinity +\+Infinity +\+10 +\+1 +NaN +NaN", text)
    told = attributions_result(run, [found])["models"][0]
    assert (told["totals"]["rows"]["change"], told["totals"]["rows"]["code"]) == ("22", None)


def test_options_that_mean_nothing_together_are_refused_before_anything_starts(
    retcon: Retcon, recorded: Records
) -> None:
    run = recorded().stage().prove().run.id
    for words, said in (
        (("diff", run, "--limit", "3"), "--rows wasn't given"),
        (("diff", run, "--out", "x.csv"), "--rows wasn't given"),
        (("diff", run, "--rows", "--why"), "different questions"),
        (("diff", run, "--profile", "--rows"), "different questions"),
        (("diff", run, "--profile", "--all"), "about columns"),
        (("diff", run, "--slices", "2"), "--why"),
        (("diff", run, "--rows", "--force"), "none was named"),
        (("diff", run, "--rows", "--tolerance", "2"), "not a share"),
        (("diff", run, "--rows", "--limit", "9999"), "at most 1000"),
        (("diff", run, "--rows", "--out", "x.xlsx"), "how should it be written"),
        (("diff", run, "--rows", "--out", "no/such/x.csv"), "no place for a file"),
        (("diff", run, "--rows", "--out", "x.csv"), "holds the rows of one model"),
        (("sample", run, "--out", "retcon.yaml"), "how should it be written"),
        (("sample", run, "--confirm"), "somebody who answers"),
        (("sample", run, "--by", "ada"), "--confirm"),
        (("sample", ORDERS), "a run is needed"),
    ):
        answer = retcon(*words)
        assert (answer.code, said in answer.err) == (2, True), (words, answer.err)
