"""A folder becomes a project; the problems of all its files are told at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from retcon.core.projects import Project
from retcon.errors import Problem, ProjectInvalid, Refused
from retcon.project import queries
from retcon.project.load import find_root, load_project

SETTINGS = """\
name: shop
catalog: {name: lake, uri: 'sqlite:///.retcon/lake.db', warehouse: .retcon/warehouse}
params: {floor: 1}
consumers: {exec_dashboard: {}}
"""


def sql(reads: str = "raw.orders", *, header: str = "", where: str = "") -> str:
    return f"""\
/* retcon
slices: {{by: order_date, every: day}}
inputs: {{{reads}: {{time: order_date}}}}
{header}
*/
SELECT order_date, amount FROM {reads} {where}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "retcon.yaml").write_text(SETTINGS)
    return tmp_path


def put(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def load(root: Path) -> Project:
    return load_project(root, {}, queries)


def problems(root: Path) -> tuple[Problem, ...]:
    with pytest.raises(ProjectInvalid) as caught:
        load(root)
    return caught.value.problems


def problem(root: Path) -> Problem:
    (only,) = problems(root)
    return only


def test_models_are_ordered_by_what_they_read(root: Path) -> None:
    put(root, "models/mart/b.sql", sql())
    put(root, "models/mart/a.sql", sql("mart.b"))
    project = load(root)
    assert project.graph.order == ("mart.b", "mart.a")
    assert project.settings.name == "shop"
    assert project.graph.models["mart.a"].path == "models/mart/a.sql"


def test_a_project_without_models_is_empty(root: Path) -> None:
    assert load(root).graph.order == ()
    (root / "models" / "mart").mkdir(parents=True)
    assert load(root).graph.order == ()


def test_tables_that_are_no_models_are_sources(root: Path) -> None:
    put(root, "models/mart/orders.sql", sql())
    put(root, "models/mart/a.sql", sql("mart.order"))
    assert load(root).graph.parents("mart.a") == set()


def test_a_relative_folder_is_taken_from_here(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, "models/mart/a.sql", sql())
    monkeypatch.chdir(root)
    project = load(Path())
    assert project.settings.root == str(root)
    assert project.graph.models["mart.a"].path == "models/mart/a.sql"


def test_without_settings_the_way_out_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        load(tmp_path)
    assert caught.value.next.startswith("run `retcon init DIR`, or pass --project")


def test_problems_of_all_files_are_told_at_once(root: Path) -> None:
    put(root, "retcon.yaml", SETTINGS + "timezone: Mars\n")
    put(root, "models/mart/a.sql", "SELECT 1")
    put(root, "models/mart/b.sql", sql(header="gatez: []\nowner: [x]"))
    put(root, "models/mart/ok.sql", sql(where="WHERE amount > :floor"))
    put(root, "models/c.sql", sql())
    put(root, "models/mart/d.py", "x = 1\n")
    assert [(p.path, p.line) for p in problems(root)] == [
        ("models/c.sql", None),
        ("retcon.yaml", 5),
        ("models/mart/a.sql", 1),
        ("models/mart/b.sql", 4),
        ("models/mart/b.sql", 5),
        ("models/mart/d.py", 1),
    ]


def test_malformed_settings_are_told_with_their_line(root: Path) -> None:
    put(root, "retcon.yaml", "name: [\n")
    assert problem(root).line == 2


def test_a_circle_is_shown(root: Path) -> None:
    put(root, "models/mart/a.sql", sql("mart.b"))
    put(root, "models/mart/b.sql", sql("mart.a"))
    assert problem(root).message in (
        "models read each other in a circle: mart.a → mart.b → mart.a",
        "models read each other in a circle: mart.b → mart.a → mart.b",
    )


def test_a_circle_by_after_is_shown_too(root: Path) -> None:
    put(root, "models/mart/a.sql", sql("mart.b"))
    put(root, "models/mart/b.sql", sql(header="after: [mart.a]"))
    assert "in a circle" in problem(root).message


def test_a_consumer_must_be_declared(root: Path) -> None:
    put(root, "models/mart/a.sql", sql(header="consumers: [exec_dashbord]"))
    assert problem(root) == Problem(
        path="models/mart/a.sql",
        line=4,
        message="retcon.yaml has no consumer `exec_dashbord`",
        remedy="did you mean exec_dashboard?",
    )


def test_a_model_comes_after_models_only(root: Path) -> None:
    put(root, "models/mart/orders.sql", sql())
    put(root, "models/mart/a.sql", sql(header="after: [mart.orderz]"))
    assert problem(root) == Problem(
        path="models/mart/a.sql",
        line=4,
        message="there is no model `mart.orderz` to come after",
        remedy="did you mean mart.orders?",
    )


def test_a_model_that_has_problems_is_still_known_to_others(root: Path) -> None:
    put(root, "models/mart/b.sql", "broken")
    put(root, "models/mart/a.sql", sql(header="after: [mart.b]"))
    assert problem(root).path == "models/mart/b.sql"


def test_a_model_is_no_source(root: Path) -> None:
    put(root, "retcon.yaml", SETTINGS + "sources:\n  mart.a: {keeps: 3 years}\n")
    put(root, "models/mart/a.sql", sql())
    assert problem(root).message == "`mart.a` is a model of this project, not a source"
    assert problem(root).line == 6


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("models/a.sql", "this one is in no folder"),
        ("models/mart/deep/a.sql", "this one is 2 folders deep"),
        ("models/mart/a b.sql", "the name 'a b' must be letters, digits and `_`"),
        ("models/mart/a.b.sql", "the name 'a.b' must be letters"),
        ("models/mart/it's.sql", """the name "it's" must be letters"""),
        ("models/my-mart/a.sql", "the name 'my-mart' must be letters"),
        ("models/mart/`a`.sql", "the name '`a`' must be letters"),
        ("models/mart/a;drop.sql", "the name 'a;drop' must be letters"),
    ],
)
def test_a_model_has_a_namespace_and_a_plain_name(root: Path, path: str, message: str) -> None:
    put(root, path, sql())
    found = problem(root)
    assert message in found.message
    assert found.path == path
    assert found.remedy


def test_names_may_be_of_any_alphabet(root: Path) -> None:
    put(root, "models/märkte/umsätze_訂單.sql", sql())
    assert load(root).graph.order == ("märkte.umsätze_訂單",)


def test_letters_with_their_accents_apart_are_the_same_name(root: Path) -> None:
    put(root, "models/mart/u\u0308mlaut.sql", sql())
    assert load(root).graph.order == ("mart.ümlaut",)


def test_two_models_do_not_differ_by_spelling_alone(root: Path) -> None:
    put(root, "models/mart/A.sql", sql())
    put(root, "models/mart/a.sql", sql())
    assert "same name as models/mart/A.sql" in problem(root).message


def test_what_is_hidden_or_no_model_is_passed_over(root: Path) -> None:
    put(root, "models/.ipynb_checkpoints/a.sql", "broken")
    put(root, "models/mart/.#a.sql", "broken")
    put(root, "models/mart/._a.sql", "broken")
    put(root, "models/mart/notes.md", "broken")
    (root / "models/mart/folder.sql").mkdir()
    assert load(root).graph.order == ()


def test_a_broken_link_is_a_problem(root: Path) -> None:
    (root / "models/mart").mkdir(parents=True)
    (root / "models/mart/a.sql").symlink_to(root / "nowhere.sql")
    assert "can't be read" in problem(root).message


def test_the_project_is_found_from_a_folder_inside_it(root: Path) -> None:
    inside = root / "models" / "mart"
    inside.mkdir(parents=True)
    assert find_root(inside) == root
    assert find_root(root) == root


def test_outside_a_project_the_way_out_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        find_root(tmp_path)
    assert "retcon.yaml" in caught.value.message
    assert "retcon init" in caught.value.next
    assert "--project" in caught.value.next


def test_the_past_of_a_foreign_source_can_not_be_read(root: Path) -> None:
    source = "sources: {raw.orders: {format: csv, path: orders, columns: {order_date: date, amount: int}}}\n"
    put(root, "retcon.yaml", SETTINGS + source)
    put(root, "models/mart/m.sql", sql().replace("time: order_date}", "time: order_date, as_of: slice}"))
    assert "only Iceberg tables keep their past" in problem(root).message
