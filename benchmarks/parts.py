"""What every script of the benchmark can be told."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def options_of(description: str | None, blocks: Sequence[str] = ()) -> argparse.ArgumentParser:
    """`--quick` for small sizes that print and write nothing; `--only` for one of several blocks."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="small sizes, to see that it runs: nothing is written")
    options.add_argument("--rounds", type=int, help="how often each is measured")
    if blocks:
        options.add_argument("--only", choices=blocks, action="append", help="measure and write only this block")
    return options


def say(text: str) -> None:
    print(text, flush=True)
