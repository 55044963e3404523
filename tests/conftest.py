"""Fixtures for all tests: small projects, on SQLite and on PostgreSQL."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Engine, event

from tests.databases import postgres_url  # noqa: F401 (a fixture)
from tests.shops import Shop

SQLITE = "sqlite:///.retcon/lake.db"


def _forget_power_failures(connection: Any, _: object) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


@pytest.fixture(autouse=True, scope="session")
def _without_waiting_for_disks() -> Iterator[None]:
    """No test survives a power failure, so none has to wait for a disk at each commit."""
    event.listen(Engine, "connect", _forget_power_failures)
    yield
    event.remove(Engine, "connect", _forget_power_failures)


@pytest.fixture
def waiting_for_disks(_without_waiting_for_disks: None) -> Iterator[None]:
    """SQLite as users have it."""
    event.remove(Engine, "connect", _forget_power_failures)
    yield
    event.listen(Engine, "connect", _forget_power_failures)


@pytest.fixture
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A small project on SQLite, always in the same place."""
    place = tmp_path_factory.getbasetemp()
    with closing(Shop(place / "a shöp", SQLITE, keep=place / "kept")) as shop:
        yield shop
    shutil.rmtree(shop.root)


@pytest.fixture(params=["sqlite", "postgresql"])
def any_shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """The same small project on each database that a catalog can live in."""
    if request.param == "sqlite":
        yield request.getfixturevalue("shop")
        return
    with closing(Shop(tmp_path / "a shöp", _new_database(request.getfixturevalue("postgres_url")))) as shop:
        yield shop


def _new_database(server: str) -> str:
    name = f"test_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.rpartition("/")[0] + f"/{name}"
