"""REST catalogs of one's own: real servers, local, gone afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.java_servers import dependency, fetched, running, spark_jars
from tests.postgres import free_port

_JETTY = "12.1.8"
_ICEBERG = "1.11.0"
_FIXTURE = (
    dependency(f"org.apache.iceberg:iceberg-open-api:{_ICEBERG}", "test-fixtures", alone=True),
    dependency(f"org.apache.iceberg:iceberg-core:{_ICEBERG}", "", "tests"),
    dependency(f"org.eclipse.jetty.ee10:jetty-ee10-servlet:{_JETTY}"),
    dependency(f"org.eclipse.jetty.compression:jetty-compression-server:{_JETTY}"),
    dependency(f"org.eclipse.jetty.compression:jetty-compression-gzip:{_JETTY}"),
    dependency("org.xerial:sqlite-jdbc:3.50.3.0", alone=True),
)
SMALL_JVM = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@contextmanager
def iceberg_fixture(folder: Path, warehouse: str) -> Iterator[str]:
    """Iceberg's own test server, as its address: checks all requirements of a group, then commits table by table."""
    jars = fetched(*_FIXTURE)
    port = free_port()
    database = folder / "catalog.db"
    environ = {
        "CATALOG_REST_PORT": str(port),
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        "CATALOG_URI": f"jdbc:sqlite:{database}?busy_timeout=30000&journal_mode=WAL",
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        "CATALOG_WAREHOUSE": warehouse,
    }
    hadoop = spark_jars("hadoop-client-*.jar", "commons-logging-*.jar")
    command = [
        "java",
        *SMALL_JVM,
        "-cp",
        os.pathsep.join([f"{jars}/*", *hadoop]),
        "org.apache.iceberg.rest.RESTCatalogServer",
    ]
    uri = f"http://127.0.0.1:{port}"
    with running(command, folder / "fixture.log", lambda: answers(f"{uri}/v1/config"), environ=environ):
        yield uri


def answers(url: str) -> bool:
    """Does a server give an answer at this address?"""
    try:
        with urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (URLError, OSError):
        return False
