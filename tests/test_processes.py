"""Which process this is, and whether another is still there."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

from retcon.processes import is_gone, this_process


def test_a_process_that_ended_is_gone_and_this_one_isnt() -> None:
    here = this_process("ada")
    assert not is_gone(here)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert is_gone(replace(here, pid=ended.pid))


def test_another_process_of_the_same_number_isnt_the_one_that_was_meant() -> None:
    here = this_process("ada")
    assert is_gone(replace(here, began="1")) is bool(here.began)


def test_nobody_knows_of_another_machine() -> None:
    assert not is_gone(replace(this_process("ada"), host="elsewhere", pid=2**22 + 1))
