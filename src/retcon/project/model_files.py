"""Model files: keys and code, in SQL or Python, turned into models."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Protocol

from retcon.core.gates import Gate, Metric, NotNull, Profile, Unique
from retcon.core.models import Input, Model, Reach, Slicing, Strategy, reach_text
from retcon.core.queries import Batching, Entity, Query
from retcon.core.schemas import require_slice_type
from retcon.core.slices import Grain
from retcon.core.suggestions import did_you_mean
from retcon.core.table_gates import ForeignKey
from retcon.core.tables import Column
from retcon.core.types import plain_type
from retcon.core.value_gates import Accepted, NullRate
from retcon.errors import Problem, ProjectInvalid, Refused
from retcon.project import names
from retcon.project.fingerprints import fingerprint
from retcon.project.gate_entries import read_gates
from retcon.project.model_keys import ModelKeys
from retcon.project.python.declarations import Declaration, bound_by, check_arguments, read_declaration
from retcon.project.python.functions import Functions
from retcon.project.python.lints import called_in_texts, hidden_reads, variations
from retcon.project.python.modules import Module, closure, normalised, read_module
from retcon.project.readings import ReadQuery
from retcon.project.shapes import Objection, Problems, read_shape
from retcon.project.text_files import read_text, shown_path
from retcon.project.variables import places_with_variables
from retcon.project.yaml_text import Place, YamlDocument, read_yaml
from retcon.values import dataclass

MODELS_FOLDER = "models"

_OPENING = re.compile(r"\s*/\*[ \t]*retcon[ \t]*\n")
_CLOSING = re.compile(r"^[ \t]*\*/[ \t]*(?:\n|\Z)", re.MULTILINE)
_PARAMS_REMEDY = "declare it in `params` of retcon.yaml and write `:name` in the SQL"
_PYTHON = "it is a Python function, and only its author can say that slices don't influence one another"
_PYTHON_ENTITY = "it is a Python function, and nobody can tell that rows of other keys don't count"
_FORM = "start the file with a line `/* retcon`, then keys in YAML, then a line that holds only `*/`"


@dataclass(frozen=True, kw_only=True)
class KnownNames:
    """What the rest of the project declares, for a model to refer to."""

    models: Collection[str] = ()
    params: Collection[str] = ()
    consumers: Collection[str] = ()
    functions: Functions = field(default_factory=Functions)
    in_utc: bool = False
    """Spark's own days and months are those of UTC, as slices are."""


def model_name(path: Path, root: Path) -> str:
    """`models/mart/fct_x.sql` is the model `mart.fct_x`; so is `models/mart/fct_x.py`."""
    shown = shown_path(path, root)
    folders = path.relative_to(root / MODELS_FOLDER).parts[:-1]
    if len(folders) != 1:
        depth = "in no folder" if not folders else f"{len(folders)} folders deep"
        raise ProjectInvalid(
            [
                Problem(
                    path=shown,
                    message=f"a model is in one folder, its namespace; this one is {depth}",
                    remedy=f"move it to models/NAMESPACE/NAME{path.suffix}",
                )
            ]
        )
    # macOS hands out file names with letters and accents apart
    parts = [unicodedata.normalize("NFC", part) for part in (folders[0], path.stem)]
    for part in parts:
        try:
            names.word(part)
        except ValueError as error:
            message = f"the name {part!r} {error}"
            raise ProjectInvalid([Problem(path=shown, message=message, remedy="rename the file or folder")]) from None
    return ".".join(parts)


class SqlReader(Protocol):
    """Reads what is SQL in a model's file: `retcon.project.queries` does, or nobody where only the keys matter."""

    def read_query(
        self,
        text: str,
        *,
        model: str,
        inputs: Sequence[Input],
        slicing: Slicing,
        vouched: bool,
        may_vary: bool,
        params: Collection[str],
        in_utc: bool,
    ) -> ReadQuery: ...
    def read_metric(self, expression: str) -> Metric: ...
    def read_condition(self, text: str) -> str: ...
    def read_gate_query(self, text: str) -> Query: ...
    def is_built_in(self, name: str) -> bool: ...


def read_model(path: Path, root: Path, known: KnownNames, reader: SqlReader | None) -> Model:
    """The model in this file, refused with everything that is wrong in it; without a reader, its keys alone."""
    name = model_name(path, root)
    shown = shown_path(path, root)
    is_python = path.suffix.lower() == ".py"
    file = _python_file(path, root, name) if is_python else _split(read_text(path, root), shown)
    document = file.document
    problems = Problems(shown, document)
    for place in places_with_variables(document.value):
        if place[:1] != ("description",):
            problems.object_to(place, Objection("holds `${`, which isn't filled in here", remedy=_PARAMS_REMEDY))
    keys = read_shape(ModelKeys, {} if document.value is None else document.value, problems)
    if keys is not None:
        header = _Header(name=name, path=shown, keys=keys, problems=problems, folders=(path.parent, root))
        model = _model(header, file, known, reader)
        if model is not None and not problems.found:
            return model
    raise problems.error()


@dataclass(frozen=True, kw_only=True)
class _SqlFile:
    """The two parts of a SQL file, and the line where the second starts."""

    document: YamlDocument
    keys_text: str
    text: str
    text_line: int
    function: None = None


@dataclass(frozen=True, kw_only=True)
class _PythonFile:
    """A Python file, what its decorator says, and the folder in which it imports."""

    root: Path
    module: Module
    declaration: Declaration
    keys_text: str = ""

    @property
    def document(self) -> YamlDocument:
        return self.declaration.document

    @property
    def text(self) -> str:
        return self.module.text

    @property
    def function(self) -> str:
        return self.declaration.function.name


def _python_file(path: Path, root: Path, name: str) -> _PythonFile:
    module = read_module(path, root)
    return _PythonFile(root=root, module=module, declaration=read_declaration(module, name))


def _split(text: str, shown: str) -> _SqlFile:
    opening = _OPENING.match(text)
    if opening is None:
        message = "the file doesn't start with a `/* retcon` block"
        raise ProjectInvalid([Problem(path=shown, message=message, line=1, remedy=_FORM)])
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        line = text.count("\n", 0, opening.end())
        message = "the `/* retcon` block doesn't end"
        raise ProjectInvalid([Problem(path=shown, message=message, line=line, remedy="end it with a line `*/`")])
    first_line = text.count("\n", 0, opening.end()) + 1
    keys_text = text[opening.end() : closing.start()]
    return _SqlFile(
        document=read_yaml(keys_text, path=shown, first_line=first_line),
        keys_text=keys_text,
        text=text[closing.end() :],
        text_line=text.count("\n", 0, closing.end()) + 1,
    )


@dataclass(frozen=True, kw_only=True)
class _Header:
    """The front matter of one model, and what is wrong with the model so far."""

    name: str
    path: str
    keys: ModelKeys
    problems: Problems
    folders: tuple[Path, ...]
    """From which it names files."""


@dataclass(frozen=True, kw_only=True)
class _Read:
    """What was found in a model's code, whatever it is written in."""

    query: Query
    batching: Batching
    entity: Entity
    code: Mapping[str, object]
    """What of it counts for the fingerprint."""
    udfs: tuple[str, ...]


def _model(header: _Header, file: _SqlFile | _PythonFile, known: KnownNames, reader: SqlReader | None) -> Model | None:
    keys, problems = header.keys, header.problems
    slicing = keys.slicing()
    inputs = keys.declared_inputs(problems, model=header.name)
    keys.check_strategy(problems)
    if reader is None:
        return _outline(header, file, slicing, inputs)
    _check_slice_type(_outline(header, file, slicing, inputs), problems)
    gates = read_gates(
        keys.gates, key=keys.key, every=slicing.every, problems=problems, sql=reader, folders=header.folders
    )
    _check_references(header, known)
    if len(inputs) < len(keys.inputs):
        return None  # the code can't be judged without them
    if isinstance(file, _PythonFile):
        read: _Read | None = _read_function(header, file, inputs, known)
    else:
        read = _read_query(header, file, inputs, slicing, known, reader)
    if read is None:
        return None
    _check_columns(header, gates, read.query.columns)
    return replace(
        _outline(header, file, slicing, inputs),
        query=read.query,
        batching=read.batching,
        entity=read.entity,
        fingerprint=_fingerprint(keys, inputs, slicing, read.code),
        gates=gates,
        udfs=read.udfs,
    )


def _outline(header: _Header, file: _SqlFile | _PythonFile, slicing: Slicing, inputs: tuple[Input, ...]) -> Model:
    """The model as far as its keys tell."""
    keys = header.keys
    return Model(
        name=header.name,
        path=header.path,
        query=Query(text=file.text, references=()),
        batching=Batching(),
        slicing=slicing,
        inputs=inputs,
        fingerprint="",
        function=file.function,
        strategy=Strategy(keys.strategy),
        key=tuple(keys.key),
        columns=tuple((name, column.type) for name, column in keys.columns.items()),
        comments=tuple((name, column.comment) for name, column in keys.columns.items() if column.comment),
        after=tuple(keys.after),
        replay=keys.replay.replay(),
        consumers=tuple(keys.consumers),
        description=keys.description.strip(),
        owner=keys.owner,
        tags=tuple(keys.tags),
        allow_empty=keys.allow_empty,
        retention_days=keys.retention,
        schedule=keys.schedule,
        volatile=tuple(keys.volatile),
        samples=keys.samples,
        keys_text=file.keys_text,
        nondeterministic=keys.deterministic,
    )


def _read_query(
    header: _Header,
    file: _SqlFile,
    inputs: Sequence[Input],
    slicing: Slicing,
    known: KnownNames,
    reader: SqlReader,
) -> _Read | None:
    if not file.text.strip():
        header.problems.add_at_line(file.text_line, "there is no query below the block", remedy="write a SELECT there")
        return None
    read = reader.read_query(
        file.text,
        model=header.name,
        inputs=inputs,
        slicing=slicing,
        vouched=header.keys.replay.sliceable,
        may_vary=bool(header.keys.deterministic),
        params=known.params,
        in_utc=known.in_utc,
    )
    for problem in read.problems:
        line = file.text_line + (problem.line or 1) - 1  # what concerns the whole query is told where it starts
        header.problems.add_at_line(line, problem.message, remedy=problem.remedy)
    return _with_functions(
        header,
        known.functions,
        _Read(query=read.query, batching=read.batching, entity=read.entity, code={"sql": read.normalised}, udfs=()),
        read.calls,
    )


def _read_function(header: _Header, file: _PythonFile, inputs: Sequence[Input], known: KnownNames) -> _Read:
    """A function is read as far as its text tells; that slices are independent, only its author can say."""
    modules = closure(file.module, file.root)
    check_arguments(file.declaration, inputs, header.problems)
    for module in modules:
        header.problems.found += hidden_reads(module)
        header.problems.found += [] if header.keys.deterministic else variations(module)
    parameters = bound_by(file.declaration, sorted(known.params), header.problems)
    bounds = ", ".join(sorted(parameters & names.BOUND_BY_RETCON - {"run_ts"}))
    if bounds and not isinstance(header.keys.slicing().every, Grain):
        header.problems.add_at_line(
            file.declaration.function.lineno,
            f"{bounds} of `run` mean a slice, and the model isn't cut by time",
            remedy="give the model `slices` of time, or take only `run.run_ts` and `run.params`",
        )
    read = _Read(
        query=Query(text=file.text, references=(), parameters=parameters),
        batching=Batching(reasons=(_PYTHON,), vouched=header.keys.replay.sliceable),
        entity=Entity(reasons=(_PYTHON_ENTITY,)),
        code={"python": {module.name: normalised(module) for module in modules}, "function": file.function},
        udfs=(),
    )
    return _with_functions(header, known.functions, read, frozenset().union(*map(called_in_texts, modules)))


def _with_functions(header: _Header, functions: Functions, read: _Read, calls: frozenset[str]) -> _Read:
    """The project's own functions count as the model's code, where it calls one by name."""
    udfs = functions.called(calls)
    if not udfs:
        return read
    if not header.keys.deterministic:
        header.problems.found += functions.varying
    return replace(read, code={**read.code, "functions": functions.code}, udfs=udfs)


def _check_references(header: _Header, known: KnownNames) -> None:
    """Names that the rest of the project must know."""
    for position, consumer in enumerate(header.keys.consumers):
        if consumer not in known.consumers:
            header.problems.add(
                ("consumers", position),
                f"retcon.yaml has no consumer `{consumer}`",
                remedy=did_you_mean(consumer, known.consumers) or "declare it there under `consumers`",
            )
    for position, other in enumerate(header.keys.after):
        if other == header.name:
            header.problems.add(("after", position), "a model can't come after itself", remedy="remove it")
        elif other not in known.models:
            header.problems.add(
                ("after", position),
                f"there is no model `{other}` to come after",
                remedy=did_you_mean(other, known.models) or "name a model of this project",
            )


def _check_columns(header: _Header, gates: Sequence[Gate], output: Sequence[str] | None) -> None:
    """Columns that the query must return, where its text shows what it returns."""
    if output is None:
        return
    keys = header.keys
    known = {column.casefold() for column in output}  # as Spark compares them
    for place, column in _columns_meant(keys, gates):
        if column.casefold() not in known:
            header.problems.add(
                place,
                f"the query has no column `{column}`",
                remedy=did_you_mean(column, output) or f"it returns {', '.join(output)}",
            )
    if keys.columns:
        declared = {column.casefold() for column in keys.columns}
        missing = [column for column in output if column.casefold() not in declared]
        if missing:
            header.problems.add(("columns",), f"the query also returns {', '.join(missing)}", remedy="declare them too")


def _check_slice_type(model: Model, problems: Problems) -> None:
    """The slice column can be cut as `slices` says, where `columns` tells its type."""
    by = (model.slicing.by or "").casefold()
    for name, kind in model.columns:
        if name.casefold() != by:
            continue
        try:
            require_slice_type(model, Column(name=name, type=plain_type(kind)))
        except Refused as refused:
            problems.add(("columns", name), refused.message.removeprefix(f"{model.name}: "), remedy=refused.next)


def _columns_meant(keys: ModelKeys, gates: Sequence[Gate]) -> Iterator[tuple[Place, str]]:
    for place, columns in (("key", keys.key), ("volatile", keys.volatile)):
        yield from (((place, position), column) for position, column in enumerate(columns))
    yield from ((("columns", column), column) for column in keys.columns)
    if len(gates) < len(keys.gates):
        return  # one of them couldn't be read, so their places aren't known
    for position, gate in enumerate(gates):
        if isinstance(gate, Unique | NotNull | NullRate | Accepted | ForeignKey | Profile):
            yield from ((("gates", position), column) for column in gate.columns if column not in keys.key)


def _fingerprint(keys: ModelKeys, inputs: Sequence[Input], slicing: Slicing, code: Mapping[str, object]) -> str:
    """Of what changes results. `key` is only where rows are merged by it: else none but gates ask for it."""
    return fingerprint(
        {
            **code,
            "slices": {"by": slicing.by, "every": str(slicing.every)},
            "inputs": [
                {
                    "name": i.name,
                    "table": i.table,
                    "time": i.time,
                    "lookback": _plain(i.lookback),
                    "lookahead": _plain(i.lookahead),
                    **({"as_of": "slice"} if i.at_slice_end else {}),
                    **({"key": i.key} if i.key is not None else {}),
                }
                for i in sorted(inputs, key=lambda i: i.name)
            ],
            "columns": [(name, column.type) for name, column in keys.columns.items()],
            "volatile": sorted(keys.volatile),
            "strategy": keys.strategy,
            **({"key": keys.key} if keys.strategy == Strategy.MERGE else {}),
        }
    )


def _plain(reach: Reach) -> int | str:
    return reach if isinstance(reach, int) else reach_text(reach)
