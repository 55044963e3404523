"""The jars beside Spark: resolved once by Spark's own resolver, then kept, so that no later start needs the network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from retcon.errors import Fault
from retcon.lakehouse.caches import cache_folder

PACKAGES = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.xerial:sqlite-jdbc:3.50.3.0",
    "org.postgresql:postgresql:42.7.7",
)
DELTA_PACKAGES = ("io.delta:delta-spark_4.1_2.13:4.4.0",)
"""Fetched only where a source is a Delta table."""
S3_PACKAGES = ("org.apache.iceberg:iceberg-aws-bundle:1.12.0",)
"""Fetched only where the catalog's tables are in S3."""
_TRIES = 3
_PATIENCE = 900


def versions() -> dict[str, str]:
    """Of Spark and Iceberg."""
    return {"spark": version("pyspark"), "iceberg": PACKAGES[0].rpartition(":")[2]}


def kept_jars(environ: Mapping[str, str], *, delta: bool = False, s3: bool = False) -> list[Path]:
    """The jars' paths, resolved on first use. `RETCON_CACHE` says where they are kept."""
    jars = _kept(PACKAGES, environ)
    if s3:
        jars += _kept(S3_PACKAGES, environ)
    if delta:
        # Beside its own jars, Delta names older ones of what Spark brings itself; these would go before Spark's.
        jars += [jar for jar in _kept(DELTA_PACKAGES, environ) if jar.name.startswith("io.delta_")]
    return jars


def _kept(packages: Sequence[str], environ: Mapping[str, str]) -> list[Path]:
    folder = cache_folder(environ) / "jars" / sha256("\n".join(packages).encode()).hexdigest()[:12]
    if not folder.is_dir():
        _resolve(folder, packages, environ)
    return sorted(folder.glob("*.jar"))


def _resolve(folder: Path, packages: Sequence[str], environ: Mapping[str, str]) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="resolving-", dir=folder.parent))
    except OSError as error:
        raise Fault(
            f"the jars can't be kept in {folder.parent}: {error.strerror}",
            state="Spark was not started; nothing was written",
            next="make that folder writable, or set RETCON_CACHE to one that is",
        ) from error
    try:
        for attempt in range(1, _TRIES + 1):
            output = _run_resolver(scratch, packages, environ)
            if len(list((scratch / "jars").glob("*.jar"))) >= len(packages):
                break
            if attempt == _TRIES:
                raise Fault(
                    f"the jars for {_what(packages)} could not be fetched ({_last_line(output)})",
                    state="Spark was not started; nothing was written",
                    next="the first start needs the network (later ones don't): check it, or a proxy, and try again",
                    retryable=True,
                )
            time.sleep(2 * attempt)
        # A second process may have come first: its folder is as good as ours.
        try:
            (scratch / "jars").rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _what(packages: Sequence[str]) -> str:
    if packages == S3_PACKAGES:
        return "S3"
    return "Delta" if packages == DELTA_PACKAGES else "Iceberg"


def _run_resolver(scratch: Path, packages: Sequence[str], environ: Mapping[str, str]) -> str:
    """`spark-submit` resolves packages before it runs a program; ours does nothing."""
    program = scratch / "nothing.py"
    program.write_text("pass\n")
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Fault("pyspark isn't installed", next="install retcon with its dependencies: pip install retcon")
    home = Path(spec.origin).parent
    command = [str(home / "bin" / "spark-submit"), "--packages", ",".join(packages)]
    command += ["--conf", f"spark.jars.ivy={scratch}", str(program)]
    paths = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "PATH": os.environ.get("PATH", "")}
    try:
        answer = subprocess.run(
            command,
            env={**environ, **paths},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_PATIENCE} seconds"
    return answer.stderr + answer.stdout


def _last_line(output: str) -> str:
    telling = [line.strip() for line in output.splitlines() if "unresolved" in line or "not found" in line]
    lines = telling or [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no answer"
