"""The graph of models: who reads whom, in which order they run, which ones a selector means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from retcon.core.models import Input, Model
from retcon.core.slices import Buckets
from retcon.core.suggestions import did_you_mean
from retcon.errors import BadArguments, Problem, ProjectInvalid, Refused


@dataclass(frozen=True)
class Graph:
    """Models by name; edges go from what is read to who reads it."""

    models: Mapping[str, Model]
    prefix: str = ""
    """What the environment puts before every model's name; names without it are understood, too."""

    @classmethod
    def of(cls, models: Iterable[Model]) -> Graph:
        """The graph, refused where it has a cycle."""
        graph = cls({model.name: model for model in sorted(models, key=lambda m: m.name)})
        try:
            _ = graph.order
        except CycleError as error:
            path = list(reversed(error.args[1]))
            raise ProjectInvalid(
                [
                    Problem(
                        path=graph.models[path[0]].path,
                        message="models read each other in a circle: " + " → ".join(path),
                        remedy="let one of them read a source, or merge them into one model",
                    )
                ]
            ) from None
        problems = [problem for model in graph.models.values() for problem in graph._other_times(model)]
        if problems:
            raise ProjectInvalid(problems)
        return graph

    def _other_times(self, model: Model) -> Iterable[Problem]:
        """A model is read by its own slices: by another column, nobody could say which slices a change touches."""
        for i in model.inputs:
            read = self.models.get(i.table)
            by = read.slicing.by if read is not None else None
            if read is not None and i.time is not None and isinstance(read.grain, Buckets):
                yield Problem(
                    path=model.path,
                    message=f"reads the model {i.table} by {i.time}, but its slices are {read.grain} of {by}",
                    remedy="leave `time` out to read it whole",
                )
            elif by is not None and i.time is not None and i.time.lower() != by.lower():
                yield Problem(
                    path=model.path,
                    message=f"reads the model {i.table} by {i.time}, but its slices go by {by}",
                    remedy=f"write `time: {by}`, or leave `time` out to read it whole",
                )

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Every model after those it reads or follows; the same each time."""
        sorter = TopologicalSorter({name: sorted(self.parents(name)) for name in self.models})
        sorter.prepare()
        order: list[str] = []
        while sorter.is_active():
            ready = sorted(sorter.get_ready())
            order += ready
            sorter.done(*ready)
        return tuple(order)

    def parents(self, name: str) -> set[str]:
        """What it reads or follows of the other models: that it reads itself is no circle."""
        model = self.models[name]
        read = {i.table for i in model.inputs} | set(model.after)
        return {table for table in read if table in self.models and table != name}

    def children(self, name: str) -> list[tuple[Model, Input]]:
        """The other models that read this table, each with the input by which it does."""
        others = (self.models[child] for child in self.order if child != name)
        return [(child, i) for child in others for i in child.inputs if i.table == name]

    def ancestors(self, name: str) -> set[str]:
        return self._reach(name, self.parents)

    def descendants(self, name: str) -> set[str]:
        return self._reach(name, lambda n: {child for child in self.models if n in self.parents(child)})

    def _reach(self, name: str, step: Callable[[str], set[str]]) -> set[str]:
        found: set[str] = set()
        ahead = [name]
        while ahead:
            for other in step(ahead.pop()):
                if other not in found:
                    found.add(other)
                    ahead.append(other)
        return found

    def find(self, name: str) -> Model | None:
        """The model of this name, with or without the environment's prefix."""
        return self.models.get(name) or self.models.get(self.prefix + name)

    def model(self, name: str) -> Model:
        """The model of this name, or an error that suggests one."""
        found = self.find(name)
        if found is None:
            raise Refused(
                f"there is no model {name}",
                next=did_you_mean(name, self.models) or "`retcon check` lists the models of this project",
            )
        return found

    def select(self, selectors: Sequence[str], exclude: Sequence[str] = ()) -> tuple[str, ...]:
        """The models that the selectors mean, in running order."""
        chosen = set().union(*(self._matches(s) for s in selectors)) if selectors else set(self.models)
        dropped = set().union(*(self._matches(s) for s in exclude)) if exclude else set()
        return tuple(name for name in self.order if name in chosen - dropped)

    def _matches(self, selector: str) -> set[str]:
        core = selector.removeprefix("+").removesuffix("+")
        if not core:
            raise BadArguments(
                f"{selector!r} selects nothing", next="name a model, `tag:x`, or a glob such as `mart.*`"
            )
        if core.startswith("tag:"):
            hits = {name for name, model in self.models.items() if core[4:] in model.tags}
            known = sorted({f"tag:{tag}" for model in self.models.values() for tag in model.tags})
        else:
            hits = {
                name
                for name in self.models
                if fnmatchcase(name, core) or fnmatchcase(name.removeprefix(self.prefix), core)
            }
            known = sorted(self.models)
        if not hits:
            raise Refused(
                f"no model matches {selector!r}",
                next=did_you_mean(core, known) or "`retcon check` lists the models of this project",
            )
        upstream = set().union(*(self.ancestors(h) for h in hits)) if selector.startswith("+") else set()
        downstream = set().union(*(self.descendants(h) for h in hits)) if selector.endswith("+") else set()
        return hits | upstream | downstream
