"""The process: `retcon`, and `python -m retcon`."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

SELDOM = 200_000
"""Objects made since Python looked for garbage last; by itself it looks after 700. A short command makes fewer, and one
that runs for hours as many in seconds.
"""


def main() -> int:
    """Run the command that this process was started for."""
    # Most of what a short command makes are modules, which stay: looking through them while they are loaded takes a
    # twentieth of its time. So this comes before anything is loaded.
    gc.set_threshold(SELDOM, *gc.get_threshold()[1:])
    code: int = import_module("retcon.cli.main").run()
    gc.freeze()  # nor is there garbage to be looked for at the end
    if "pyspark" not in sys.modules and threading.active_count() == 1:
        _leave(code)
    return code


def _leave(code: int) -> NoReturn:
    """End the process as Python does: what is to be done at exit, then what is buffered. Python would go on to take
    apart every module that is loaded, which takes a short command another twentieth of its time, for nothing: the
    process's memory goes as a whole.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # whoever read it went away
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
