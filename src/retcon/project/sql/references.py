"""The tables that a query names: which are inputs, and where in the text they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import TokenType, exp

from retcon.core.models import Input
from retcon.core.queries import TableReference
from retcon.core.suggestions import did_you_mean, nearest
from retcon.project.sql.functions import TABLE_FUNCTIONS, function_name
from retcon.project.sql.statements import SqlProblem, Statement
from retcon.values import dataclass

_KNOWN_PARTS = frozenset({"this", "db", "catalog", "alias", "sample", "pivots", "joins", "laterals"})


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One place where the query reads an input."""

    table: exp.Table
    input: Input
    reference: TableReference


@dataclass(frozen=True, kw_only=True)
class Readings:
    """Every place where the query reads an input, and what is wrong with the others."""

    found: tuple[Reading, ...]
    problems: tuple[SqlProblem, ...]

    def input_of(self, table: exp.Table) -> Input | None:
        return next((reading.input for reading in self.found if reading.table is table), None)


def named_tables(tree: exp.Expr) -> Iterator[exp.Table]:
    """The tables in FROM and JOIN that aren't common table expressions or functions."""
    for table in tree.find_all(exp.Table):
        # a hint names aliases, and sqlglot gives them wrong positions
        if not table.find_ancestor(exp.Hint) and _parts(table) and common_table(table) is None:
            yield table


def dotted_name(table: exp.Table) -> str:
    """`raw.orders`, without quotes."""
    return ".".join(part.name for part in _parts(table))


def common_table(table: exp.Table) -> exp.CTE | None:
    """The common table expression that a name of one part stands for, as Spark finds it."""
    if len(_parts(table)) != 1:
        return None
    inside: exp.CTE | None = None
    node: exp.Expr | None = table
    while node is not None:
        if isinstance(node, exp.CTE):
            inside = node
        clause = node.args.get("with_")
        if isinstance(clause, exp.With):
            visible = _visible(clause, inside if inside is not None and inside.parent is clause else None)
            for cte in reversed(visible):
                if cte.alias.casefold() == table.name.casefold():
                    return cte
        node = node.parent
    return None


def _visible(clause: exp.With, inside: exp.CTE | None) -> list[exp.CTE]:
    ctes = list(clause.expressions)
    if inside is None:
        return ctes
    own = next(position for position, cte in enumerate(ctes) if cte is inside)
    return ctes[: own + 1] if clause.args.get("recursive") else ctes[:own]


def _parts(table: exp.Table) -> list[exp.Identifier]:
    parts = [part for part in table.parts if isinstance(part, exp.Identifier)]
    return parts if len(parts) == len(table.parts) else []


def read_references(statement: Statement, *, model: str, inputs: Sequence[Input]) -> Readings:
    """Match every table in the query with a declared input, and every declared input with a table."""
    found: list[Reading] = []
    problems = list(_unreadable_tables(statement))
    meant: set[str] = set()  # what a refused name was probably meant to be isn't superfluous
    for table in sorted(named_tables(statement.tree), key=lambda table: int(_parts(table)[0].meta["start"])):
        refusal = _refusal(statement, table)
        chosen = None if refusal else _chosen(table, inputs)
        if chosen is not None:
            found.append(Reading(table=table, input=chosen, reference=_reference(statement, table, chosen)))
        else:
            problems.append(refusal or _undeclared(statement, table, inputs, model))
            meant |= {nearest(dotted_name(table), [declared.table for declared in inputs]) or ""}
    if not any(_unreadable_tables(statement)):
        read = [reading.input for reading in found]
        problems += [_superfluous(i) for i in inputs if i not in read and i.table not in meant]
    problems += _read_twice(statement, found)
    return Readings(found=tuple(found), problems=tuple(problems))


def read_any_references(statement: Statement) -> Readings:
    """Every table that a query names, whatever it is called: for queries that declare no inputs."""
    found: list[Reading] = []
    problems = list(_unreadable_tables(statement))
    for table in sorted(named_tables(statement.tree), key=lambda table: int(_parts(table)[0].meta["start"])):
        name = dotted_name(table)
        refusal = _refusal(statement, table) or _without_namespace(statement, table)
        if refusal is not None:
            problems.append(refusal)
            continue
        named = Input(name=name, table=name)
        found.append(Reading(table=table, input=named, reference=_reference(statement, table, named)))
    return Readings(found=tuple(found), problems=tuple(problems))


def _without_namespace(statement: Statement, table: exp.Table) -> SqlProblem | None:
    if len(_parts(table)) == 2:
        return None
    return SqlProblem(
        message=f"`{dotted_name(table)}` isn't the name of a table",
        line=statement.line_of(table),
        remedy="write it as `namespace.table`",
    )


def _chosen(table: exp.Table, inputs: Sequence[Input]) -> Input | None:
    candidates = [declared for declared in inputs if declared.table == dotted_name(table)]
    alias = (table.alias or table.name).casefold()
    by_alias = [declared for declared in candidates if declared.name.casefold() == alias]
    plain = [declared for declared in candidates if declared.name == declared.table]
    return next(iter(by_alias or plain), None)


def _reference(statement: Statement, table: exp.Table, chosen: Input) -> TableReference:
    parts = _parts(table)
    start, end = int(parts[0].meta["start"]), int(parts[-1].meta["end"]) + 1
    if table.alias:
        return TableReference(input=chosen.name, start=start, end=end)
    return TableReference(
        input=chosen.name,
        start=start,
        end=end,
        alias=parts[-1].name,
        alias_at=_sample_end(statement, end) if table.args.get("sample") else None,
    )


def _sample_end(statement: Statement, name_end: int) -> int:
    """Where `TABLESAMPLE (…) REPEATABLE (…)` ends: Spark wants the alias after it."""
    following = [token for token in statement.tokens if token.start >= name_end]
    depth, end = 0, name_end
    for position, token in enumerate(following):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
            end = token.end + 1
            goes_on = position + 1 < len(following) and following[position + 1].text.upper() == "REPEATABLE"
            if depth == 0 and not goes_on:
                break
    return end


def _unreadable_tables(statement: Statement) -> Iterator[SqlProblem]:
    for table in statement.tree.find_all(exp.Table):
        if _parts(table) or table.find_ancestor(exp.Hint):
            continue
        name = function_name(table.this)
        if name in TABLE_FUNCTIONS and not table.db:
            continue
        yield SqlProblem(
            message=f"retcon can't see what `{f'{name}(…)' if name else table.sql()}` in FROM reads",
            line=statement.line_of(table),
            remedy="read a table that `inputs` declares",
        )


def _refusal(statement: Statement, table: exp.Table) -> SqlProblem | None:
    name, line = dotted_name(table), statement.line_of(table)
    extra = {key for key, value in table.args.items() if value} - _KNOWN_PARTS
    if any("/" in part.name or "\\" in part.name or ":" in part.name for part in _parts(table)):
        return SqlProblem(
            message=f"`{name}` is a path; inputs are tables of the catalog",
            line=line,
            remedy="register the files as a table and read that",
        )
    if any("." in part.name for part in _parts(table)):
        return SqlProblem(
            message=f"`{name}` in one pair of backquotes is a name of one part",
            line=line,
            remedy="quote each part on its own, or write it without quotes",
        )
    if extra & {"version", "when"}:
        return SqlProblem(
            message=f"`{name}` is read as of a version or time of its own",
            line=line,
            remedy="remove it; a run pins the snapshot of every input itself",
        )
    if extra:
        words = ", ".join(sorted(extra)).upper()
        return SqlProblem(message=f"{words} on `{name}` isn't supported", line=line, remedy="remove it")
    return None


def _undeclared(statement: Statement, table: exp.Table, inputs: Sequence[Input], model: str) -> SqlProblem:
    name, line = dotted_name(table), statement.line_of(table)
    aliases = [declared.name for declared in inputs if declared.table == name]
    if aliases:
        alias = table.alias or table.name
        return SqlProblem(
            message=f"`{name}` is read as `{alias}`, which `inputs` doesn't declare",
            line=line,
            remedy=did_you_mean(alias, aliases) or f"use one of its aliases: {', '.join(aliases)}",
        )
    if name == model:
        return SqlProblem(
            message="the model reads itself, which `inputs` doesn't declare",
            line=line,
            remedy=f"to read its previous slice: `inputs: {{{name}: {{time: <its slice column>, lookback: 1}}}}` and "
            "`replay: {order: sequential}`",
        )
    meant = did_you_mean(name, [declared.table for declared in inputs])
    declare = f"declare it: `inputs: {{{name}: {{time: <its date column>}}}}` (without `time` it is read whole)"
    return SqlProblem(
        message=f"`{name}` is read but not among the inputs",
        line=line,
        remedy=f"{meant} Else {declare}" if meant else declare,
    )


def _read_twice(statement: Statement, found: Sequence[Reading]) -> Iterator[SqlProblem]:
    plain = [reading for reading in found if reading.input.name == reading.input.table]
    for declared in dict.fromkeys(reading.input for reading in plain):
        readings = [reading for reading in plain if reading.input is declared]
        if len(readings) > 1:
            time = f", time: {declared.time}" if declared.time else ""
            aliases = [reading.table.alias or f"{declared.table.rpartition('.')[2]}" for reading in readings]
            apart = aliases if len(set(aliases)) == len(aliases) else ["a", "b"]
            entries = ", ".join(f"{alias}: {{table: {declared.table}{time}}}" for alias in apart)
            yield SqlProblem(
                message=f"`{declared.table}` is read {len(readings)} times under one declaration",
                line=statement.line_of(readings[1].table),
                remedy=f"give each reading an alias and declare them apart: `inputs: {{{entries}}}`",
            )


def _superfluous(declared: Input) -> SqlProblem:
    shown = declared.name if declared.name == declared.table else f"{declared.name} ({declared.table})"
    return SqlProblem(message=f"the input `{shown}` is declared but not read", remedy="remove it from `inputs`")
