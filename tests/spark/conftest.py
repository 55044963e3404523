"""Fixtures for the tests with Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from retcon.lakehouse import sessions
from tests.local_disks import spare_processes


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
