"""`retcon.yaml`: the settings of a project."""

from __future__ import annotations

import math
import os.path
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import SplitResult, urlsplit
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from retcon.core.estimates import Price
from retcon.core.limits import Limits
from retcon.core.projects import Catalog, Consumer, Settings, Source, SparkSettings
from retcon.core.suggestions import did_you_mean
from retcon.errors import Refused
from retcon.project import names
from retcon.project.fingerprints import fingerprint
from retcon.project.hook_entries import HookKeys, hook_of
from retcon.project.quantities import bytes_of
from retcon.project.shapes import (
    NotYet,
    Objection,
    Option,
    Problems,
    Shape,
    TableName,
    Text,
    as_option,
    later,
    one_of,
    or_empty,
    read_shape,
)
from retcon.project.sources import SourceKeys, source_of
from retcon.project.text_files import read_text
from retcon.project.variables import filled_in
from retcon.project.yaml_text import Place, YamlDocument, read_yaml

SETTINGS_FILE = "retcon.yaml"

Scalar = str | int | float | bool

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_URI_REMEDY = "write sqlite:///PATH, or postgresql://USER:PASSWORD@HOST/DATABASE"
_OTHER_CATALOGS = dict.fromkeys(
    ("hive", "glue", "hadoop", "nessie"),
    "it can't move several tables in one step: use `type: jdbc` with a SQLite or PostgreSQL `uri`, or `type: rest`",
)
_LEDGER_REMEDY = "leave it out: the ledger lives in the catalog's own database, or has a `ledger` of its own"
_LEDGER_IN_CATALOG = "leave it out: with `type: jdbc` the ledger lives in the catalog's own database"
_LEDGER_NEEDED = "write `ledger: {uri: …}`: a REST catalog has no database that retcon could use"


def settings_document(root: Path) -> YamlDocument:
    """`retcon.yaml` as it is written."""
    path = root / SETTINGS_FILE
    if not path.is_file():
        raise Refused(
            f"there is no {SETTINGS_FILE} in {root}", next="run `retcon init DIR`, or pass --project with its folder"
        )
    return read_yaml(read_text(path, root), path=SETTINGS_FILE)


def settings_of(document: YamlDocument, root: Path, environ: Mapping[str, str]) -> Settings:
    """The settings that the document makes, refused with everything that is wrong in it."""
    problems = Problems(SETTINGS_FILE, document)
    keys = read_shape(_SettingsKeys, _with_variables(document.value, (), environ, problems), problems)
    settings = _settings(keys, document, Path(os.path.abspath(root)), problems) if keys else None
    if settings is None or problems.found:
        raise problems.error()
    return settings


def _with_variables(value: object, at: Place, environ: Mapping[str, str], problems: Problems) -> object:
    """The value with `${VAR}` filled in where that is allowed."""
    if isinstance(value, dict):
        return {key: _with_variables(item, (*at, key), environ, problems) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_variables(item, (*at, position), environ, problems) for position, item in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value
    if at[:1] == ("watermark_hooks",) and at[2:3] == ("headers",):
        return value  # filled in when the hook is called: nothing else needs it
    is_option = at[:2] == ("spark", "conf") or (at[:1] == ("sources",) and at[2:3] == ("options",))
    if at[:1] in (("catalog",), ("ledger",), ("params",)) or is_option:
        return problems.taken(at, lambda: filled_in(value, environ)) or ""
    allowed = (
        "variables stand only in `catalog`, `ledger`, `spark.conf`, `params`, the `options` of sources and the "
        "`headers` of hooks"
    )
    problems.object_to(at, Objection("holds `${`, which isn't filled in here", remedy=allowed))
    return value


def _scalar(value: object) -> object:
    if not isinstance(value, Scalar):
        raise Objection("must be text, a number, or true or false", remedy="put a date in quotes")
    if isinstance(value, float) and not math.isfinite(value):
        raise Objection("must be a finite number")
    return value


def _time_zone(text: str) -> str:
    if text == "UTC":  # holds on machines without a time zone database, too
        return text
    try:
        ZoneInfo(text)
    except (ValueError, OSError, LookupError):
        hint = did_you_mean(text, available_timezones()) or "write UTC, or a name such as Europe/Berlin"
        raise Objection("isn't a known time zone", remedy=hint) from None
    return text


def _price(value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise Objection("must be a price above 0", remedy="leave out `cost` where computing costs nothing")
    return value


class _CatalogKeys(Shape):
    """Further keys are Iceberg's."""

    model_config = ConfigDict(extra="allow")

    __pydantic_extra__: dict[str, Option]
    name: Annotated[str, AfterValidator(names.identifier)]
    type: Annotated[str, one_of("jdbc", "rest", later=_OTHER_CATALOGS)] = "jdbc"
    uri: Text
    warehouse: Text
    ledger: Annotated[object, later(_LEDGER_REMEDY)] = None


class _LedgerKeys(Shape):
    uri: Text


class _SparkKeys(Shape):
    master: Text = "local[*]"
    conf: dict[str, Option] = Field(default_factory=dict)


class _LimitsKeys(Shape):
    slices: Annotated[int, Field(ge=1)] = Limits.slices
    bytes: Annotated[int, BeforeValidator(bytes_of)] = Limits.bytes
    keys: Annotated[int, Field(ge=1)] = Limits.keys


class _CostKeys(Shape):
    core_hour: Annotated[float, AfterValidator(_price)]
    currency: str = ""


class _ConsumerKeys(Shape):
    owner: str = ""
    kind: str = ""


class _EnvironmentKeys(Shape):
    prefix: Annotated[str, AfterValidator(names.word)]


class _SettingsKeys(Shape):
    name: Text
    catalog: _CatalogKeys
    spark: _SparkKeys = _SparkKeys()
    timezone: Annotated[Text, AfterValidator(_time_zone)] = "UTC"
    params: dict[Annotated[str, AfterValidator(names.parameter)], Annotated[object, BeforeValidator(_scalar)]] = Field(
        default_factory=dict
    )
    limits: _LimitsKeys = _LimitsKeys()
    cost: _CostKeys | None = None
    sources: dict[TableName, Annotated[SourceKeys, BeforeValidator(or_empty)]] = Field(default_factory=dict)
    consumers: dict[Text, Annotated[_ConsumerKeys, BeforeValidator(or_empty)]] = Field(default_factory=dict)
    watermark_hooks: dict[Annotated[str, AfterValidator(names.label)], HookKeys] = Field(default_factory=dict)
    environments: dict[Annotated[str, AfterValidator(names.label)], _EnvironmentKeys] = Field(default_factory=dict)
    ledger: _LedgerKeys | None = None


def _settings(keys: _SettingsKeys, document: YamlDocument, root: Path, problems: Problems) -> Settings | None:
    is_rest = keys.catalog.type == "rest"
    read_uri = _rest_uri if is_rest else partial(_database_uri, root=root)
    uri = problems.taken(("catalog", "uri"), lambda: read_uri(keys.catalog.uri))
    ledger = _ledger_uri(keys.ledger, root, problems, is_rest=is_rest)
    if uri is None or ledger is None:
        return None
    params = {name: value for name, value in keys.params.items() if isinstance(value, Scalar)}
    sources: dict[str, Source] = {}
    for name, source in keys.sources.items():
        written = _as_written(document, "sources", name, "options")
        made = problems.taken(("sources", name), partial(source_of, name, source, root, written))
        sources |= {name: made} if made is not None else {}
    hooks = {
        name: found
        for name, hook in keys.watermark_hooks.items()
        if (found := problems.taken(("watermark_hooks", name), partial(hook_of, name, hook))) is not None
    }
    return Settings(
        name=keys.name,
        root=str(root),
        catalog=Catalog(
            name=keys.catalog.name,
            type=keys.catalog.type,
            uri=uri,
            # To a server it is whatever it calls it.
            warehouse=keys.catalog.warehouse if is_rest else _warehouse(keys.catalog.warehouse, root),
            options=keys.catalog.__pydantic_extra__ or {},
        ),
        spark=SparkSettings(
            master=keys.spark.master, conf=keys.spark.conf, written=_as_written(document, "spark", "conf")
        ),
        timezone=keys.timezone,
        params=params,
        limits=Limits(slices=keys.limits.slices, bytes=keys.limits.bytes, keys=keys.limits.keys),
        cost=None if keys.cost is None else Price(core_hour=keys.cost.core_hour, currency=keys.cost.currency.strip()),
        sources=sources,
        consumers={
            name: Consumer(name=name, owner=consumer.owner, kind=consumer.kind)
            for name, consumer in keys.consumers.items()
        },
        hooks=hooks,
        environments={name: environment.prefix for name, environment in keys.environments.items()},
        ledger_uri=ledger,
        fingerprint=fingerprint(
            {
                "timezone": keys.timezone,
                "params": params,
                "conf": _as_written(document, "spark", "conf"),
                "sources": {
                    name: {
                        "format": source.format,
                        "path": source.path,
                        "options": _as_written(document, "sources", name, "options"),
                        "columns": list(source.columns.items()),
                    }
                    for name, source in keys.sources.items()
                    if source.format is not None
                },
            },
        ),
    )


def _as_written(document: YamlDocument, *place: str) -> dict[str, str]:
    """Options before variables are filled in: a new password doesn't change results."""
    raw = document.value
    for key in place:
        raw = raw.get(key) if isinstance(raw, dict) else None
    return {key: str(as_option(value)) for key, value in raw.items()} if isinstance(raw, dict) else {}


def _ledger_uri(keys: _LedgerKeys | None, root: Path, problems: Problems, *, is_rest: bool) -> str | None:
    """The address of a ledger that has a database of its own; empty where it mustn't have one."""
    if keys is None and is_rest:
        problems.object_to(("catalog", "type"), Objection("needs a database for the ledger", remedy=_LEDGER_NEEDED))
        return None
    if keys is None:
        return ""
    if not is_rest:
        problems.object_to(("ledger",), Objection("can't be somewhere else", remedy=_LEDGER_IN_CATALOG))
        return None
    return problems.taken(("ledger", "uri"), lambda: _database_uri(keys.uri, root))


def _rest_uri(text: str) -> str:
    """A server's address. What it holds between // and @ would be seen in its log, so it is refused."""
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        is_address = False
    if not is_address:
        raise Objection("must be the address of a REST catalog", remedy="write https://HOST/PATH, without a password")
    return text


def _database_uri(text: str, root: Path) -> str:
    """The database's address with an absolute path. It may hold a password, so no message repeats it."""
    if text.startswith("sqlite://"):
        return _sqlite_uri(text, root)
    if text.startswith("postgresql://"):
        return _postgresql_uri(text)
    raise Objection("must be the address of a SQLite or PostgreSQL database", remedy=_URI_REMEDY)


def _sqlite_uri(text: str, root: Path) -> str:
    path = text.removeprefix("sqlite:///")
    if path in (text, "", ":memory:"):
        raise Objection("must name a file", remedy="write `sqlite:///.retcon/lake.db`")
    absolute = os.path.normpath(root / path)
    if "?" in absolute:
        raise Objection("can't hold a `?`, neither in the file's name nor in a folder above it")
    return f"sqlite:///{absolute}"


def _postgresql_uri(text: str) -> str:
    try:
        parts = urlsplit(text)
        has_address = bool(parts.username and parts.hostname and (parts.port is None or parts.port))
    except ValueError:
        # the error would repeat what stands where a port is expected, perhaps half of a password
        raise Objection("isn't a PostgreSQL address", remedy=_password_remedy()) from None
    if not has_address or not _names_database(parts):
        raise Objection("isn't a PostgreSQL address", remedy=_password_remedy())
    if parts.query:
        raise NotYet("…?option=value", remedy="leave out what follows the database's name")
    return text


def _names_database(parts: SplitResult) -> bool:
    return re.fullmatch(r"/[^/]+", parts.path) is not None and not parts.fragment


def _password_remedy() -> str:
    return "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, special characters percent-encoded (`/` as %2F)"


def _warehouse(text: str, root: Path) -> str:
    return text if _URI.match(text) else os.path.normpath(root / text)
