"""Which REST servers are taken for a catalog, asked without a JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from retcon.core.projects import Catalog
from retcon.errors import Fault, Refused
from retcon.lakehouse.metadata import IcebergMetadata
from retcon.lakehouse.sessions import catalog_conf

ENDPOINTS = [
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
]
GROUPS = "POST /v1/{prefix}/transactions/commit"


@contextmanager
def server(config: dict[str, Any], status: int = 200) -> Iterator[Catalog]:
    """Answers the question that every client begins with, and has no namespaces."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = config if self.path.startswith("/v1/config") else {"namespaces": []}
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = Thread(target=http.serve_forever)
        thread.start()
        try:
            yield Catalog(name="lake", type="rest", uri=f"http://127.0.0.1:{http.server_port}", warehouse="w")
        finally:
            http.shutdown()
            thread.join()


def names(catalog: Catalog) -> tuple[str, ...]:
    metadata = IcebergMetadata(catalog)
    try:
        return metadata.names()
    finally:
        metadata.close()


@pytest.mark.parametrize("endpoints", [[*ENDPOINTS, GROUPS], []])
def test_a_server_that_commits_groups_or_doesnt_say_is_taken(endpoints: list[str]) -> None:
    config = {"defaults": {}, "overrides": {}, **({"endpoints": endpoints} if endpoints else {})}
    with server(config) as catalog:
        assert names(catalog) == ()


def test_a_server_that_commits_no_groups_is_refused_before_anything_is_staged() -> None:
    with (
        server({"defaults": {}, "overrides": {}, "endpoints": ENDPOINTS}) as catalog,
        pytest.raises(Refused, match="doesn't offer to commit several tables in one step"),
    ):
        names(catalog)


def test_nessie_is_refused_since_staged_rows_would_be_in_production_at_once() -> None:
    config = {"defaults": {}, "overrides": {"nessie.is-nessie-catalog": "true"}, "endpoints": [*ENDPOINTS, GROUPS]}
    with server(config) as catalog, pytest.raises(Refused, match="keeps no branches of tables") as refused:
        names(catalog)
    assert "in production at once" in refused.value.state


def test_a_server_that_isnt_there_or_broken_is_a_fault_that_may_pass() -> None:
    with server({}) as gone:
        pass
    with pytest.raises(Fault, match="the REST catalog doesn't answer") as fault:
        names(gone)
    assert fault.value.retryable
    with server({"error": {"message": "no", "type": "X", "code": 503}}, status=503) as broken, pytest.raises(Fault):
        names(broken)


def test_spark_gets_the_servers_address_and_what_is_passed_on() -> None:
    catalog = Catalog(name="lake", type="rest", uri="http://h", warehouse="demo", options={"s3.endpoint": "http://s3"})
    conf = catalog_conf(catalog)
    assert conf["spark.sql.catalog.lake.type"] == "rest"
    assert conf["spark.sql.catalog.lake.uri"] == "http://h"
    assert conf["spark.sql.catalog.lake.warehouse"] == "demo"
    assert conf["spark.sql.catalog.lake.cache-enabled"] == "false"
    assert conf["spark.sql.catalog.lake.io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"
    assert "spark.sql.catalog.lake.jdbc.schema-version" not in conf
