"""A ledger that an older retcon made: commands that write bring it up to date, those that only look refuse it."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config

from retcon.ledger.engines import writing
from retcon.ledger.migrate import MIGRATIONS
from retcon.ledger.revisions import REVISIONS, revision_of
from retcon.wiring import Workspace
from tests.cli.conftest import Retcon
from tests.cli.shops import ORDERS


@pytest.fixture
def old(shop: Path) -> Path:
    """The shop, with the first ledger that there ever was."""
    config = Config()
    config.set_main_option("script_location", MIGRATIONS)
    with writing(Workspace(shop).ledger._engine).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, REVISIONS[0])
    return shop


def revision(shop: Path) -> str | None:
    with Workspace(shop).ledger._engine.connect() as connection:
        return revision_of(connection)


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "mart.*", "--reason", "a test"),
        ("apply", "20260122_none_k3f9"),
        ("load", "raw.none"),
        ("schedule", "--watch"),
        ("adopt", ORDERS, "--reason", "a test"),
        ("migrate", ORDERS, "--days", "2"),
        ("pause", "none"),
        ("cancel", "none"),
        ("rollback", "none", "--reason", "a test"),
        ("sample", "none"),
        ("reproduce", "none"),
        ("doctor", "--repair"),
        ("sweep",),
        ("watermarks", "reset", ORDERS, "--reason", "a test"),
        ("exceptions", "approve", ORDERS, "--by", "ann", "--reason", "a test"),
        ("exceptions", "reject", ORDERS, "--by", "ann", "--reason", "a test"),
    ],
    ids=" ".join,
)
def test_a_command_that_writes_brings_it_up_to_date_before_it_reads(
    words: tuple[str, ...], retcon: Retcon, old: Path
) -> None:
    assert "older retcon" not in retcon(*words).err
    assert revision(old) == REVISIONS[-1]


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "mart.*", "--reason", "a test", "--dry-run"),
        ("status",),
        ("show", "none"),
        ("diff", "none"),
        ("history", ORDERS),
        ("load", "--dry-run"),
        ("sweep", "--dry-run"),
        ("doctor",),
        ("watermarks",),
        ("exceptions",),
    ],
    ids=" ".join,
)
def test_a_command_that_only_looks_leaves_it_and_says_what_to_do(
    words: tuple[str, ...], retcon: Retcon, old: Path
) -> None:
    answer = retcon(*words)
    assert answer.code != 0
    assert "made by an older retcon" in answer.err
    assert "retcon plan" in answer.err
    assert revision(old) == REVISIONS[0]
