"""Fixtures for the tests with Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyspark.sql import SparkSession

from retcon.lakehouse import sessions
from tests.local_disks import spare_processes
from tests.rest_catalogs import iceberg_fixture
from tests.shops import REST, Shop


@pytest.fixture(autouse=True, scope="session")
def _without_a_process_for_each_file() -> Iterator[None]:
    """The first session of this process, in whose JVM all others are, writes its files by itself."""
    start = sessions.start_session

    def start_session(*args: Any, **kwargs: Any) -> SparkSession:
        is_first = SparkSession.getActiveSession() is None
        session = start(*args, **kwargs)
        if is_first:
            spare_processes(session)
        return session

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "start_session", start_session)
        yield


@pytest.fixture(scope="session")
def rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Iceberg's own REST server, as its address."""
    folder = tmp_path_factory.mktemp("catalog")
    with iceberg_fixture(folder, str(folder / "warehouse")) as uri:
        yield uri


@pytest.fixture
def rest_shop(rest_server: str, tmp_path: Path) -> Iterator[Shop]:
    """The small project, its tables in that server, which has no others."""
    with (
        closing(Shop(tmp_path / "a shöp", rest_server, REST)) as shop,
        closing(RestCatalog("lake", uri=rest_server)) as catalog,
    ):
        yield shop
        for name in [name for space in catalog.list_namespaces() for name in catalog.list_tables(space)]:
            catalog.drop_table(name)
