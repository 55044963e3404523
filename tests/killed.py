"""`python -m tests.killed STEP before|after -- COMMAND …`: retcon, ended by its own kill -9 at a step."""

from __future__ import annotations

import os
import signal
import sys

from retcon.cli.main import run
from retcon.fault_points import FaultPoint, Side, listening


def main() -> int:
    step, side, _, *command = sys.argv[1:]

    def kill(point: FaultPoint, at: Side) -> None:
        if (point.name, at) == (step, side):
            os.kill(os.getpid(), signal.SIGKILL)

    with listening(kill):
        return run(command)


if __name__ == "__main__":
    sys.exit(main())
