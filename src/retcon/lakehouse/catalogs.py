"""The project's catalog through pyiceberg: a database, or a REST server."""

from __future__ import annotations

from pathlib import Path

from pyiceberg.catalog import Catalog as IcebergCatalog
from pyiceberg.catalog.rest import DEFAULT_ENDPOINTS, Endpoint, RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import RESTError
from requests.exceptions import RequestException
from sqlalchemy.exc import SQLAlchemyError

from retcon.core.projects import Catalog
from retcon.errors import Fault, Refused
from retcon.lakehouse import local_files

_GROUPS = Endpoint.from_string("POST /v1/{prefix}/transactions/commit")


def opened(settings: Catalog) -> IcebergCatalog | None:
    """The catalog; None where its database isn't there yet, or has none of Iceberg's tables."""
    return _server(settings) if settings.is_rest else _database(settings)


def _server(settings: Catalog) -> RestCatalog:
    given = {"uri": settings.uri, "warehouse": settings.warehouse, **settings.options}
    try:
        catalog = RestCatalog(settings.name, **{key: value for key, value in given.items() if value})
    except (RESTError, RequestException) as error:
        raise unreachable(error) from error
    if catalog.properties.get("nessie.is-nessie-catalog") == "true":
        raise Refused(
            f"the catalog {settings.name} is a Nessie server, which keeps no branches of tables",
            state="nothing was read or written: what is staged there would be in production at once",
            next="use a REST catalog that keeps Iceberg's branches and tags, or `type: jdbc`",
        )
    endpoints = catalog._supported_endpoints
    if _GROUPS not in endpoints and not endpoints <= DEFAULT_ENDPOINTS | _views(endpoints):
        raise Refused(
            f"the catalog {settings.name} doesn't offer to commit several tables in one step",
            state="nothing was read or written",
            next="use a REST catalog with `POST /v1/{prefix}/transactions/commit`, or `type: jdbc`",
        )
    return catalog


def _views(endpoints: set[Endpoint]) -> set[Endpoint]:
    return {endpoint for endpoint in endpoints if "/views" in endpoint.path}


def _database(settings: Catalog) -> SqlCatalog | None:
    uri = settings.uri
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).exists():
        return None
    catalog: SqlCatalog | None = None
    try:
        catalog = SqlCatalog(
            settings.name,
            uri=uri.replace("postgresql://", "postgresql+psycopg://", 1),
            warehouse=settings.warehouse,
            init_catalog_tables="false",
            # Hours may lie between two looks of a run, and the server may have hung up meanwhile.
            pool_pre_ping="true",
            **{
                local_files.PROPERTY: local_files.NAME,
                **{key: value for key, value in settings.options.items() if not key.startswith("jdbc.")},
            },
        )
        catalog.list_namespaces()
    except ImportError as missing:
        raise Fault(
            f"the driver for the catalog's database is not installed: {missing}",
            state="nothing was read or written",
            next="PostgreSQL: pip install 'retcon[postgres]'",
        ) from missing
    except SQLAlchemyError as error:
        if catalog is not None:
            catalog.engine.dispose()
        if is_new(error):
            return None
        raise unreachable(error) from error
    return catalog


def is_new(error: Exception) -> bool:
    """Nobody has written to this catalog yet: its database is there, but has none of Iceberg's tables."""
    reason = getattr(error, "orig", None)
    undefined_table = getattr(reason, "sqlstate", None) == "42P01"
    return undefined_table or str(reason).startswith("no such table: iceberg_")


def unreachable(error: Exception) -> Fault:
    """The catalog doesn't answer, or not as it should."""
    lines = str(getattr(error, "orig", None) or error).splitlines() or [type(error).__name__]
    what = "the catalog's database" if isinstance(error, SQLAlchemyError) else "the REST catalog"
    return Fault(
        f"{what} doesn't answer: {lines[0][:300]}",
        state="nothing was written",
        next="check `catalog.uri` in retcon.yaml and that the server runs",
        retryable=True,
    )
