"""Values that gates are about, between what an author writes and what Spark computes with."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal, InvalidOperation

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from retcon.core.measures import Listed, Value, ValueKind
from retcon.core.models import Model
from retcon.core.queries import quoted
from retcon.core.sums import of_units
from retcon.errors import Refused
from retcon.lakehouse.predicates import moment_literal
from retcon.lakehouse.scoped_reads import type_of

STAGED = "everything is staged, nothing is proven; production is untouched"
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_PARAMETERS = re.compile(r"\(.*")


def family_of(type: str) -> ValueKind | None:
    """What the values of a type are; None for types that aren't listed or compared."""
    match _PARAMETERS.sub("", type):
        case "string" | "char" | "varchar":
            return ValueKind.TEXT
        case "tinyint" | "smallint" | "int" | "bigint" | "decimal" | "float" | "double":
            return ValueKind.NUMBER
        case "boolean":
            return ValueKind.TRUTH
        case "date":
            return ValueKind.DATE
        case "timestamp" | "timestamp_ntz":
            return ValueKind.TIME
        case _:
            return None


def is_unlisted(frame: DataFrame, listed: Listed, model: Model) -> Column:
    """Has a row another value than those listed? NULL isn't one."""
    column = F.col(quoted(listed.column))
    type = type_of(frame, listed.column)
    if type is None:
        return column.isNull()  # Spark says that there is no such column
    family = family_of(type)
    kinds = {value.kind for value in listed.values}
    # A day that is listed for a timestamp is its beginning.
    if kinds != {family} and not (family is ValueKind.TIME and kinds == {ValueKind.DATE}):
        raise Refused(
            f"{model.path}: `accepted` lists {' and '.join(kinds)} for {listed.column}, which is {type}",
            state=STAGED,
            next="list values of its own type (text in quotes), then `retcon apply` again",
        )
    found = [literal for value in listed.values if (literal := _literal(value, type)) is not None]
    return column.isNotNull() & ~column.isin(*found) if found else column.isNotNull()


def _literal(value: Value, type: str) -> Column | None:
    """The value in the column's type; None where the type has no such value."""
    match value.kind:
        case ValueKind.TEXT:
            return F.lit(value.text)
        case ValueKind.TRUTH:
            return F.lit(value.text == "true")
        case ValueKind.DATE | ValueKind.TIME:
            return F.expr(moment_literal(datetime.fromisoformat(value.text), type))
        case ValueKind.NUMBER if type in ("float", "double"):
            return F.lit(value.text).cast(type)
        case ValueKind.NUMBER if type in _BITS:
            number = Decimal(value.text)
            most = 1 << (_BITS[type] - 1)
            is_one = number == number.to_integral_value() and -most <= number < most
            return F.lit(int(number)).cast(type) if is_one else None
        case ValueKind.NUMBER:
            return F.lit(Decimal(value.text))


def number_of(text: str | None, expression: str, scale: int = 0) -> Decimal | None:
    """What a metric came to, in units of its last digit where it has a scale."""
    if text is None:
        return None
    try:
        return of_units(Decimal(text), scale)
    except InvalidOperation:
        raise Refused(
            f"the metric {expression} gives {text!r}, which is no number",
            state=STAGED,
            next="let the metric aggregate numbers",
        ) from None
