"""`retcon.yaml` becomes settings, or problems that name their line and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from retcon.core.estimates import Price
from retcon.core.limits import Limits
from retcon.core.projects import Consumer, Settings, Source
from retcon.errors import Problem, ProjectInvalid, Refused
from retcon.project.settings import settings_document, settings_of

CATALOG = "catalog: {name: lake, uri: 'sqlite:///.retcon/lake.db', warehouse: .retcon/warehouse}\n"
MINIMAL = "name: shop\n" + CATALOG

FULL = """\
name: shop
catalog:
  name: lake
  type: jdbc
  uri: sqlite:///.retcon/lake.db
  warehouse: .retcon/warehouse
  jdbc.schema-version: V1
  cache-enabled: false
spark: {master: "spark://host:7077", conf: {spark.sql.shuffle.partitions: 8, spark.x: true}}
timezone: Europe/Berlin
params: {fx_source: "${FX_SOURCE}", digits: 2, factor: 0.5, strict: true}
limits: {slices: 90, bytes: 10 GiB, keys: 7}
sources:
  raw.orders: {updated: updated_at, key: [order_id], keeps: 3 years}
  raw.customers:
consumers:
  exec_dashboard: {owner: exec-ops, kind: dashboard}
  export:
environments:
  staging: {prefix: staging_}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def load(root: Path, text: str, environ: Mapping[str, str] | None = None) -> Settings:
    (root / "retcon.yaml").write_text(text, encoding="utf-8")
    return read(root, environ)


def read(root: Path, environ: Mapping[str, str] | None = None) -> Settings:
    return settings_of(settings_document(root), root, environ or {})


def problems(root: Path, text: str, environ: Mapping[str, str] | None = None) -> tuple[Problem, ...]:
    with pytest.raises(ProjectInvalid) as caught:
        load(root, text, environ)
    assert all(p.path == "retcon.yaml" for p in caught.value.problems)
    return caught.value.problems


def problem(root: Path, text: str, environ: Mapping[str, str] | None = None) -> Problem:
    (only,) = problems(root, text, environ)
    return only


def test_every_key_of_the_design_is_read(root: Path) -> None:
    settings = load(root, FULL, {"FX_SOURCE": "ecb"})
    assert settings.name == "shop"
    assert settings.root == str(root)
    assert settings.catalog.name == "lake"
    assert settings.catalog.type == "jdbc"
    assert settings.catalog.options == {"jdbc.schema-version": "V1", "cache-enabled": "false"}
    assert settings.spark.master == "spark://host:7077"
    assert settings.spark.conf == {"spark.sql.shuffle.partitions": "8", "spark.x": "true"}
    assert settings.timezone == "Europe/Berlin"
    assert settings.params == {"fx_source": "ecb", "digits": 2, "factor": 0.5, "strict": True}
    assert settings.limits == Limits(slices=90, bytes=10 * 2**30, keys=7)
    assert settings.sources == {
        "raw.orders": Source(name="raw.orders", updated="updated_at", key=("order_id",), keeps_days=1095),
        "raw.customers": Source(name="raw.customers"),
    }
    assert settings.consumers == {
        "exec_dashboard": Consumer(name="exec_dashboard", owner="exec-ops", kind="dashboard"),
        "export": Consumer(name="export"),
    }
    assert settings.environments == {"staging": "staging_"}


def test_what_computing_costs_is_a_number_and_its_currency_and_changes_no_results(root: Path) -> None:
    assert load(root, MINIMAL + "cost: {core_hour: 0.12, currency: USD}\n").cost == Price(
        core_hour=0.12, currency="USD"
    )
    assert load(root, MINIMAL + "cost: {core_hour: 3}\n").cost == Price(core_hour=3.0)
    assert load(root, MINIMAL).cost is None
    assert load(root, MINIMAL + "cost: {core_hour: 3}\n").fingerprint == load(root, MINIMAL).fingerprint


def test_little_is_required_and_the_rest_has_defaults(root: Path) -> None:
    settings = load(root, MINIMAL)
    assert settings.spark.master == "local[*]"
    assert settings.timezone == "UTC"
    assert settings.limits == Limits()
    assert settings.params == {}


def test_a_key_with_nothing_behind_it_counts_as_absent(root: Path) -> None:
    assert load(root, MINIMAL + "sources:\nspark:\nlimits:\n").limits == Limits()


def test_relative_paths_are_resolved_from_the_file(root: Path) -> None:
    catalog = load(root, MINIMAL).catalog
    assert catalog.uri == f"sqlite:///{root}/.retcon/lake.db"
    assert catalog.uri.startswith("sqlite:////")
    assert catalog.warehouse == f"{root}/.retcon/warehouse"


def test_absolute_paths_and_addresses_stay(root: Path) -> None:
    text = "name: x\ncatalog: {name: lake, uri: 'sqlite:////data/lake.db', warehouse: 's3://bucket/wh'}\n"
    catalog = load(root, text).catalog
    assert catalog.uri == "sqlite:////data/lake.db"
    assert catalog.warehouse == "s3://bucket/wh"


def test_a_folder_with_blanks_and_unicode_works(tmp_path: Path) -> None:
    root = tmp_path / "mein Ładen's"
    root.mkdir()
    assert load(root, MINIMAL).catalog.uri == f"sqlite:///{root}/.retcon/lake.db"


@pytest.mark.parametrize("address", ["postgresql://u@h/db", "postgresql://u:p%2Fw@h:5432/db", "postgresql://u@[::1]/d"])
def test_postgresql_addresses_are_taken(root: Path, address: str) -> None:
    assert load(root, MINIMAL.replace("sqlite:///.retcon/lake.db", address)).catalog.uri == address


@pytest.mark.parametrize(
    "address",
    [
        "mysql://u:hush@h/db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///",
        "sqlite:///a?mode=ro",
        "postgres://u:hush@h/db",
        "postgresql://h/db",
        "postgresql://u:hush@h",
        "postgresql://u:hush@h/",
        "postgresql://u:hush@h/a/b",
        "postgresql://u:hu/sh@h/db",
        "postgresql://u:hush@h:port/db",
        "postgresql://u:hush@h:99999/db",
        "postgresql://u:hush@h:0/db",
        "postgresql://u:hush@[/db",
        "postgresql://u:hush@h/db#x",
        "postgresql://u:hush@h/db?sslmode=require",
        "postgresql+psycopg://u:hush@h/db",
        "lake.db",
    ],
)
def test_other_addresses_are_refused_without_repeating_them(root: Path, address: str) -> None:
    found = problem(root, MINIMAL.replace("sqlite:///.retcon/lake.db", address))
    assert "catalog.uri" in found.message
    assert "hu" not in found.message + found.remedy


def test_variables_are_filled_in_where_they_are_allowed(root: Path) -> None:
    text = """\
name: shop
catalog: {name: lake, uri: "postgresql://u:${PW}@${HOST}/db", warehouse: "s3://${BUCKET}/wh", s3.key: "${PW}"}
spark: {conf: {spark.secret: "${PW}"}}
params: {a: "x-${HOST}-y", literal: "$${PW}"}
"""
    settings = load(root, text, {"PW": "hush", "HOST": "db", "BUCKET": "b"})
    assert settings.catalog.uri == "postgresql://u:hush@db/db"
    assert settings.catalog.warehouse == "s3://b/wh"
    assert settings.catalog.options == {"s3.key": "hush"}
    assert settings.spark.conf == {"spark.secret": "hush"}
    assert settings.params == {"a": "x-db-y", "literal": "${PW}"}


def test_what_a_variable_holds_is_never_expanded_again(root: Path) -> None:
    text = MINIMAL + 'params: {a: "${A}"}\n'
    assert load(root, text, {"A": "${B}", "B": "no"}).params == {"a": "${B}"}


def test_a_missing_variable_is_named_once(root: Path) -> None:
    found = problem(root, MINIMAL.replace("sqlite:///.retcon/lake.db", "${LAKE_URI}"))
    assert found.message == "`catalog.uri` needs the environment variable LAKE_URI, which isn't set"
    assert found.line == 2


@pytest.mark.parametrize("text", ["${", "${}", "${A-B}", "${A", "${1}", "${ A }"])
def test_a_broken_variable_is_refused(root: Path, text: str) -> None:
    assert "isn't a variable" in problem(root, MINIMAL + f"params: {{a: '{text}'}}\n", {"A": "x"}).message


@pytest.mark.parametrize(
    "line",
    ["timezone: '${A}'", "spark: {master: '${A}'}", "limits: {bytes: '${A}'}", "sources: {raw.x: {updated: '${A}'}}"],
)
def test_elsewhere_a_variable_is_a_problem(root: Path, line: str) -> None:
    found = problem(root, f"{MINIMAL}{line}\n", {"A": "UTC"})
    assert "isn't filled in here" in found.message
    assert found.line == 3


def test_secrets_show_neither_in_errors_nor_in_the_repr_of_options(root: Path) -> None:
    text = """\
name: shop
catalog: {name: "${PW}", uri: "${PW}", warehouse: w, type: "${PW}", s3.key: "${PW}"}
spark: {conf: {spark.secret: "${PW}"}}
"""
    for found in problems(root, text, {"PW": "hush-hush"}):
        assert "hush" not in found.message + found.remedy
    good = text.replace('uri: "${PW}"', 'uri: "sqlite:///x"').replace('"${PW}", uri', "lake, uri")
    settings = load(root, good.replace('type: "${PW}"', "type: jdbc"), {"PW": "hush-hush"})
    assert settings.catalog.options == {"s3.key": "hush-hush"}
    assert "hush" not in repr(settings)


def test_the_fingerprint_follows_what_changes_results_and_no_secret(root: Path) -> None:
    def of(text: str, **environ: str) -> str:
        return load(root, text, environ).fingerprint

    with_secret = MINIMAL + 'spark: {conf: {spark.secret: "${PW}"}}\n'
    assert of(with_secret, PW="a") == of(with_secret, PW="b")
    with_param = MINIMAL + 'params: {p: "${P}"}\n'
    assert of(with_param, P="a") != of(with_param, P="b")
    assert of(MINIMAL) != of(MINIMAL + "timezone: Europe/Berlin\n")
    assert of(MINIMAL) != of(MINIMAL + "spark: {conf: {a: 1}}\n")
    assert of(MINIMAL) == of(MINIMAL + "limits: {slices: 3}\nconsumers: {x: {}}\nspark: {master: local}\n")
    assert of(MINIMAL + "params: {a: 1, b: 2}\n") == of(MINIMAL + "params: {b: 2, a: 1}\n")
    assert len(of(MINIMAL)) == 64


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("timezon: UTC", "unknown key `timezon` — did you mean timezone?"),
        ("limits: {slice: 3}", "unknown key `limits.slice` — did you mean slices?"),
        ("sources: {raw.x: {kept: 3 years}}", "unknown key `sources.raw.x.kept` — did you mean keeps?"),
        ("consumers: {d: {ownr: x}}", "unknown key `consumers.d.ownr` — did you mean owner?"),
        ("spark: {config: {}}", "unknown key `spark.config` — did you mean conf?"),
        ("zzzzzz: 1", "unknown key `zzzzzz`"),
        ("ledger: {uri: 'sqlite:///x'}", "`ledger` can't be somewhere else"),
        ("sources: {raw.x: {format: cvs, path: /x}}", "`sources.raw.x.format` must be `parquet` or `orc` or `csv`"),
        ("sources: {raw.x: {format: avro, path: /x}}", "`sources.raw.x.format` must be `parquet` or `orc` or `csv`"),
        ("sources: {raw.x: {format: csv, path: /x}}", "`sources.raw.x` needs `columns`: csv has no types"),
        ("sources: {raw.x: {format: parquet}}", "`sources.raw.x` needs a `path`"),
        ("sources: {raw.x: {path: /x}}", "`sources.raw.x` says where it is, but has no `format`"),
        ("sources: {raw.x: {options: {a: b}}}", "`sources.raw.x` says where it is, but has no `format`"),
        (
            "sources: {raw.x: {format: parquet, path: 'd/*.pq'}}",
            "`sources.raw.x` can't have any of `*?[]{}` in its path",
        ),
        (
            "sources: {raw.x: {format: parquet, path: d, options: {PathGlobFilter: '*.pq'}}}",
            "`sources.raw.x` can't have the option `PathGlobFilter`",
        ),
        (
            "sources: {raw.x: {format: delta, path: d, options: {versionAsOf: 3}}}",
            "`sources.raw.x` can't have the option",
        ),
        ("sources: {raw.x: {format: delta, path: d, columns: {a: int}}}", "`sources.raw.x` can't have `columns`"),
        ("sources: {raw.x: {format: jdbc, path: d}}", "`sources.raw.x` is read by JDBC, which has no `path`"),
        (
            "sources: {raw.x: {format: jdbc, options: {url: u}}}",
            "`sources.raw.x` needs the options `url`, and `dbtable`",
        ),
        (
            "sources: {raw.x: {format: jdbc, options: {url: u, dbtable: t, query: q}}}",
            "`sources.raw.x` needs the options `url`, and `dbtable` or `query`",
        ),
        ("sources: {raw.x: {format: jdbc, options: {url: [u]}}}", "`sources.raw.x.options.url` must be text, a number"),
        ("sources: {orders: {}}", "`sources.orders` must name a table with its namespace, such as `raw.orders`"),
        ("sources: {../../etc/passwd: {}}", "`sources.../../etc/passwd` must be a table such as `raw.orders`"),
        ("sources: [raw.x]", "`sources` must be a mapping of `key: value`, not a list"),
        ("sources: {raw.x: [a]}", "`sources.raw.x` must be a mapping of `key: value`, not a list"),
        ("sources: {raw.x: {key: order_id}}", "`sources.raw.x.key` must be a list, not text"),
        ("sources: {raw.x: {key: [1]}}", "item 1 of `sources.raw.x.key` must be text, not a number"),
        ("sources: {raw.x: {key: [a, a]}}", "`sources.raw.x.key` names `a` twice"),
        ("sources: {raw.x: {keeps: forever}}", "`sources.raw.x.keeps` must be a time span"),
        ("timezone: Europe/Belrin", "`timezone` isn't a known time zone"),
        ("timezone: ../../etc/passwd", "`timezone` isn't a known time zone"),
        ("timezone: America", "`timezone` isn't a known time zone"),
        ("timezone: 5", "`timezone` must be text, not a number"),
        ("cost: {core_hour: 0}", "`cost.core_hour` must be a price above 0"),
        ("cost: {core_hour: .inf}", "`cost.core_hour` must be a price above 0"),
        ("cost: {core_hour: cheap}", "`cost.core_hour` must be a number, not text"),
        ("cost: {currency: USD}", "the key `cost.core_hour` is missing"),
        ("limits: {slices: 0}", "`limits.slices` must be at least 1"),
        ("limits: {slices: true}", "`limits.slices` must be a whole number, not true or false"),
        ("limits: {slices: '5'}", "`limits.slices` must be a whole number, not text"),
        ("limits: {bytes: a lot}", "`limits.bytes` must be a size such as `500 GB`"),
        ("params: {start_date: x}", "`params.start_date` is bound by retcon itself"),
        ("params: {a-b: x}", "`params.a-b` must be letters a–z, digits and `_`"),
        ("params: {a: [1]}", "`params.a` must be text, a number, or true or false"),
        ("params: {a: 2025-01-01}", "`params.a` must be text, a number, or true or false"),
        ("params: {a: }", "`params.a` must be text, a number, or true or false"),
        ("params: {a: .nan}", "`params.a` must be a finite number"),
        ("environments: {dev: {prefix: ../}}", "`environments.dev.prefix` must be letters, digits and `_`"),
        ("environments: {dev: {}}", "the key `environments.dev.prefix` is missing"),
        ("spark: {conf: {a: [1]}}", "`spark.conf.a` must be text, a number, or true or false"),
        ("spark: local", "`spark` must be a mapping of `key: value`, not text"),
    ],
)
def test_a_wrong_line_is_told_in_words(root: Path, line: str, message: str) -> None:
    found = problem(root, f"{MINIMAL}{line}\n")
    assert found.message.startswith(message)
    assert found.line == 3
    assert "pydantic" not in found.message
    assert "validation" not in found.message


@pytest.mark.parametrize(
    ("catalog", "message"),
    [
        ("{name: lake, type: glue, uri: x, warehouse: w}", "`catalog.type: glue` isn't supported yet"),
        ("{name: lake, type: rest, uri: 'http://h', warehouse: w}", "`catalog.type` needs a database for the ledger"),
        ("{name: lake, type: jbdc, uri: 'sqlite:///x', warehouse: w}", "`catalog.type` must be `jdbc`"),
        ("{name: my-lake, uri: 'sqlite:///x', warehouse: w}", "`catalog.name` must be letters a–z"),
        ("{name: lake, uri: 'sqlite:///x'}", "the key `catalog.warehouse` is missing"),
        ("{name: lake, uri: 'sqlite:///x', warehouse: w, ledger: {}}", "`catalog.ledger` isn't supported yet"),
        ("{name: lake, uri: 'sqlite:///x', warehouse: w, s3: {a: b}}", "`catalog.s3` must be text, a number"),
        ("{name: lake, uri: [x], warehouse: w}", "`catalog.uri` must be text, not a list"),
        ("{name: lake, uri: ' ', warehouse: w}", "`catalog.uri` can't be empty"),
        ("[lake]", "`catalog` must be a mapping of `key: value`, not a list"),
    ],
)
def test_a_wrong_catalog_is_told_in_words(root: Path, catalog: str, message: str) -> None:
    assert problem(root, f"name: shop\ncatalog: {catalog}\n").message.startswith(message)


@pytest.mark.parametrize("name", ["", "''", "' '", "5", "[a]", "2025-01-01", '"a\\nb"'])
def test_a_project_has_a_name_of_one_line(root: Path, name: str) -> None:
    assert "name" in problem(root, f"name: {name}\n{CATALOG}").message


def test_all_problems_are_told_at_once_in_the_order_of_the_file(root: Path) -> None:
    found = problems(root, "nam: shop\n" + CATALOG + "timezone: Mars\nlimits: {slices: -1, byte: 3}\n")
    assert [p.line for p in found] == [1, 1, 3, 4, 4]


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a\n", "just text\n", "5\n"])
def test_a_file_that_is_no_mapping_is_refused(root: Path, text: str) -> None:
    assert problem(root, text).message.startswith("the document must be a mapping of `key: value`, not ")


def test_malformed_yaml_is_refused_with_its_line(root: Path) -> None:
    assert problem(root, "name: shop\ncatalog: {name: lake\n").line == 3


def test_windows_line_ends_and_a_byte_order_mark_are_fine(root: Path) -> None:
    (root / "retcon.yaml").write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert read(root).name == "shop"


def test_a_huge_file_is_refused_before_it_is_read(root: Path) -> None:
    (root / "retcon.yaml").write_bytes(b"a: 1\n" * 300_000)
    with pytest.raises(ProjectInvalid, match="larger than 1 MB"):
        read(root)


def test_a_file_that_is_not_utf8_is_refused_with_its_line(root: Path) -> None:
    (root / "retcon.yaml").write_bytes(b"name: shop\nx: \xff\xfe\n")
    with pytest.raises(ProjectInvalid) as caught:
        read(root)
    assert caught.value.problems[0].line == 2
    assert "UTF-8" in caught.value.problems[0].message


def test_without_a_file_the_way_out_is_named(root: Path) -> None:
    with pytest.raises(Refused) as caught:
        read(root)
    assert caught.value.next.startswith("run `retcon init DIR`, or pass --project")


FOREIGN = """\
sources:
  raw.files: {format: csv, path: data/x, columns: {a: int, b: date}, options: {sep: ";", header: true}}
  raw.away: {format: parquet, path: "s3a://bucket/x"}
  raw.here: {format: orc, path: "file:///data/x"}
  raw.base: {format: jdbc, options: {url: "jdbc:x?p=${PW}&q=1", dbtable: t, password: "${PW}"}}
"""


def test_sources_that_arent_iceberg_are_read_with_their_paths_resolved_and_their_secrets_known(root: Path) -> None:
    settings = load(root, MINIMAL + FOREIGN, {"PW": "hush-hush"})
    files, away, here, base = (settings.foreign[f"raw.{name}"] for name in ("files", "away", "here", "base"))
    assert (files.path, files.local_path) == (f"{root}/data/x", f"{root}/data/x")
    assert files.columns == (("a", "int"), ("b", "date"))
    assert files.options == {"sep": ";", "header": "true"}
    assert (away.path, away.local_path) == ("s3a://bucket/x", None)
    assert here.local_path == "/data/x"
    assert base.options["password"] == "hush-hush"
    assert base.secrets == {"hush-hush", "jdbc:x?p=hush-hush&q=1"}
    assert "hush-hush" not in repr(settings)


def test_a_new_password_is_the_same_settings_and_another_path_is_not(root: Path) -> None:
    def made(text: str, password: str) -> str:
        return load(root, MINIMAL + text, {"PW": password}).fingerprint

    assert made(FOREIGN, "a") == made(FOREIGN, "b")
    for old, new in (("data/x", "data/y"), ("b: date", "b: string"), ('sep: ";"', 'sep: ","'), ("orc", "parquet")):
        assert made(FOREIGN, "a") != made(FOREIGN.replace(old, new), "a")


def test_the_nearest_format_is_named(root: Path) -> None:
    found = problem(root, MINIMAL + "sources: {raw.x: {format: parqet, path: x}}\n")
    assert found.remedy == "did you mean parquet?"


def test_the_conf_is_recorded_as_written_and_without_what_looks_like_a_secret(root: Path) -> None:
    text = (
        MINIMAL
        + """spark:
  conf:
    spark.sql.shuffle.partitions: 8
    spark.shop.door: "${DOOR}"
    spark.hadoop.fs.s3a.secret.key: abc
    spark.hadoop.fs.s3a.access.key: abc
    spark.hadoop.fs.azure.account.key.x: abc
    spark.driver.extraJavaOptions: -Dtrust.password=abc
    spark.shop.proxy: http://ann:abc@proxy:80
    spark.shop.page: http://proxy:80/a@b
"""
    )
    spark = load(root, text, {"DOOR": "open"}).spark
    assert spark.conf["spark.shop.door"] == "open"
    assert spark.recordable == {
        "spark.sql.shuffle.partitions": "8",
        "spark.shop.door": "${DOOR}",
        "spark.hadoop.fs.s3a.secret.key": "(hidden)",
        "spark.hadoop.fs.s3a.access.key": "(hidden)",
        "spark.hadoop.fs.azure.account.key.x": "(hidden)",
        "spark.driver.extraJavaOptions": "(hidden)",
        "spark.shop.proxy": "(hidden)",
        "spark.shop.page": "http://proxy:80/a@b",
    }


def test_a_parameter_whose_variable_isnt_set_is_named(root: Path) -> None:
    found = problem(root, MINIMAL + 'params: {fx_source: "${FX_SOURCE}"}\n')
    assert found.message == "`params.fx_source` needs the environment variable FX_SOURCE, which isn't set"


def test_a_rest_catalog_has_a_ledger_of_its_own_and_its_warehouse_is_whatever_the_server_calls_it(root: Path) -> None:
    text = """\
name: shop
catalog: {name: lake, type: rest, uri: "https://h/api", warehouse: demo, token: "${T}", s3.endpoint: "http://s3"}
ledger: {uri: "postgresql://ada:${P}@h/ledger"}
"""
    settings = load(root, text, {"T": "tell nobody", "P": "secret"})
    assert (settings.catalog.is_rest, settings.catalog.is_on_s3) == (True, True)
    assert (settings.catalog.uri, settings.catalog.warehouse) == ("https://h/api", "demo")
    assert settings.ledger_uri == "postgresql://ada:secret@h/ledger"
    assert "secret" not in repr(settings)
    assert "tell nobody" not in repr(settings)


@pytest.mark.parametrize("uri", ["mysql://u@h/d", "sqlite://", "sqlite:///:memory:"])
def test_the_ledger_of_a_rest_catalog_is_in_sqlite_or_postgresql(root: Path, uri: str) -> None:
    text = f"name: shop\ncatalog: {{name: lake, type: rest, uri: 'http://h', warehouse: w}}\nledger: {{uri: '{uri}'}}\n"
    assert problem(root, text).message.startswith("`ledger.uri` must")


@pytest.mark.parametrize("uri", ["sqlite:///x", "http://ada:secret@h", "h:8181", "http://[h"])
def test_a_rest_catalog_is_the_address_of_a_server_without_a_password(root: Path, uri: str) -> None:
    text = (
        f"name: shop\ncatalog: {{name: lake, type: rest, uri: '{uri}', warehouse: w}}\nledger: {{uri: 'sqlite:///x'}}\n"
    )
    found = problem(root, text)
    assert found.message.startswith("`catalog.uri` must be the address of a REST catalog")
    assert "secret" not in found.message
