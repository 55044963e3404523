"""Nessie commits a group of tables in one step, as retcon asks for it; its tables have no branches: it is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from retcon.core.projects import Catalog
from retcon.errors import Refused
from retcon.lakehouse.metadata import IcebergMetadata
from tests.rest_catalogs import nessie, s3_server

pytestmark = pytest.mark.spark


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    with s3_server(tmp_path, "lake") as storage, nessie(tmp_path, "s3://lake/nessie", storage) as uri:
        yield uri, storage


def test_a_group_is_one_commit_of_nessie_or_none_and_its_tables_are_refused_for_staging(
    server: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    uri, storage = server
    command = [sys.executable, "-m", "tests.spark.groups_on_nessie", str(tmp_path), uri, json.dumps(storage)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert "snapshot id changed" in told["refusal"]
    assert told["after_refusal"] == [1, 2]
    assert told["after_commit"] == [0, 0]
    with urlopen(f"{uri.removesuffix('/iceberg')}/api/v2/trees/main/history?fetch=ALL", timeout=10) as answer:
        newest = json.load(answer)["logEntries"][0]
    assert sorted(operation["key"]["elements"] for operation in newest["operations"]) == [["shop", "a"], ["shop", "b"]]

    catalog = Catalog(name="lake", type="rest", uri=uri, warehouse="lake", options=storage)
    with pytest.raises(Refused, match="is a Nessie server, which keeps no branches of tables"):
        IcebergMetadata(catalog).names()
