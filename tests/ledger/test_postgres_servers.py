from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import psycopg
import pytest

from tests.postgres import binary_folders, running_postgres


@pytest.mark.slow
@pytest.mark.parametrize("binaries", binary_folders(), ids=str)
def test_every_postgresql_on_this_machine_starts_and_stops(binaries: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="retcon-postgres-"))
    try:
        with running_postgres(folder, binaries) as url, psycopg.connect(url) as connection:
            assert connection.execute("SELECT current_database()").fetchone() == ("retcon",)
        with pytest.raises(psycopg.OperationalError, match="refused"):
            psycopg.connect(url)
    finally:
        shutil.rmtree(folder)
