"""Fixtures for all tests: small projects, on SQLite and on PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.databases import postgres_url  # noqa: F401 (a fixture)
from tests.shops import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A small project on SQLite."""
    return Shop(tmp_path / "shop", "sqlite:///.retcon/lake.db")


@pytest.fixture(params=["sqlite", "postgresql"])
def any_shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    """The same small project on each database that a catalog can live in."""
    if request.param == "sqlite":
        return Shop(tmp_path / "shop", "sqlite:///.retcon/lake.db")
    server: str = request.getfixturevalue("postgres_url")
    name = f"test_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return Shop(tmp_path / "shop", server.rpartition("/")[0] + f"/{name}")
