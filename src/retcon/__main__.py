"""`python -m retcon`."""

import sys

from retcon.cli.main import run

sys.exit(run())
