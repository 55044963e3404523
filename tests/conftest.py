"""Fixtures for all tests: small projects, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.databases import postgres_url  # noqa: F401 (a fixture)
from tests.shops import Shop

SQLITE = "sqlite:///.retcon/lake.db"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A small project on SQLite."""
    with closing(Shop(tmp_path / "a shöp", SQLITE)) as shop:
        yield shop


@pytest.fixture(params=["sqlite", "postgresql"])
def any_shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """The same small project on each database that a catalog can live in."""
    uri = SQLITE if request.param == "sqlite" else _new_database(request.getfixturevalue("postgres_url"))
    with closing(Shop(tmp_path / "a shöp", uri)) as shop:
        yield shop


def _new_database(server: str) -> str:
    name = f"test_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.rpartition("/")[0] + f"/{name}"
