"""Fingerprints: the same for the same values, whatever the order of their keys."""

from __future__ import annotations

import hashlib
import json


def fingerprint(value: object) -> str:
    """SHA-256 of the value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
