"""Spark's functions that give another result each time: clocks, dice, surroundings."""

from __future__ import annotations

CLOCKS = frozenset(
    {
        "current_date", "curdate", "current_timestamp", "now", "localtimestamp", "current_time", "unix_timestamp",
        "getdate", "sysdate",
    }
)  # fmt: skip
CLOCK_WORDS = frozenset({"now", "today", "tomorrow", "yesterday"})
"""`DATE 'today'` reads the clock."""
DICE = frozenset(
    {
        "rand", "random", "randn", "uuid", "shuffle", "randstr", "uniform", "monotonically_increasing_id",
        "spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length",
    }
)  # fmt: skip
SURROUNDINGS = frozenset(
    {
        "current_user", "session_user", "user", "current_catalog", "current_database", "current_schema",
        "current_timezone", "version", "reflect", "try_reflect", "java_method",
    }
)  # fmt: skip
"""They answer by who runs the query, where, or by calling whatever Java code is at hand."""
