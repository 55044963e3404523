"""The entry: exit codes, errors, streams, and what isn't loaded."""

from __future__ import annotations

import gc
import io
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from retcon import __version__
from retcon.__main__ import main
from retcon.cli.main import COMMANDS, command_of, run
from retcon.errors import Fault
from retcon.wiring import Workspace
from tests.cli.conftest import Records, Retcon, loaded

HEAVY = ("pyspark", "py4j", "pyiceberg", "pyarrow", "sqlalchemy", "sqlglot", "alembic", "yaml")


def test_help_and_version_load_nothing_heavy() -> None:
    assert not loaded("--help", "--version", "plan --help", "") & set(HEAVY)


def test_the_help_loads_no_command_and_nothing_that_commands_use() -> None:
    found = loaded("--help")
    assert "typer" in found
    assert not found & {f"retcon.cli.{name}" for name in COMMANDS}
    assert not {name for name in found if name.startswith(("retcon.core.", "retcon.flow."))} - {
        "retcon.core.durations",
        "retcon.core.findings",
    }  # texts only
    assert "pydantic" not in found, "typer takes it to read the values of options, of which the help has none"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_says_of_each_command_what_the_command_says_itself(name: str) -> None:
    assert command_of(name).help.splitlines()[0] == COMMANDS[name]


def test_looking_at_the_ledger_loads_no_spark_and_no_iceberg(shop: Path, recorded: Records) -> None:
    run_id = recorded().stage().plan.id
    found = loaded("history", "schedule", f"show {run_id}", cwd=shop)
    assert not found & {"pyspark", "py4j", "pyiceberg", "pyarrow", "alembic", "sqlglot"}
    assert "sqlalchemy" in found, "it did look"
    assert not loaded("status", "history", cwd=shop) & {"pyspark", "py4j", "pyarrow", "pyiceberg", "sqlalchemy"}, (
        "how fresh models are, metadata files tell; what is on record, SQLite does"
    )
    assert not loaded("show mart.fct_daily_revenue", cwd=shop) & {"pyspark", "py4j", "pyiceberg", "pyarrow", "alembic"}


def test_a_command_loads_no_other_one(shop: Path) -> None:
    found = loaded("status", cwd=shop)
    assert {name for name in COMMANDS if f"retcon.cli.{name}" in found} == {"status"}
    assert not found & {"retcon.flow.plan", "retcon.flow.apply", "retcon.flow.stage"}


def test_status_loads_no_more_of_retcon_than_it_uses(shop: Path, recorded: Records) -> None:
    recorded().stage()
    loaded("check", cwd=shop)  # SQL is read, and isn't again
    found = loaded("status", "status --json", "history", cwd=shop)
    flow = {"contents", "find", "freshness", "inputs", "look", "ports", "records", "standing", "statuses", "worlds"}
    ledger = {"exceptions", "faults", "looks", "pointers", "questions", "reading", "revisions", "sqlite_files",
              "statements", "texts", "watermarks"}  # fmt: skip
    assert _parts(found, "flow") == flow, "nothing that runs, or tells everything about a run"
    assert _parts(found, "ledger") == ledger, "nothing that writes"
    unused = {"certificates", "drifts", "events", "hand_checks", "intents", "jobs", "leases", "overlaps", "pointers",
              "row_diffs", "schedules", "sweeping", "timings", "troubles", "undoing"}  # fmt: skip
    assert not _parts(found, "core") & unused
    assert not _parts(found, "cli") & {"json_output", "certificate_results", "timing_results", "views.projects"}


def _parts(found: set[str], layer: str) -> set[str]:
    start = f"retcon.{layer}."
    return {name.removeprefix(start) for name in found if name.startswith(start)}


@pytest.mark.parametrize("command", ["status", "history", "show mart.fct_daily_revenue"])
def test_what_only_reads_asks_the_ledger_nothing_twice_in_one_transaction(
    shop: Path, recorded: Records, retcon: Retcon, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded().stage()
    said: list[str] = []
    connect = sqlite3.connect

    def overheard(*address: Any, **how: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*address, **how)
        connection.set_trace_callback(said.append)  # with the values that are bound
        return connection

    monkeypatch.setattr(sqlite3, "connect", overheard)
    assert retcon(*command.split()).code == 0
    asked = [statement for statement in said if "retcon_" in statement]
    assert asked
    assert not [each for each, times in Counter(asked).items() if times > 1]
    assert said.count("BEGIN") == 1


def test_the_help_lists_every_command_whatever_follows(retcon: Retcon) -> None:
    assert retcon("--help", "status").out == retcon("--help").out


def test_check_asks_no_catalog(shop: Path) -> None:
    assert not loaded("check", cwd=shop) & {"pyspark", "pyiceberg", "pyarrow", "sqlalchemy"}


def test_sql_that_was_read_before_isnt_parsed_again(shop: Path) -> None:
    assert "sqlglot" in loaded("check", cwd=shop)
    assert "sqlglot" not in loaded("check", cwd=shop)
    model = shop / "models" / "mart" / "fct_orders_usd.sql"
    model.write_text(model.read_text() + "-- another word\n")
    assert "sqlglot" in loaded("check", cwd=shop)


def test_the_version_is_shown(retcon: Retcon) -> None:
    assert retcon("--version").out == f"retcon {__version__}\n"


def test_without_a_command_the_help_is_shown(retcon: Retcon) -> None:
    answer = retcon()
    assert answer.code == 0
    assert "Commands:" in answer.out
    assert answer.out == retcon("--help").out


@pytest.mark.parametrize(
    ("argv", "message", "advice"),
    [
        (["plam"], "no such command `plam`", "did you mean `plan`?"),
        (["xyzzy"], "no such command `xyzzy`", "`retcon --help` tells more"),
        (["plan", "--stat", "x"], "no such option: --stat", "did you mean --start?"),
        (["plan", "-x"], "no such option: -x", "`retcon plan --help` tells more"),
        (["--verzion"], "no such option: --verzion", "did you mean --version?"),
        (["apply"], "missing argument `PLAN`", "`retcon apply --help` tells more"),
        (["rollback", "x"], "missing option `--reason`", "`retcon rollback --help` tells more"),
        (["apply", "x", "--until", "done"], "invalid value for `--until`", "`retcon apply --help` tells more"),
        (["apply", "x", "--max-active", "0"], "invalid value for `--max-active`", "`retcon apply --help` tells more"),
    ],
)
def test_arguments_that_cant_be_understood_end_with_2(
    retcon: Retcon, argv: list[str], message: str, advice: str
) -> None:
    answer = retcon(*argv)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith(f"error: {message}")
    assert answer.err.endswith(f"next:  {advice}\n")


def test_usage_errors_are_json_where_json_was_asked_for(retcon: Retcon) -> None:
    answer = retcon("plan", "--stat", "x", "--json")
    assert answer.code == 2
    assert answer.error == {
        "code": "arguments",
        "message": "no such option: --stat",
        "state": "",
        "next": "did you mean --start?",
    }
    assert answer.json["command"] == "plan"
    assert "error: no such option" in answer.err


def test_json_that_is_another_options_value_asks_for_nothing(retcon: Retcon, bare: Path) -> None:
    answer = retcon("plan", "mart.nope", "--reason", "--json")
    assert answer.out == ""
    assert "no model matches 'mart.nope'" in answer.err


def test_a_folder_without_a_project_is_refused(retcon: Retcon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = retcon("status")
    assert answer.code == 1
    assert "there is no retcon.yaml" in answer.err
    assert "retcon init DIR" in answer.err
    assert retcon("status", "--project", str(tmp_path)).code == 1


def test_the_project_is_found_from_a_folder_inside_it_or_named(
    retcon: Retcon, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bare / "models" / "mart")
    assert retcon("check").code == 0
    monkeypatch.chdir(tmp_path)
    assert retcon("check", "--project", "bare").code == 0


def test_the_process_lets_python_look_for_garbage_seldom_and_still(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, during = gc.get_threshold(), []
    monkeypatch.setattr(threading, "active_count", lambda: 2)  # one that has others isn't ended at once
    monkeypatch.setattr("retcon.cli.main.run", lambda: during.append((gc.isenabled(), gc.get_threshold())) or 5)
    try:
        assert main() == 5
    finally:
        gc.unfreeze()
        gc.set_threshold(*usual)
    ((is_enabled, (objects, *_)),) = during
    assert is_enabled
    assert usual[0] < objects < 1_000_000


def test_the_process_ends_with_what_was_to_be_done_at_its_end(bare: Path) -> None:
    text = (
        "import atexit, sys; atexit.register(print, 'the end'); sys.argv = ['retcon', 'nope'];"
        "from retcon.__main__ import main; sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=bare, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "the end\n")
    assert "nope" in done.stderr


def test_calls_in_one_process_leave_nothing_to_the_next(retcon: Retcon, bare: Path) -> None:
    assert retcon("plan", "--json").code == 2
    first = retcon("status")
    assert (first.code, first.err) == (0, "")
    assert retcon("nope").code == 2
    assert retcon("status") == first


def broken(error: BaseException) -> property:
    def project(_: Workspace) -> None:
        raise error

    return property(project)


def test_the_unforeseen_is_told_briefly_and_its_traceback_kept(
    retcon: Retcon, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Workspace, "outline", broken(RuntimeError("the moon\nis full")))
    answer = retcon("status", "--json")
    assert answer.code == 3
    assert answer.error["code"] == "fault"
    assert answer.error["message"] == "something unforeseen: RuntimeError: the moon"
    assert "Traceback" not in answer.err
    (log,) = (bare / ".retcon" / "logs").glob("error-*.log")
    assert str(log) in answer.error["next"]
    assert "RuntimeError: the moon\nis full" in log.read_text()


def test_where_no_log_can_be_kept_the_traceback_is_shown(
    retcon: Retcon, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare / ".retcon").write_text("in the way")
    monkeypatch.setattr(Workspace, "outline", broken(RuntimeError("the moon")))
    answer = retcon("status")
    assert answer.code == 3
    assert "Traceback" in answer.err
    assert "please report it with the traceback above" in answer.err


def test_debugging_lets_the_unforeseen_through(retcon: Retcon, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETCON_DEBUG", "1")
    monkeypatch.setattr(Workspace, "outline", broken(RuntimeError("the moon")))
    with pytest.raises(RuntimeError, match="the moon"):
        retcon("status")


def test_an_error_is_told_in_three_parts(retcon: Retcon, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault("the disk is full", state="nothing was written", next="make room")
    monkeypatch.setattr(Workspace, "outline", broken(fault))
    answer = retcon("status")
    assert answer.code == 3
    assert answer.err == "error: the disk is full\nstate: nothing was written\nnext:  make room\n"


def test_control_c_ends_with_130(retcon: Retcon, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workspace, "outline", broken(KeyboardInterrupt()))
    answer = retcon("status", "--json")
    assert answer.code == 130
    assert answer.error["code"] == "interrupted"
    assert answer.err.startswith("stopped:")


class Gone(io.StringIO):
    """A pipe whose reader went away."""

    def write(self, _: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("argv", [["check"], ["check", "--json"]])
def test_a_reader_that_goes_away_ends_the_command_quietly(
    bare: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", Gone())
    assert run(argv) == 0
    assert capsys.readouterr().err == ""


def test_nobody_needs_to_listen_to_stderr(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Gone())
    assert run(["plan", "mart.nope", "--reason", "x"]) == 1


def test_a_real_pipe_may_be_closed_early(shop: Path) -> None:
    shell = f"{sys.executable} -m retcon check --json | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], cwd=shop, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("0\n", "")
