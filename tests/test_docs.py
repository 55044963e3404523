"""What the pages show is there, and works."""

from __future__ import annotations

import re
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel

from retcon.cli import main
from retcon.core import gates
from retcon.core.estimates import Estimate, Price, Span
from retcon.core.events import Event
from retcon.core.plans import to_document
from retcon.core.runs import RunState
from retcon.ledger.migrate import migrate
from retcon.ledger.revisions import VERSION_TABLE
from retcon.ledger.schema import METADATA
from retcon.ledger.store import SqlLedger
from retcon.project import gate_entries, queries, settings
from retcon.project.load import load_project
from retcon.project.model_keys import ModelKeys
from retcon.project.names import BOUND_BY_RETCON
from retcon.project.plan_files import with_expectations
from retcon.project.python.importing import ProjectCode, import_all
from tests.ledger.examples import a_plan, published_run

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SHIPPED = sorted((ROOT / "src").rglob("*.md"))
"""Pages of new projects."""
REFERENCE = ROOT / "docs" / "reference"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
COMMANDS = {name: main.command_of(name) for name in main.COMMANDS}

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True, kw_only=True)
class Fence:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{shown(self.page)}:{self.line}"


def shown(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def fences(language: str) -> list[Fence]:
    """Every block of this language, without the indentation that a list gives it."""
    found: list[Fence] = []
    for page in (*PAGES, *SHIPPED):
        text = page.read_text()
        for match in _FENCE.finditer(text):
            if match["language"] == language:
                body = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
                line = text.count("\n", 0, match.start()) + 1
                found.append(Fence(page=page, line=line, language=language, text=body))
    return found


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", page.read_text())


def names_code(page: Path) -> set[str]:
    """Whatever stands in backquotes outside of fenced blocks."""
    return set(re.findall(r"`([^`\n]+)`", prose(page)))


# ── links ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as forges make them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> Iterator[str]:
    for match in _LINK.finditer(prose(page)):
        target, _, anchor = match["target"].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            yield match["target"]


@pytest.mark.parametrize("page", [*PAGES, *SHIPPED], ids=shown)
def test_relative_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_every_page_is_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in reached or not page.is_file():
            continue
        reached.add(page)
        targets = (match["target"].partition("#")[0] for match in _LINK.finditer(prose(page)))
        ahead += [(page.parent / target).resolve() for target in targets if target.endswith(".md")]
    assert set(PAGES) - reached == set()


def test_decisions_are_numbered_without_gaps_listed_and_have_their_four_parts() -> None:
    assert [int(page.name[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))
    listed = (ROOT / "docs" / "decisions" / "README.md").read_text()
    for page in DECISIONS:
        assert f"({page.name})" in listed
        text = page.read_text()
        assert text.startswith(f"# {int(page.name[:4])}. ")
        parts = re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE)
        assert parts == ["Context", "Decision", "Why", "Consequences"], page.name


def test_files_that_the_architecture_and_the_decisions_name_are_there() -> None:
    for page in (ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md", *DECISIONS):
        for name in names_code(page):
            if re.fullmatch(r"[\w./-]+(\.py|\.toml|\.lock|\.md|/)", name) and not name.startswith((".", "shop-demo")):
                places = (ROOT / name, ROOT / "src" / "retcon" / name)
                is_of_a_project = name in ("models/", "backfills/")
                assert is_of_a_project or any(place.exists() for place in places), f"{shown(page)}: {name}"


# ── reference ─────────────────────────────────────────────────────────────────────────────────────────────────────


def dotted_keys(shape: type[BaseModel], above: str = "") -> list[str]:
    """Every key of a document, from the outside in; NAME stands for names that people choose."""
    keys: list[str] = []
    for name, field in shape.model_fields.items():
        key = above + (field.alias or name)
        keys.append(key)
        kind = unwrapped(field.annotation)
        if get_origin(kind) is dict:
            kind, key = unwrapped(get_args(kind)[1]), f"{key}.NAME"
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            keys += dotted_keys(kind, f"{key}.")
    return keys


def unwrapped(kind: Any) -> Any:
    while get_origin(kind) in (Annotated, Union, UnionType):
        kind = get_args(kind)[0]
    return kind


@pytest.mark.parametrize("key", dotted_keys(ModelKeys))
def test_every_key_of_a_model_is_in_the_reference(key: str) -> None:
    assert f"| `{key}` |" in (REFERENCE / "models.md").read_text()


@pytest.mark.parametrize("key", dotted_keys(settings._SettingsKeys))
def test_every_key_of_retcon_yaml_is_in_the_reference(key: str) -> None:
    assert f"| `{key}` |" in (REFERENCE / "project.md").read_text()


@pytest.mark.parametrize(("page", "shape"), [("models.md", ModelKeys), ("project.md", settings._SettingsKeys)])
def test_no_key_is_in_the_reference_that_isnt_there(page: str, shape: type[BaseModel]) -> None:
    listed = re.findall(
        r"^\| `([a-zA-Z_.]+)` \| (?:`\w+` )?(?:active|shown|refused|accepted)", prose(REFERENCE / page), re.M
    )
    assert listed
    assert set(listed) - set(dotted_keys(shape)) == set()


def test_the_reference_calls_no_key_of_a_model_refused() -> None:
    assert not re.findall(r"^\| (`[\w.]+`) \| [^|]*refused[^|]*\|", prose(REFERENCE / "models.md"), re.MULTILINE)


def gate_kinds() -> list[str]:
    declared = [next(f.default for f in fields(kind) if f.name == "kind") for kind in get_args(gates.Gate)]
    return [
        *declared,
        gates.VALID,
        gates.SCHEMA,
        gates.OUTSIDE_SCOPE,
        gates.EMPTY,
        gates.PARITY,
        gates.OTHER_KEYS,
    ]


@pytest.mark.parametrize("kind", gate_kinds())
def test_every_kind_of_gate_is_in_the_reference(kind: str) -> None:
    page = REFERENCE / "gates.md"
    assert f"### {kind}\n" in page.read_text() or kind in names_code(page)


def test_every_key_of_a_gate_is_in_the_reference() -> None:
    page = (REFERENCE / "gates.md").read_text()
    shapes = {"rows": gate_entries._RowsKeys, "unique": gate_entries._ColumnsKeys, "drift": gate_entries._DriftKeys}
    for kind, shape in shapes.items():
        section = page.partition(f"### {kind}\n")[2].partition("\n### ")[0]
        for key in dotted_keys(shape):
            assert re.search(rf"\b{key}\b", page if key in ("name", "warn") else section), f"{kind}: {key}"


def test_the_reference_says_which_gates_can_be_overridden() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| (yes|no)\b[^|]*\|$", (REFERENCE / "gates.md").read_text(), re.MULTILINE)
    assert {gate for gate, answer in rows if answer == "no"} == gates.NEVER_OVERRIDDEN - {gates.VALID}
    assert {gate for gate, _ in rows} == {
        gates.SCHEMA,
        gates.OUTSIDE_SCOPE,
        gates.EMPTY,
        gates.PARITY,
        gates.OTHER_KEYS,
        gates.ONE_ROW,
    }


@pytest.mark.parametrize("table", list(METADATA.tables))
def test_every_table_and_column_of_the_ledger_is_in_the_reference(table: str) -> None:
    page = (REFERENCE / "ledger.md").read_text()
    section = page.partition(f"### {table}\n")[2].partition("\n### ")[0]
    assert section, table
    for column in METADATA.tables[table].columns:
        assert f"`{column.name}`" in section, f"{table}.{column.name}"


def test_every_event_and_state_is_in_the_reference() -> None:
    page = (REFERENCE / "ledger.md").read_text()
    assert f"`{VERSION_TABLE}`" in page
    events = page.partition("## Events\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", events, re.MULTILINE) == [kind.__name__ for kind in get_args(Event)]
    states = page.partition("## States of a run\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", states, re.MULTILINE)) == {state.value for state in RunState}


def test_the_verification_in_the_reference_tells_a_sound_chain_from_a_changed_one(tmp_path: Path) -> None:
    [code] = [fence for fence in fences("python") if fence.page.name == "ledger.md"]
    names: dict[str, Any] = {}
    exec(code.text, names)
    database = tmp_path / "lake.db"
    ledger = SqlLedger(f"sqlite:///{database}", "lake", migrate=migrate)
    ledger.prepare()
    plan = a_plan()
    published_run(ledger, plan)
    assert names["first_broken_link"](database, plan.id) is None
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("UPDATE retcon_events SET who = 'nobody' WHERE number = 3")
    assert names["first_broken_link"](database, plan.id) == 3


# ── examples ──────────────────────────────────────────────────────────────────────────────────────────────────────

MODELS = [fence for fence in fences("sql") if fence.text.startswith("/* retcon")]
SETTINGS = [fence for fence in fences("yaml") if fence.text.startswith("# retcon.yaml")]
GATES = [fence for fence in fences("yaml") if fence.text.startswith("gates:")]


def test_there_are_examples_of_models_settings_and_gates() -> None:
    assert len(MODELS) >= 5
    assert len(SETTINGS) >= 2
    assert GATES


def a_project(root: Path, model: str) -> None:
    """A project around one model: its consumers and parameters are declared, whatever they are called."""
    header, _, query = model.removeprefix("/* retcon\n").partition("\n*/")
    keys = yaml.safe_load(header)
    declared = {
        "name": "example",
        "catalog": {"name": "lake", "uri": "sqlite:///lake.db", "warehouse": "warehouse"},
        "params": dict.fromkeys(set(re.findall(r"(?<!:):([a-z_]+)", query)) - BOUND_BY_RETCON, 1),
        "consumers": {name: {"kind": "dashboard"} for name in keys.get("consumers", ())},
    }
    (root / "retcon.yaml").write_text(yaml.safe_dump(declared))
    path = root / "models" / "mart" / "example.sql"
    path.parent.mkdir(parents=True)
    path.write_text(model)


def write_python_example(root: Path) -> list[str]:
    """The files of the page on Python models; each says in its first line which one it is."""
    written: list[str] = []
    for fence in fences("python"):
        if fence.page.name == "python-models.md":
            name = fence.text.splitlines()[0].removeprefix("# ")
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fence.text)
            written.append(name)
    return written


@pytest.mark.parametrize("example", MODELS, ids=str)
def test_models_in_the_pages_load_without_problems(example: Fence, tmp_path: Path) -> None:
    a_project(tmp_path, example.text)
    project = load_project(tmp_path, {}, queries)
    assert list(project.graph.models) == ["mart.example"]


def test_python_files_in_the_page_make_a_project_that_loads_and_imports(tmp_path: Path) -> None:
    written = write_python_example(tmp_path)
    (tmp_path / "retcon.yaml").write_text(SETTINGS[0].text)
    models = load_project(
        tmp_path, dict.fromkeys(re.findall(r"\$\{(\w+)\}", SETTINGS[0].text), "x"), queries
    ).graph.models
    assert sorted(models) == ["mart.fct_orders_banded", "mart.stg_orders"]
    assert "functions.py" in written
    import_all(ProjectCode(tmp_path), models.values())


@pytest.mark.parametrize("example", SETTINGS, ids=str)
def test_settings_in_the_pages_load_without_problems(example: Fence, tmp_path: Path) -> None:
    (tmp_path / "retcon.yaml").write_text(example.text)
    load_project(tmp_path, dict.fromkeys(re.findall(r"\$\{(\w+)\}", example.text), "secret"), queries)


@pytest.mark.parametrize("example", GATES, ids=str)
def test_gates_in_the_pages_load_without_problems(example: Fence, tmp_path: Path) -> None:
    keys = "slices: {by: d, every: day}\nkey: [d]\ninputs: {raw.t: {time: d}}\n"
    a_project(tmp_path, f"/* retcon\n{keys}{example.text}*/\nSELECT d, x AS revenue_usd FROM raw.t")
    assert len(load_project(tmp_path, {}, queries).graph.models["mart.example"].gates) == example.text.count("\n  - ")


def nested_keys(document: object, above: str = "") -> set[str]:
    """The keys of a document, of lists those of the first item."""
    if isinstance(document, dict):
        inner = (nested_keys(value, f"{above}{key}.") for key, value in document.items())
        return {f"{above}{key}" for key in document}.union(*inner)
    return nested_keys(document[0], above) if isinstance(document, list) and document else set()


def test_the_plan_in_the_reference_has_the_keys_of_a_real_one() -> None:
    example, expect = (fence for fence in fences("yaml") if fence.page.name == "plans.md")
    models = {"mart.fct_orders_usd": Span(low=1.0, high=2.0), "mart.fct_daily_revenue": Span(low=1.0, high=2.0)}
    price = Price(core_hour=0.12, currency="USD")
    estimate = Estimate(seconds=Span(low=1.0, high=2.0), models=models, cores=2, price=price)
    plan = replace(a_plan(force=False), estimate=estimate, planned_in=0.9)
    assert with_expectations(replace(plan, models=plan.models[:1]), yaml.safe_load(expect.text)["expect"], "x").expect
    assert nested_keys(yaml.safe_load(example.text)) == nested_keys(to_document(plan))


def commands_in(text: str) -> Iterator[list[str]]:
    """The commands of a shell block, each as its words; `a && b` are two."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        while words:
            end = next((at for at, word in enumerate(words) if word in ("&&", "|", ">")), len(words))
            yield words[:end]
            words = words[end + 1 :]


SHOWN = [(fence, words) for fence in fences("sh") for words in commands_in(fence.text)]


@pytest.mark.parametrize(
    ("fence", "words"),
    [pytest.param(fence, words, id=f"{fence} {words[1]}") for fence, words in SHOWN if words[0] == "retcon"],
)
def test_commands_in_the_pages_have_a_name_and_options_that_are_there(fence: Fence, words: list[str]) -> None:
    name, *arguments = words[1:]
    assert name in COMMANDS, f"{fence}: retcon {name}"
    with COMMANDS[name].make_context(name, arguments) as context:  # parses, and runs nothing
        assert context.params


def test_targets_of_make_in_the_pages_are_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for name in re.findall(r"`make (?:PYTHON=\S+ )?([a-z-]+)`", prose(page)):
            assert name in targets, f"{shown(page)}: make {name}"
    for fence, words in SHOWN:
        if words[0] == "make":
            assert words[-1] in targets, f"{fence}: {' '.join(words)}"
