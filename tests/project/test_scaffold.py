"""New projects are written whole or not at all, and they work."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from retcon.core.gates import Drift
from retcon.errors import BadArguments, Fault, Refused
from retcon.project import queries
from retcon.project.load import load_project
from retcon.project.scaffold import template_text, write_project

SHOP = [
    ".gitignore",
    "README.md",
    "backfills/.gitkeep",
    "models/mart/fct_daily_revenue.sql",
    "models/mart/fct_orders_usd.sql",
    "retcon.yaml",
]
REPORTS = ["models/report/exec_dashboard.sql", "models/report/finance_reconciliation.sql"]


def files_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(("template", "files"), [("shop", SHOP), ("demo", sorted([*SHOP, *REPORTS]))])
def test_a_new_project_has_these_files(tmp_path: Path, template: str, files: list[str]) -> None:
    target = tmp_path / "deep" / "below" / "acme"
    written = write_project(target, template)
    assert files_below(target) == files
    assert written == [target / file for file in files]
    assert os.listdir(target.parent) == ["acme"]


def test_a_new_project_loads_under_the_name_of_its_folder(tmp_path: Path) -> None:
    write_project(tmp_path / "acme", "shop")
    project = load_project(tmp_path / "acme", {}, queries)
    assert project.settings.name == "acme"
    assert project.graph.order == ("mart.fct_orders_usd", "mart.fct_daily_revenue")


def test_the_demo_is_computed_in_batches_and_its_reports_follow_the_facts(tmp_path: Path) -> None:
    write_project(tmp_path / "demo", "demo")
    project = load_project(tmp_path / "demo", {}, queries)
    models = project.graph.models
    assert project.graph.select(["mart.fct_orders_usd+"]) == (
        "mart.fct_orders_usd",
        "mart.fct_daily_revenue",
        "report.exec_dashboard",
        "report.finance_reconciliation",
    )
    assert {name: model.batching.reasons for name, model in models.items()} == dict.fromkeys(models, ())
    assert any(i.lookback for i in models["report.exec_dashboard"].inputs)
    assert set(project.settings.consumers) == {"exec_dashboard", "finance_recon"}
    assert all(any(isinstance(gate, Drift) for gate in model.gates) for model in models.values())


@pytest.mark.parametrize("master", ["spark://host:7077", "local-cluster[2,1,1024]", 'a "b": #c \\', "größer"])
def test_a_new_project_may_be_on_another_spark_master(tmp_path: Path, master: str) -> None:
    write_project(tmp_path / "demo", "demo", master=master)
    assert load_project(tmp_path / "demo", {}, queries).settings.spark.master == master
    write_project(tmp_path / "shop", "shop")
    assert load_project(tmp_path / "shop", {}, queries).settings.spark.master == "local[*]"


@pytest.mark.parametrize("master", ["", "  ", "spark://a\nname: b"])
def test_a_spark_master_that_is_no_line_of_text_is_refused(tmp_path: Path, master: str) -> None:
    with pytest.raises(BadArguments, match="the Spark master"):
        write_project(tmp_path / "demo", "demo", master=master)
    assert not (tmp_path / "demo").exists()


def test_the_bug_of_the_demo_is_a_valid_model_with_another_fingerprint(tmp_path: Path) -> None:
    write_project(tmp_path / "demo", "demo")
    right = load_project(tmp_path / "demo", {}, queries).graph.model("mart.fct_orders_usd")
    bug = template_text("demo", "bugs/fct_orders_usd.sql")
    assert "date_sub(o.order_date, 1)" in bug
    (tmp_path / "demo/models/mart/fct_orders_usd.sql").write_text(bug, encoding="utf-8")
    wrong = load_project(tmp_path / "demo", {}, queries).graph.model("mart.fct_orders_usd")
    assert wrong.fingerprint != right.fingerprint
    assert wrong.query.columns == right.query.columns
    assert wrong.batching.is_sliceable


def test_a_file_of_a_template_is_read_from_its_last_layer() -> None:
    assert template_text("demo", "models/mart/fct_orders_usd.sql") == template_text(
        "shop", "models/mart/fct_orders_usd.sql"
    )
    assert "finance_recon" in template_text("demo", "retcon.yaml")
    with pytest.raises(LookupError):
        template_text("shop", "bugs/fct_orders_usd.sql")


@pytest.mark.parametrize("name", ["123", "true", "mein Ładen", "it's", "a: b", "# x", "${HOME}", "a\nb", "- x"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    write_project(tmp_path / name, "shop")
    expected = "shop" if name in ("${HOME}", "a\nb") else name
    assert load_project(tmp_path / name, {}, queries).settings.name == expected


def test_an_empty_folder_is_filled_in_place(tmp_path: Path) -> None:
    before = tmp_path.stat().st_ino
    write_project(tmp_path, "shop")
    assert files_below(tmp_path) == SHOP
    assert tmp_path.stat().st_ino == before


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "retcon.yaml").write_text("mine")
    with pytest.raises(Refused) as caught:
        write_project(tmp_path, "shop")
    assert "isn't empty" in caught.value.message
    assert "nothing was written" in caught.value.state
    assert files_below(tmp_path) == ["retcon.yaml"]
    assert (tmp_path / "retcon.yaml").read_text() == "mine"


def test_a_file_is_no_folder_for_a_project(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    with pytest.raises(Refused, match="is a file"):
        write_project(tmp_path / "x", "shop")


def test_a_place_that_cannot_be_written_is_a_fault_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a file, where a folder would have to be")
    with pytest.raises(Fault) as caught:
        write_project(tmp_path / "x" / "project", "shop")
    assert "Not a directory" in caught.value.message
    assert caught.value.next


def test_a_disk_that_fills_up_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text = Path.write_text

    def full(self: Path, *args: object, **kwargs: object) -> int:
        if self.name == "retcon.yaml":
            raise OSError(28, "No space left on device")
        return write_text(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "write_text", full)
    empty = tmp_path / "empty"
    empty.mkdir()
    for target in (empty, tmp_path / "new"):
        with pytest.raises(Fault, match="No space left"):
            write_project(target, "shop")
    assert os.listdir(tmp_path) == ["empty"]
    assert os.listdir(empty) == []


def test_others_may_read_a_new_project_as_far_as_the_umask_says(tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    write_project(tmp_path / "acme", "shop")
    assert stat.S_IMODE((tmp_path / "acme").stat().st_mode) == stat.S_IMODE(beside.stat().st_mode)


def test_a_misspelt_template_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(BadArguments) as caught:
        write_project(tmp_path / "x", "shopp")
    assert caught.value.next == "did you mean shop?"
