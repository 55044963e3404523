"""Environments: the same models under other names, published beside production."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from retcon.core.gates import renamed
from retcon.core.graphs import Graph
from retcon.core.models import Model
from retcon.core.projects import Project
from retcon.core.suggestions import did_you_mean
from retcon.errors import Refused


def bound(project: Project, environment: str | None) -> Project:
    """The project as it is in an environment: its models, and what they read of each other, have the names there.

    Code and settings are the same, and so are their fingerprints. Consumers read production: no other publish is
    theirs.
    """
    if environment is None:
        return project
    known = project.settings.environments
    if environment not in known:
        hint = did_you_mean(environment, known) or f"declare it: `environments: {{{environment}: {{prefix: …}}}}`"
        raise Refused(f"retcon.yaml has no environment {environment}", next=hint)
    prefix = known[environment]
    own = project.graph.models
    models = (_renamed(model, prefix, own) for model in own.values())
    graph = Graph({model.name: model for model in models}, prefix=prefix)
    return replace(project, graph=graph, environment=environment)


def _renamed(model: Model, prefix: str, own: Mapping[str, Model]) -> Model:
    def name_of(table: str) -> str:
        return prefix + table if table in own else table

    return replace(
        model,
        name=prefix + model.name,
        inputs=tuple(
            replace(i, table=prefix + i.table, written=i.table) if i.table in own else i for i in model.inputs
        ),
        after=tuple(prefix + name for name in model.after),
        gates=tuple(renamed(gate, name_of) for gate in model.gates),
        consumers=(),
    )


def clashes(
    environments: Mapping[str, str], models: Iterable[str], sources: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Environments whose tables would be somebody else's, each with the first such table."""
    # Compared without case: on some file systems two such tables would share one folder of the warehouse.
    taken = {name.casefold(): f"the source {name}" for name in sources}
    names = sorted(models)
    taken |= {name.casefold(): f"the model {name}" for name in names}
    prefixes: dict[str, str] = {}
    for environment, prefix in environments.items():
        twin = prefixes.setdefault(prefix.casefold(), environment)
        if twin != environment:
            yield environment, f"has the prefix of `{twin}`: both would publish to the same tables"
            continue
        tables = {name: f"{prefix}{name}" for name in names}
        hit = next((name for name, table in tables.items() if table.casefold() in taken), None)
        if hit is not None:
            yield environment, f"would publish {hit} to {tables[hit]}, which is {taken[tables[hit].casefold()]}"
        taken |= {table.casefold(): f"{name} of `{environment}`" for name, table in tables.items()}
