"""Virtual environments for what isn't a dependency of retcon: made once from pinned requirements, kept in the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).parent


class Unavailable(Exception):
    """An environment that can't be made here, with what pip said."""


def python_of(name: str) -> Path:
    """The Python of the environment that `<name>.txt` pins."""
    return environment(name) / "bin" / "python"


def environment(name: str) -> Path:
    pins = HERE / f"{name}.txt"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    mark = sha256(f"{version}\n{pins.read_text()}".encode()).hexdigest()[:12]
    folder = _cache() / f"{name}-{mark}"
    if (folder / "ready").exists():
        return folder
    print(f"  making an environment for {name} in {folder} …", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "-r", str(pins)],
    ):
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            shutil.rmtree(folder, ignore_errors=True)
            lines = (answer.stderr or answer.stdout).strip().splitlines() or ["no answer"]
            raise Unavailable(f"no environment for {name}: {lines[-1][:300]}")
    (folder / "ready").touch()
    return folder


def _cache() -> Path:
    given = os.environ.get("RETCON_CACHE")
    base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "retcon"
    return base / "peers"
