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


def written(peer: Peer, schema: str, days: int, *, by_day: bool = False) -> Path:
    """A project that builds both tables over these days into a schema of its own."""
    root = peer.root / schema
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
    given = {"schema": schema, "batch": ", batch_size 1" if by_day else "", "first": FIRST, "last": last_of(days)}
    for name, query in queries.items():
        fields = peer.spark.table(f"reference.{name}").schema
        columns = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in fields)
        (root / "models" / f"{name}.sql").write_text(MODEL.format(name=name, columns=columns, query=query, **given))
    return root


def build(root: Path) -> None:
    context = Context(paths=str(root))
    context.plan(auto_apply=True, no_prompts=True, skip_tests=True)


def work(peer: Peer) -> None:
    """What SQLMesh has built it doesn't build again, so each time is a project of its own."""
    peer.warm_up(lambda number: build(written(peer, f"sqlmesh_warm_{number}", peer.days)))
    peer.by_hand()
    for number in range(peer.rounds):
        root = written(peer, f"sqlmesh_one_{number}", peer.days)
        peer.run(ONE_BATCH, partial(build, root))
        peer.by_hand()
    peer.require_same(root.name)
    for number in range(peer.warm_ups):
        build(written(peer, f"sqlmesh_few_{number}", peer.few, by_day=True))
    peer.by_hand()
    root = written(peer, "sqlmesh_day", peer.days, by_day=True)
    peer.run(BY_DAY, partial(build, root))
    peer.by_hand()
    peer.require_same(root.name)


if __name__ == "__main__":
    played(work)
