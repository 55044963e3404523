"""The same two tables by SQLMesh: in one batch, and in batches of a day. Run in its own environment.

One batch after the other: several at a time run into one another's commits to the same Iceberg table.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from sqlmesh import Context

from orders import FIRST, ORDERS_SQL, REVENUE_SQL, last_of
from peers.session import Peer, played

CONFIG = """\
gateways:
  lake:
    connection: {{type: spark, config: {{}}, concurrent_tasks: 1}}
    state_connection: {{type: duckdb, database: {state}}}
default_gateway: lake
model_defaults: {{dialect: spark}}
"""
MODEL = """\
MODEL (
  name {schema}.{name},
  kind INCREMENTAL_BY_TIME_RANGE (time_column (order_date, '%Y-%m-%d'){batch}),
  partitioned_by (order_date),
  table_format iceberg,
  start '{first}',
  end '{last}',
  columns ({columns})
);
{query}
"""
ONE_BATCH = "SQLMesh 0.236, one batch"
BY_DAY = "SQLMesh 0.236, batches of a day"


def write(root: Path, schema: str, batch: str, peer: Peer) -> None:
    (root / "models").mkdir(parents=True)
    (root / "config.yaml").write_text(CONFIG.format(state=root / "state.db"))
    between = "{column} BETWEEN @start_ds AND @end_ds"
    orders = ORDERS_SQL.format(orders="lake.raw.orders", rates="lake.raw.fx_rates")
    queries = {
        "fct_orders_usd": f"{orders} WHERE {between.format(column='o.order_date')}",
        "fct_revenue": REVENUE_SQL.format(fct=f"{schema}.fct_orders_usd").replace(
            " GROUP BY", f" WHERE {between.format(column='f.order_date')} GROUP BY"
        ),
    }
    for name, query in queries.items():
        fields = peer.spark.table(f"reference.{name}").schema
        columns = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in fields)
        span = {"first": FIRST, "last": last_of(peer.days)}
        text = MODEL.format(schema=schema, name=name, batch=batch, columns=columns, query=query, **span)
        (root / "models" / f"{name}.sql").write_text(text)


def build(root: Path) -> None:
    context = Context(paths=str(root))
    context.plan(auto_apply=True, no_prompts=True, skip_tests=True)


def work(peer: Peer) -> None:
    for name, schema, batch in ((ONE_BATCH, "sqlmesh_one", ""), (BY_DAY, "sqlmesh_day", ", batch_size 1")):
        root = peer.root / schema
        write(root, schema, batch, peer)
        peer.run(name, partial(build, root))
        peer.by_hand()
        peer.require_same(schema)


if __name__ == "__main__":
    played(work)
