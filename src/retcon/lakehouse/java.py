"""The Java that Spark runs on: found and checked before Spark is started."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from retcon.errors import Fault

SUPPORTED = (17, 21)
_REMEDY = (
    "install Java 17 or 21 (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@21) "
    "and point JAVA_HOME at it"
)
_STATE = "Spark was not started; nothing was written"


def check_java(environ: Mapping[str, str]) -> str:
    """The path of a Java that Spark 4.1 runs on, or an error with the remedy."""
    home = environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not java.is_file():
            raise Fault(f"JAVA_HOME is {home}, but there is no bin/java in it", state=_STATE, next=_REMEDY)
        found = str(java)
    else:
        on_path = shutil.which("java", path=environ.get("PATH"))
        if on_path is None:
            raise Fault("Spark needs Java, and there is none on this machine", state=_STATE, next=_REMEDY)
        found = on_path
    major = _major_version(found)
    if major not in SUPPORTED:
        raise Fault(f"{found} is Java {major or 'of unknown version'}", state=_STATE, next=_REMEDY)
    return found


def _major_version(java: str) -> int | None:
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Fault(f"{java} doesn't run: {error}", state=_STATE, next=_REMEDY) from error
    match = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if match is None:
        return None
    first = int(match[1])
    return int(match[2]) if first == 1 and match[2] else first
