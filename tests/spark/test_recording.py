"""What a run leaves behind: values in clear, no secrets, and checksums that a load time doesn't move."""

from __future__ import annotations

from datetime import timedelta

import pytest

from retcon.core.plans import to_document
from tests.shops import ORDERS, Shop

pytestmark = pytest.mark.spark

SECRET = "s3cr3t-planted-here"
STAMPED = ORDERS.replace("key:", "volatile: [loaded_at]\nkey:").replace(
    "AS amount_usd\n", "AS amount_usd, :source AS source, :run_ts AS loaded_at\n"
)


def test_values_are_recorded_secrets_are_not_and_volatile_columns_do_not_count(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", SECRET)
    monkeypatch.setenv("FX_SOURCE", "ecb")
    path = shop.root / "retcon.yaml"
    text = path.read_text().replace(
        "warehouse: .retcon/warehouse}", 'warehouse: .retcon/warehouse, s3.secret: "${PLANTED}"}'
    )
    text = text.replace(
        "  conf:\n", '  conf:\n    spark.hadoop.fs.s3a.secret.key: "${PLANTED}"\n    spark.shop.door: "${PLANTED}"\n'
    )
    path.write_text(text.replace("params: {", 'params: {source: "${FX_SOURCE}", '))
    shop.write("mart.orders_usd", STAMPED)
    shop.open_doors()

    plan = shop.plan("mart.orders_usd")
    shop.workspace.write_plan(plan)
    run = shop.apply(plan)

    ledger = shop.workspace.ledger
    opened, began = ledger.events(run.id)[:2]
    assert to_document(plan)["params"]["source"] == "ecb"
    assert opened.body["parameters"]["source"] == "ecb"
    assert shop.sql("SELECT DISTINCT source FROM mart.orders_usd") == [("ecb",)]
    assert began.kind == "ApplyBegan"
    assert began.body["conf"]["spark.hadoop.fs.s3a.secret.key"] == "(hidden)"
    assert began.body["conf"]["spark.shop.door"] == "${PLANTED}"
    assert began.body["conf"]["spark.sql.shuffle.partitions"] == "1"
    assert (began.body["until"], began.body["max_active"]) == ("published", 2)
    assert set(began.body["versions"]) == {"retcon", "spark", "iceberg"}
    assert shop.workspace.spark.version == began.body["versions"]["spark"]

    before = {label: held.checksum for label, held in ledger.published_slices("mart.orders_usd").items()}
    loaded = shop.rows("SELECT loaded_at FROM mart.orders_usd")
    shop.now += timedelta(hours=1)
    again = shop.backfill("mart.orders_usd")
    assert shop.rows("SELECT loaded_at FROM mart.orders_usd") != loaded
    after = {label: held.checksum for label, held in shop.workspace.ledger.published_slices("mart.orders_usd").items()}
    assert after == before
    (diff,) = shop.workspace.teller.diff(again).models
    assert diff.changed == 0

    left = [file for file in shop.root.rglob("*") if file.is_file()]
    assert any(file.parent.name == "backfills" for file in left)
    assert any(file.name == "lake.db" for file in left)
    assert any(file.parent.name == "logs" for file in left)
    assert [file for file in left if SECRET.encode() in file.read_bytes()] == []
