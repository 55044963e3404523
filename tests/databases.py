"""Fixtures for real databases; a conftest imports those that its tests need."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import running_postgres


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server for the whole session."""
    # Not pytest's own folders: an unprivileged server can't reach into root's.
    folder = Path(tempfile.mkdtemp(prefix="retcon-postgres-"))
    try:
        with running_postgres(folder) as url:
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)
