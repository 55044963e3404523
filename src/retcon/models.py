"""What the Python files of a project import: `@model` with its parts, and `@udf`. Loads no Spark.

The arguments of the decorators are read in the text, as the keys of a SQL file are: see `project/python/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, TypeVar

__all__ = ["Buckets", "Day", "Hour", "Input", "Month", "Run", "Udf", "Week", "Year", "model", "udf"]

F = TypeVar("F", bound=Callable[..., Any])
Keys = dict[str, object]


def model(name: str, /, **keys: object) -> Callable[[F], F]:  # noqa: ARG001 (read in the text, not here)
    """Marks the function that computes a table: one DataFrame argument per input, and a DataFrame back.

    `keys` are those of a SQL model's block, and `sliceable` for `replay.sliceable`.
    """
    return lambda function: function


def Input(table: str, /, **keys: object) -> Keys:
    """A table that the model reads, and how: `time`, `lookback` and the other keys of an input."""
    return {"table": table, **keys}


def Hour(by: str, /, **keys: object) -> Keys:
    """A slice per hour of this column."""
    return {"by": by, "every": "hour", **keys}


def Day(by: str, /, **keys: object) -> Keys:
    """A slice per day of this column; `start` is where history begins."""
    return {"by": by, "every": "day", **keys}


def Week(by: str, /, **keys: object) -> Keys:
    """A slice per week of this column."""
    return {"by": by, "every": "week", **keys}


def Month(by: str, /, **keys: object) -> Keys:
    """A slice per month of this column."""
    return {"by": by, "every": "month", **keys}


def Year(by: str, /, **keys: object) -> Keys:
    """A slice per year of this column."""
    return {"by": by, "every": "year", **keys}


def Buckets(by: str, buckets: int, /, **keys: object) -> Keys:
    """So many slices, by a hash of this column."""
    return {"by": by, "buckets": buckets, **keys}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a model's argument `run` holds: the slices being computed, and the project's `params`."""

    start_date: date
    end_date: date
    """Inclusive."""
    start_ts: datetime
    end_ts: datetime
    """Exclusive."""
    run_ts: datetime
    """When staging began; the same for the whole run."""
    params: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Udf:
    """A function on rows, in SQL by its name. Called with Spark columns it is a column, else the plain function."""

    function: Callable[..., Any]
    returns: str

    def __call__(self, *values: Any) -> Any:
        if any(type(value).__module__.startswith("pyspark.") for value in values):
            return self.spark(*values)
        return self.function(*values)

    @property
    def spark(self) -> Any:
        """As Spark takes it."""
        from pyspark.sql.functions import udf

        # Arrow converts values otherwise, and by default is used or not as type hints and installed packages suggest.
        return udf(self.function, self.returns, useArrow=False)


def udf(returns: str, /) -> Callable[[Callable[..., Any]], Udf]:
    """Makes a function of `functions.py` known to Spark; `returns` is a Spark type such as `DECIMAL(14,2)`."""
    return lambda function: Udf(function, returns)
