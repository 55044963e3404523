"""An engine with Iceberg 1.9 expires what retcon has swept: in a JVM of its own, without Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from pyiceberg.transforms import IdentityTransform

from retcon.lakehouse import jars
from tests.java_servers import SHORT_LIVED
from tests.lakehouse.lakes import Lake

pytestmark = pytest.mark.slow

OLD_ICEBERG = ("org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.9.2",)
BRANCH, TAG = "retcon_20260122_a_k3f9", "retcon_before_20260122_a_k3f9"


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    spark = Path(pyspark.__file__).parent / "jars"
    kept = [*jars._kept(OLD_ICEBERG, os.environ), *(j for j in jars.kept_jars(os.environ) if "sqlite" in j.name)]
    (py4j,) = spark.glob("py4j-*.jar")
    classpath = os.pathsep.join([*map(str, kept), f"{spark}/*"])
    port = launch_gateway(jarpath=str(py4j), classpath=classpath, javaopts=[*SHORT_LIVED], die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    assert gateway.jvm.org.apache.iceberg.IcebergBuild.version() == "1.9.2"
    yield gateway.jvm
    gateway.shutdown()


class OldEngine:
    """A table in the lake, written by Iceberg 1.9.2 as a run and its publish write it."""

    def __init__(self, jvm: Any, lake: Lake, folder: Path) -> None:
        self._jvm, self._lake, self._folder = jvm, lake, folder
        self.paths: dict[str, Path] = {}
        lake.make("mart.a", by=IdentityTransform())

    @property
    def table(self) -> Any:
        """As it is now: each time by a connection of its own, since one that has read may not write after others."""
        catalog, properties = self._jvm.org.apache.iceberg.jdbc.JdbcCatalog(), self._jvm.java.util.HashMap()
        properties.put("uri", f"jdbc:sqlite:{self._lake.file}?busy_timeout=30000&journal_mode=WAL")
        properties.put("warehouse", self._lake.settings.warehouse)
        properties.put("jdbc.schema-version", "V1")
        catalog.setConf(self._jvm.org.apache.hadoop.conf.Configuration())
        catalog.initialize("lake", properties)
        return catalog.loadTable(self._jvm.org.apache.iceberg.catalog.TableIdentifier.parse("mart.a"))

    def file(self, name: str, day: str) -> Any:
        """A file of one row on this day, which is there."""
        path = self._folder / f"{name}.parquet"
        path.write_text(name)
        self.paths[name] = path
        return self.told(name, day)

    def told(self, name: str, day: str) -> Any:
        files = self._jvm.org.apache.iceberg.DataFiles.builder(self.table.spec())
        files = files.withPath(str(self.paths[name])).withFormat("parquet").withPartitionPath(f"d_cut={day}")
        return files.withFileSizeInBytes(10).withRecordCount(1).build()

    def replace(self, day: str, file: Any, branch: str | None = None) -> None:
        rows = self._jvm.org.apache.iceberg.expressions.Expressions.equal("d", day)
        overwrite = self.table.newOverwrite().overwriteByRowFilter(rows).addFile(file)
        (overwrite if branch is None else overwrite.toBranch(branch)).commit()

    def expire(self) -> None:
        now = self._jvm.java.lang.System.currentTimeMillis() + 60_000
        self.table.expireSnapshots().expireOlderThan(now).retainLast(1).commit()

    @property
    def left(self) -> set[str]:
        return {name for name, path in self.paths.items() if path.exists()}


@pytest.mark.parametrize("is_swept", [True, False])
def test_after_a_sweep_an_expiry_by_iceberg_1_9_takes_no_live_file(jvm: Any, tmp_path: Path, is_swept: bool) -> None:
    lake = Lake(tmp_path / "lake")
    engine = OldEngine(jvm, lake, tmp_path)
    append = engine.table.newAppend()
    append.appendFile(engine.file("old", "2026-01-03")).appendFile(engine.file("other", "2026-01-09")).commit()
    before = engine.table.currentSnapshot().snapshotId()
    engine.table.manageSnapshots().createBranch(BRANCH, before).commit()
    engine.replace("2026-01-03", engine.file("corrected", "2026-01-03"), BRANCH)
    engine.replace("2026-01-03", engine.told("corrected", "2026-01-03"))
    engine.table.manageSnapshots().createTag(TAG, before).commit()
    engine.table.newAppend().appendFile(engine.file("later", "2026-01-20")).commit()
    if is_swept:
        refs = lake.metadata.refs("mart.a")
        assert refs is not None
        lake.metadata.drop_refs(refs, {BRANCH, TAG})
    else:
        # What people do by hand, and what it costs.
        engine.table.manageSnapshots().removeBranch(BRANCH).removeTag(TAG).commit()
    engine.expire()
    live = {"other", "corrected", "later"}
    assert engine.left == (live if is_swept else live - {"corrected"})
