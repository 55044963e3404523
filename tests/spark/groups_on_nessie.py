"""Two tables in one commit of a Nessie server, in a process of its own: the jars for S3 must be there at its start.

Called with the server's address and the settings of its S3 as JSON; prints what the tables held after each step.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from retcon.core.projects import Catalog, Settings, SparkSettings
from retcon.errors import Conflict
from retcon.lakehouse.group_commits import RestCommits, requested
from retcon.lakehouse.sessions import start_session
from tests.shops import SPARK_FOR_LITTLE

TABLES = ("shop.a", "shop.b")


def main(root: Path, uri: str, storage: dict[str, str]) -> None:
    catalog = Catalog(name="lake", type="rest", uri=uri, warehouse="lake", options=storage)
    little = SparkSettings(master="local[1]", conf=SPARK_FOR_LITTLE)
    settings = Settings(name="x", root=str(root), catalog=catalog, spark=little)
    spark = start_session(settings, os.environ)
    java = spark._jvm
    assert java is not None

    def emptied(table: str) -> str:
        """The request for a commit that deletes every row of a table as it is now."""
        load = java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable
        transaction = load(spark._jsparkSession, f"lake.{table}").newTransaction()
        everything = java.org.apache.iceberg.expressions.Expressions.alwaysTrue()
        transaction.newDelete().deleteFromRowFilter(everything).commit()
        commit = requested(spark, transaction, table).commit
        assert commit is not None
        return commit.request

    def held() -> list[int]:
        return [spark.sql(f"SELECT count(*) FROM {table}").collect()[0][0] for table in TABLES]

    spark.sql("CREATE NAMESPACE shop")
    for table in TABLES:
        spark.sql(f"CREATE TABLE {table} (i INT) USING iceberg TBLPROPERTIES ('format-version' = '2')")
        spark.sql(f"INSERT INTO {table} VALUES (1)")
    group = [emptied(table) for table in TABLES]
    spark.sql("INSERT INTO shop.b VALUES (2)")
    commits = RestCommits(spark, "lake")
    try:
        commits.commit(group)
        refusal = ""
    except Conflict as conflict:
        refusal = conflict.message
    after_refusal = held()
    commits.commit([group[0], emptied("shop.b")])
    print(json.dumps({"refusal": refusal, "after_refusal": after_refusal, "after_commit": held()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
