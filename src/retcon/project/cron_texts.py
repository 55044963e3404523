"""The text of a cron: five fields, or a name for them."""

from __future__ import annotations

from datetime import datetime

from cronsim import CronSim, CronSimError

from retcon.project.shapes import Objection

_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FORM = "write minute, hour, day of the month, month and day of the week: `0 4 * * *` is every day at 4:00"
_SOME_DAY = datetime(2026, 1, 1)


def cron_text(text: str) -> str:
    """The text, refused where it isn't a cron, or none of its times ever comes."""
    fields = fields_of(text)
    if len(fields.split()) != 5:
        raise Objection(f"must be a cron of five fields, and `{text}` has {len(fields.split())}", remedy=_FORM)
    try:
        next(CronSim(fields, _SOME_DAY))
    except CronSimError as error:
        field = str(error).removeprefix("Bad ").replace("-", " ")
        raise Objection(f"must be a cron, and the {field} in `{text}` isn't one", remedy=_FORM) from None
    except (AssertionError, ValueError):
        raise Objection(f"must be a cron, and `{text}` isn't one", remedy=_FORM) from None
    except StopIteration:
        raise Objection(f"must be a cron that comes some day, and `{text}` doesn't", remedy=_FORM) from None
    return text


def fields_of(text: str) -> str:
    """The five fields that it stands for."""
    return _NAMED.get(text.strip().lower(), text.strip())
