"""`retcon demo`: the textbook case, done step by step as a person would do it."""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from datetime import date
from io import StringIO
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer
from rich.text import Text

from retcon.cli.main import run
from retcon.cli.terminals import Terminal, terminal_of
from retcon.errors import Fault
from retcon.wiring import Workspace, template_text, write_project, write_samples

_DAYS = 90
_ORDERS_A_DAY = 20_000
_MODEL = "models/mart/fct_orders_usd.sql"
RECOMPUTED = {
    "mart.fct_orders_usd": (
        "SELECT o.order_id, o.order_date, o.customer_id, o.currency, o.amount, "
        "CAST(ROUND(o.amount * r.rate, 2) AS DECIMAL(14,2)) AS amount_usd "
        "FROM raw.orders o JOIN raw.fx_rates r ON r.rate_date = o.order_date AND r.currency = o.currency"
    ),
    "mart.fct_daily_revenue": (
        "SELECT o.order_date, o.currency, count(*) AS orders, "
        "sum(CAST(ROUND(o.amount * r.rate, 2) AS DECIMAL(14,2))) AS revenue_usd "
        "FROM raw.orders o JOIN raw.fx_rates r ON r.rate_date = o.order_date AND r.currency = o.currency "
        "GROUP BY o.order_date, o.currency"
    ),
}
"""Of tables that the demo publishes, what plain SQL over the raw tables gives."""


def demo(
    context: typer.Context,
    folder: Annotated[Path | None, typer.Argument(metavar="[DIR]", hidden=True)] = None,
    orders: Annotated[int, typer.Option("--orders", min=1, metavar="N", help="Orders a day, about.")] = _ORDERS_A_DAY,
    master: Annotated[
        str | None,
        typer.Option(
            "--master", metavar="URL", help="Spark master, such as spark://host:7077, instead of this machine's cores."
        ),
    ] = None,
) -> None:
    """Watch 90 days of wrong revenue being repaired.

    Makes a project with two million orders in eight currencies, publishes it with a bug (each order converted at
    the rate of the day before), then repairs it: every command is shown, then what it prints. The project is
    left in DIR (shop-demo).

    \b
    Example:
      retcon demo
    """
    terminal = terminal_of(context, as_json=False)
    target = (folder or _free_folder(Path("shop-demo"))).absolute()
    _Demo(terminal, target).play(orders, master)


def _free_folder(wanted: Path) -> Path:
    """The folder, or the next one that isn't taken."""
    names = [wanted, *(wanted.with_name(f"{wanted.name}-{n}") for n in range(2, 1000))]
    return next(name for name in names if not name.exists())


class _Demo:
    """The story, step by step."""

    def __init__(self, terminal: Terminal, root: Path) -> None:
        self._terminal = terminal
        self._root = root
        self._number = 0
        self._shown = os.path.relpath(root)
        """The folder as seen from where the demo was started."""

    def play(self, orders: int, master: str | None) -> None:
        began = monotonic()
        self._title("A shop, and its revenue in dollars")
        self._say(f"A new project in {self._shown}: orders in eight currencies, two years of rates.")
        write_project(self._root, "demo", master=master)
        samples = write_samples(self._root, days=_DAYS, orders_a_day=orders)
        self._say(f"raw.orders has {samples.orders:,} rows, {samples.first} to {samples.last}.")
        with chdir(self._root):
            fixed = Path(_MODEL).read_text()
            self._first_build(samples.first, samples.last)
            self._mend(fixed)
            first = self._repair(samples.first, samples.last)
            self._recompute()
            self._undo_and_redo(first)
            self._end(monotonic() - began)

    def _first_build(self, first: date, last: date) -> None:
        self._title("Published, with a bug nobody sees")
        self._say("fct_orders_usd joins the rate of the day before. Four tables are built on it and published.")
        Path(_MODEL).write_text(template_text("demo", "bugs/fct_orders_usd.sql"))
        with self._in_short():
            plan = self._plan("+report.*", "--start", str(first), "--end", str(last), "--reason", "first build")
            self._command("apply", plan)

    def _mend(self, fixed: str) -> None:
        self._title("90 days later, somebody compares with the bank")
        buggy = Path(_MODEL).read_text()
        Path(_MODEL).write_text(fixed)
        self._say(f"The mended join, in {_MODEL}:")
        for line in difflib.unified_diff(buggy.splitlines(), fixed.splitlines(), lineterm="", n=0):
            if line[:1] in "+-" and line[:3] not in ("+++", "---"):
                self._terminal.out.print(Text("    " + line, style="green" if line[0] == "+" else "red"))

    def _repair(self, first: date, last: date) -> str:
        self._title("Plan: what is affected, and what it costs")
        reason = "orders were converted at the previous day's rate"
        plan = self._plan("mart.fct_orders_usd", "--start", str(first), "--end", str(last), "--reason", reason)
        self._title("Stage and prove, beside production")
        self._command("apply", plan, "--until", "proven")
        self._title("What will move?")
        self._command("diff", plan)
        self._title("Publish: all four tables in one step")
        self._command("apply", plan)
        return plan

    def _recompute(self) -> None:
        self._title("Trust, but verify: an independent recomputation over the raw tables")
        spark = Workspace(self._root).spark
        for table, query in RECOMPUTED.items():
            columns = ", ".join(spark.sql(query).columns)
            published = f"SELECT {columns} FROM {table}"
            missing = spark.sql(f"{query} EXCEPT ALL {published}").count()
            surplus = spark.sql(f"{published} EXCEPT ALL {query}").count()
            if missing or surplus:
                raise Fault(f"{table}: {missing:,} rows are missing and {surplus:,} are too many")
            self._say(f"{table}: the same rows, none missing, none too many.")

    def _undo_and_redo(self, plan: str) -> None:
        self._title("Second thoughts: roll back, then publish anew")
        self._command("rollback", plan, "--reason", "finance wants to look at it first")
        with self._in_short():
            again = self._plan("--refresh", f"backfills/{plan}.yaml", "--reason", "finance agreed")
            self._command("apply", again)

    def _end(self, seconds: float) -> None:
        self._title("Where things stand")
        self._command("status")
        self._say(f"\nThat took {seconds:,.0f} seconds. The project stays here; try next:")
        self._terminal.out.print(Text(f"    cd {shlex.quote(self._shown)}", style="bold"))
        plan = max(Path("backfills").glob("*.yaml"), key=lambda path: path.stat().st_mtime).stem
        for line in ("retcon history", f"retcon show {plan}", "retcon check", "retcon render report.exec_dashboard"):
            self._terminal.out.print(Text(f"    {line}", style="bold"))

    def _plan(self, *arguments: str) -> str:
        """Run `retcon plan`, and the id of the plan it wrote."""
        before = set(Path("backfills").glob("*.yaml"))
        self._command("plan", *arguments)
        [written] = set(Path("backfills").glob("*.yaml")) - before
        return written.stem

    def _command(self, *arguments: str) -> None:
        """Show a command as one types it, then let it run."""
        self._terminal.out.print()
        self._terminal.out.print(Text(f"$ {shlex.join(('retcon', *arguments))}", style="bold cyan"), soft_wrap=True)
        code = run(arguments)
        if code:
            raise typer.Exit(code)

    @contextmanager
    def _in_short(self) -> Iterator[None]:
        """Commands whose output was seen before: shown, but not what they print."""
        out = self._terminal.out
        shown = out.file
        with redirect_stdout(StringIO()):
            out.file = shown
            yield

    def _title(self, text: str) -> None:
        self._number += 1
        self._terminal.out.print()
        self._terminal.out.print(Text(f"{self._number}. {text}", style="bold"), soft_wrap=True)

    def _say(self, text: str) -> None:
        self._terminal.out.print(text, soft_wrap=True)
