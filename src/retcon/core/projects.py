"""A project: one folder with its settings and models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace

from retcon.core.estimates import Price
from retcon.core.graphs import Graph
from retcon.core.hooks import WatermarkHook
from retcon.core.limits import Limits
from retcon.values import dataclass

_SECRET = re.compile(r"(?i)secret|passw|token|credential|(access|account|api|private)[._-]?key|://[^/@\s]*:[^/@\s]*@")
"""As Spark redacts its settings, in keys and in values."""

_HIDDEN = "(hidden)"
_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """Where the tables are, with secrets filled in: never printed, never recorded."""

    name: str
    uri: str = field(repr=False)
    warehouse: str
    type: str = "jdbc"
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_sqlite(self) -> bool:
        return self.uri.startswith("sqlite:")

    @property
    def is_rest(self) -> bool:
        """Is it a server that commits by itself? Else its tables are in a database, as the ledger is."""
        return self.type == "rest"

    @property
    def is_on_s3(self) -> bool:
        """Does it say that tables are in S3, or what is like it? A server may know it without saying so here."""
        is_told = self.warehouse.startswith(("s3://", "s3a://")) or "S3FileIO" in self.options.get("io-impl", "")
        # The warehouse of a server is a name, and tells nothing.
        return is_told or (self.is_rest and any(key.startswith("s3.") for key in self.options))


@dataclass(frozen=True, kw_only=True)
class SparkSettings:
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    written: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The conf before variables are filled in."""

    @property
    def recordable(self) -> dict[str, str]:
        """The conf without secrets: variables by name, and what looks like a secret in the file not at all."""
        return {
            key: _HIDDEN if _SECRET.search(key) or _SECRET.search(value) else value
            for key, value in self.written.items()
        }

    def cores(self, machine: int | None) -> int | None:
        """Those that the master gives, as far as it says so; `machine`: how many this one has."""
        local = _LOCAL.fullmatch(self.master)
        if local is not None:
            return machine if local[1] == "*" else int(local[1] or 1)
        numbers = {key: int(value) for key, value in self.conf.items() if value.isdigit()}
        if "spark.cores.max" in numbers:
            return numbers["spark.cores.max"]
        executors, each = (numbers.get(f"spark.executor.{what}") for what in ("instances", "cores"))
        is_fixed = self.conf.get("spark.dynamicAllocation.enabled") != "true"
        return executors * each if executors and each and is_fixed else None


@dataclass(frozen=True, kw_only=True)
class Source:
    """What the catalog can't know about a table that retcon doesn't write; one with a `format` isn't in the catalog."""

    name: str
    updated: str | None = None
    key: tuple[str, ...] = ()
    keeps_days: int | None = None
    format: str | None = None
    path: str | None = None
    """An absolute path of this machine, or a URI."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For Spark's reader, with secrets filled in: never printed, never recorded."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """What of the options came from the environment."""
    columns: tuple[tuple[str, str], ...] = ()

    @property
    def local_path(self) -> str | None:
        """Where its files are, if that is on this machine."""
        return self.path if self.path is not None and self.path.startswith("/") else None

    @property
    def may_drop_rows(self) -> bool:
        """May rows that don't fit be left out? Which ones, depends on the columns that are read."""
        modes = (value for key, value in self.options.items() if key.lower() == "mode")
        return any(mode.upper() != "FAILFAST" for mode in modes)


@dataclass(frozen=True, kw_only=True)
class Consumer:
    """A dashboard, export or job that reads a table."""

    name: str
    owner: str = ""
    kind: str = ""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`retcon.yaml`, resolved."""

    name: str
    root: str
    catalog: Catalog
    spark: SparkSettings = field(default_factory=SparkSettings)
    timezone: str = "UTC"
    params: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    cost: Price | None = None
    sources: Mapping[str, Source] = field(default_factory=dict)
    consumers: Mapping[str, Consumer] = field(default_factory=dict)
    hooks: Mapping[str, WatermarkHook] = field(default_factory=dict)
    environments: Mapping[str, str] = field(default_factory=dict)
    """The prefix that tables have in each environment beside production."""
    ledger_uri: str = field(default="", repr=False)
    """The ledger's own database; empty where it lives in the catalog's."""
    fingerprint: str = ""
    """Of what changes results: time zone, params, Spark's conf and foreign sources, secrets not filled in."""

    @property
    def foreign(self) -> Mapping[str, Source]:
        """The sources that aren't Iceberg tables of the catalog."""
        return {name: source for name, source in self.sources.items() if source.format is not None}


def as_recorded(
    settings: Settings, *, timezone: str, params: Mapping[str, str | int | float | bool], conf: Mapping[str, str]
) -> Settings:
    """The settings with what a run's record says of those that change results; how Spark is run, and what was never
    recorded, stays as it is.
    """
    told = {key: value for key, value in conf.items() if _is_of_sql(key)}
    known = {key: value for key, value in told.items() if value != _HIDDEN and "${" not in value}
    # Secrets, and what came from the environment, aren't on record by their value.
    unknown = told.keys() - known.keys()
    kept = {key: value for key, value in settings.spark.conf.items() if not _is_of_sql(key) or key in unknown}
    spark = replace(settings.spark, conf={**kept, **known})
    return replace(settings, timezone=timezone, params=dict(params), spark=spark)


def _is_of_sql(key: str) -> bool:
    return key.startswith("spark.sql.") and not key.startswith("spark.sql.catalog.")


@dataclass(frozen=True, kw_only=True)
class Project:
    """The settings and the graph of models."""

    settings: Settings
    graph: Graph
    environment: str | None = None
    """Where its models are published; None: production."""

    @property
    def env_option(self) -> str:
        """What a command needs to mean the same environment, to be put behind it."""
        return env_option(self.environment)


def env_option(environment: str | None) -> str:
    """` --env staging`, or nothing for production."""
    return f" --env {environment}" if environment is not None else ""
