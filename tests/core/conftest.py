"""Hypothesis without a deadline: a busy machine is no failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("retcon", deadline=None, max_examples=40)
settings.load_profile("retcon")
