"""What a run stands on breaks away in the middle of it: it stops and says so, and goes on when it is back."""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from retcon.core.runs import RunState
from retcon.errors import Fault
from tests.crashes import Trial, dying, require_sound
from tests.postgres import PostgresServer
from tests.shops import Meddling, Shop
from tests.spark.test_backfills import RECOMPUTED_ORDERS

MODELS = ("mart.orders_usd", "mart.revenue")


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    folder = Path(tempfile.mkdtemp(prefix="retcon-postgres-"))
    server = PostgresServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize(
    ("part", "method"),
    [
        pytest.param("warehouse", "stage", marks=pytest.mark.spark),
        pytest.param("warehouse", "measure", marks=pytest.mark.soak),
        pytest.param("ledger", "publish", marks=pytest.mark.soak),
    ],
)
def test_a_database_that_is_gone_in_the_middle_stops_the_run_until_it_is_back(
    server: PostgresServer, tmp_path: Path, part: str, method: str
) -> None:
    def outage(real: Any, *args: Any, **kwargs: Any) -> Any:
        server.stop()
        return real(*args, **kwargs)

    with closing(Shop(tmp_path / "a shöp", server.url)) as shop:
        shop.open_doors()
        shop.backfill(end="2026-01-03")
        before = [shop.production(model) for model in MODELS]
        shop.sql("UPDATE raw.orders SET amount = amount + 1")
        plan = shop.plan(end="2026-01-03")
        context = shop.context()
        with pytest.raises(Fault) as fault:
            shop.apply(plan, **{part: Meddling(getattr(context, part), method, outage)}, backoff=lambda _: 0.0)
        assert re.search("PostgreSQL|PSQLException|Connection refused", fault.value.message)
        assert fault.value.state
        assert fault.value.next
        shop.close()
        server.start()
        assert [shop.production(model) for model in MODELS] == before
        require_sound(Trial(shop=shop, run=plan.id, tables=MODELS, act=lambda: None, check=lambda: None))
        # Whoever held the lease is another process: it couldn't let go of it.
        with dying(None):
            assert shop.apply(plan).state is RunState.PUBLISHED
        assert shop.production(MODELS[0]) == shop.rows(
            f"SELECT * FROM ({RECOMPUTED_ORDERS}) WHERE order_date <= DATE '2026-01-03'"
        )
        require_sound(Trial(shop=shop, run=plan.id, tables=MODELS, act=lambda: None, check=lambda: None))


WIDE = """\
/* retcon
slices: {by: d, every: day}
inputs: {raw.wide: {time: d}}
*/
SELECT d, text FROM raw.wide
"""


@pytest.mark.soak
def test_a_disk_that_is_full_stops_the_run_and_it_goes_on_when_there_is_room(shop: Shop) -> None:
    shop.remove(*MODELS)
    shop.write("mart.wide", WIDE)
    shop.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    shop.sql(
        "CREATE TABLE raw.wide USING iceberg PARTITIONED BY (d) AS SELECT date_add(DATE '2026-01-01', "
        "CAST(id / 60000 AS INT)) AS d, sha2(CAST(id AS STRING), 512) AS text FROM range(120000)"
    )
    plan = shop.plan("mart.wide", end="2026-01-02", wave=1)
    shop.workspace.write_plan(plan)
    shop.close()

    def apply(most: int) -> subprocess.CompletedProcess[str]:
        """No file may grow beyond this: to whoever writes one, the disk is full."""
        return subprocess.run(
            [sys.executable, "-m", "retcon", "apply", plan.id, "--project", str(shop.root)],
            capture_output=True,
            text=True,
            timeout=300,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
            check=False,
        )

    full = apply(2_000_000)
    assert full.returncode == 3, full.stderr
    assert "production is untouched" in full.stderr
    assert "Traceback" not in full.stderr
    assert not shop.production("mart.wide")
    run = shop.workspace.ledger.run(plan.id)
    assert run is not None
    assert run.state is RunState.STAGING
    shop.close()
    again = apply(resource.RLIM_INFINITY)
    assert again.returncode == 0, again.stderr
    shop.close()
    assert shop.production("mart.wide") == shop.rows("SELECT * FROM raw.wide")
