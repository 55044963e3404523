from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from retcon.cli.main import run
from retcon.core.plans import Plan
from retcon.flow.plan import Ask
from retcon.wiring import Workspace, write_project
from tests.cli.shops import FIRST, LAST, NOON, Recorder, make_sources


@dataclass(frozen=True)
class Answer:
    """What one call of the command line gave back."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)

    @property
    def result(self) -> Any:
        document = self.json
        assert document["version"] == 1
        return document["result"]

    @property
    def error(self) -> Any:
        document = self.json
        assert document["version"] == 1
        assert "result" not in document
        return document["error"]


Retcon = Callable[..., Answer]


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "RETCON_DEBUG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def retcon(capsys: pytest.CaptureFixture[str]) -> Retcon:
    """Calls the command line in this process."""

    def call(*argv: str) -> Answer:
        capsys.readouterr()
        code = run(argv)
        told = capsys.readouterr()
        return Answer(code, told.out, told.err)

    return call


def loaded(*commands: str, cwd: Path | None = None) -> set[str]:
    """The modules that these commands load, in a process of their own."""
    text = (
        "import sys\n"
        "from retcon.cli.main import run\n"
        f"assert not any([run(command.split()) for command in {commands!r}])\n"
        "print('\\nloaded', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=cwd, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shop with ten days of orders; its tables are only read."""
    root = tmp_path_factory.mktemp("shop") / "shop"
    write_project(root, "shop")
    make_sources(root)
    return root


@pytest.fixture
def shop(made_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shop of its own, with us in its folder; the catalog points to the tables that all tests share."""
    root = tmp_path / "shop"
    shutil.copytree(made_once, root, ignore=shutil.ignore_patterns("warehouse"))
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shop's files without any table."""
    root = tmp_path / "bare"
    write_project(root, "shop")
    monkeypatch.chdir(root)
    return root


Plans = Callable[..., Plan]
Records = Callable[..., Recorder]


@pytest.fixture
def planned(shop: Path) -> Plans:
    """Makes a plan of both models, without a file."""

    def plan(suffix: str = "k3f9", *, start: date = FIRST, end: date = LAST, reason: str = "wrong rates") -> Plan:
        ask = Ask(
            select=("mart.*",),
            reason=reason,
            command="retcon plan …",
            by="ann",
            now=NOON,
            suffix=suffix,
            start=start,
            end=end,
            wave=4,
        )
        return Workspace(shop).planner.plan(ask)

    return plan


@pytest.fixture
def recorded(shop: Path, planned: Plans) -> Records:
    """Opens a run in the shop's ledger, to be taken further."""

    def record(suffix: str = "k3f9", *, at: datetime = NOON) -> Recorder:
        return Recorder(Workspace(shop), planned(suffix), at=at)

    return record
