"""Everything in one go: retcon against a hand-written job and others, and docs/performance.md written from it.

Each block can be measured alone (`--only steps`); the others stay as they are. With `--quick` sizes are small, and
nothing is written. Growth and the cluster have scripts of their own: `make scale`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from parts import options_of, say
from projects import child_environ

SCRIPTS = {
    "backfills.py": ("backfill", "steps", "changed"),
    "compare_peers.py": ("peers",),
    "tpch.py": ("tpch",),
    "loads.py": ("year", "nothing", "history"),
    "chain.py": ("chain",),
    "shared.py": ("shared",),
    "cold_start.py": ("cold",),
    "interactive.py": ("interactive",),
}
"""Of each script the blocks that it measures."""


def main() -> None:
    options = options_of(__doc__, [block for blocks in SCRIPTS.values() for block in blocks])
    given = options.parse_args()
    began = time.monotonic()
    failed: list[str] = []
    for script, blocks in SCRIPTS.items():
        wanted = [block for block in blocks if not given.only or block in given.only]
        if not wanted:
            continue
        words = [sys.executable, str(Path(__file__).with_name(script))]
        words += ["--quick"] if given.quick else []
        words += ["--rounds", str(given.rounds)] if given.rounds else []
        words += [word for block in wanted for word in ("--only", block)] if len(blocks) > 1 else []
        if subprocess.run(words, check=False, env=child_environ()).returncode != 0:
            failed.append(script)
        say(f"── {script}: {(time.monotonic() - began) / 60:.1f} min so far")
    if failed:
        raise SystemExit(f"these failed, and what they measure is as it was: {', '.join(failed)}")


if __name__ == "__main__":
    main()
