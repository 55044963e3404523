"""REST catalogs of one's own: real servers, local, gone afterwards."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tests.java_servers import SHORT_LIVED, dependency, fetched, java_21, running, spark_jars
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
_ON_S3 = (
    dependency(f"org.apache.iceberg:iceberg-aws:{_ICEBERG}", alone=True),
    dependency(f"org.apache.iceberg:iceberg-aws-bundle:{_ICEBERG}", alone=True),
    dependency("dev.failsafe:failsafe:3.3.2", alone=True),
)


@contextmanager
def iceberg_fixture(folder: Path, warehouse: str, storage: Mapping[str, str] | None = None) -> Iterator[str]:
    """Iceberg's own test server, as its address: checks all requirements of a group, then commits table by table."""
    jars = fetched(*_FIXTURE, *(_ON_S3 if storage else ()))
    port = free_port()
    database = folder / "catalog.db"
    environ = {
        "CATALOG_REST_PORT": str(port),
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        "CATALOG_URI": f"jdbc:sqlite:{database}?busy_timeout=30000&journal_mode=WAL",
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        "CATALOG_WAREHOUSE": warehouse,
        **{f"CATALOG_{key.upper().replace('-', '__').replace('.', '_')}": v for key, v in (storage or {}).items()},
    }
    hadoop = spark_jars("hadoop-client-*.jar", "commons-logging-*.jar")
    command = [
        "java",
        "-Xmx256m",
        *SHORT_LIVED,
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


@contextmanager
def s3_server(folder: Path, bucket: str) -> Iterator[dict[str, str]]:
    """An S3 of one's own with an empty bucket, as Iceberg's settings for it."""
    pytest.importorskip("moto", reason="moto isn't installed: pip install 'moto[s3]' flask flask-cors")
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with running(command, folder / "s3.log", lambda: answers(f"{uri}/moto-api/data.json"), environ={}):
        with urlopen(Request(f"{uri}/{bucket}", method="PUT"), timeout=10):
            pass
        yield {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": uri,
            "s3.path-style-access": "true",
            "s3.access-key-id": "ada",
            "s3.secret-access-key": "tell-nobody",
            "client.region": "us-east-1",
        }


@contextmanager
def nessie(folder: Path, warehouse: str, storage: Mapping[str, str]) -> Iterator[str]:
    """A Nessie server that forgets, as the address of its REST catalog: a group of tables is one commit there."""
    (jar,) = fetched(dependency("org.projectnessie.nessie:nessie-quarkus:0.99.0", "runner", alone=True)).glob("*.jar")
    java = java_21()
    port = free_port()
    s3 = "nessie.catalog.service.s3.default-options"
    settings = {
        "nessie.version.store.type": "IN_MEMORY",
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": str(port),
        "quarkus.management.port": str(free_port()),
        "nessie.catalog.default-warehouse": "lake",
        "nessie.catalog.warehouses.lake.location": warehouse,
        f"{s3}.endpoint": storage["s3.endpoint"],
        f"{s3}.path-style-access": "true",
        f"{s3}.region": storage["client.region"],
        f"{s3}.request-signing-enabled": "false",
        f"{s3}.access-key": "urn:nessie-secret:quarkus:lake.s3",
        "lake.s3.name": storage["s3.access-key-id"],
        "lake.s3.secret": storage["s3.secret-access-key"],
    }
    command = [java, "-Xmx512m", *SHORT_LIVED, *(f"-D{key}={value}" for key, value in settings.items()), "-jar", jar]
    uri = f"http://127.0.0.1:{port}/iceberg"
    with running(
        [str(part) for part in command], folder / "nessie.log", lambda: answers(f"{uri}/v1/config"), environ={}
    ):
        yield uri
