"""Where the keys of a plan come from, and where they are kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from retcon.core.keys import MOST_INLINE, keys_file
from retcon.core.limits import Limits
from retcon.errors import BadArguments, Refused
from retcon.project.key_files import gathered, keep_keys, kept_keys, require_keys, values_in
from tests.core.test_plans import a_plan

ODD = ['O\'B, "x"', "two\nlines", "東京 🙂", " ", "{}"]


def test_few_keys_are_listed_once_each_and_many_are_kept_in_a_file_whatever_they_are(tmp_path: Path) -> None:
    few = gathered("id", ["1", "2", "1"], Limits(keys=10))
    assert (few.keys.values, few.keys.count, few.spool) == (("1", "2"), 2, None)
    often = gathered("id", ["1", "2", "3"] * MOST_INLINE, Limits(keys=10))
    assert (often.keys.values, often.keys.count, often.spool) == (("1", "2", "3"), 3, None)
    texts = [*ODD, *(str(n) for n in range(MOST_INLINE))]
    many = gathered("id", iter(texts), Limits(keys=10_000))
    assert many.spool is not None
    assert not many.keys.values
    plan = replace(a_plan(), keys=many.keys)
    keep_keys(many.spool, plan, tmp_path)
    many.drop()
    assert not many.spool.exists()
    require_keys(plan, tmp_path)
    assert list(kept_keys(plan.id, tmp_path)) == texts
    path = tmp_path / keys_file(plan.id)
    path.write_text(path.read_text() + json.dumps({"k": "one more"}) + "\n")
    with pytest.raises(Refused, match="isn't what was reviewed"):
        require_keys(plan, tmp_path)
    path.unlink()
    with pytest.raises(Refused, match="can't be read"):
        require_keys(plan, tmp_path)


def test_no_keys_a_null_and_too_many_are_refused() -> None:
    with pytest.raises(BadArguments, match="holds no keys"):
        gathered("id", [], Limits(keys=10))
    with pytest.raises(BadArguments, match="holds a NULL"):
        gathered("id", ["1", None], Limits(keys=10))
    with pytest.raises(Refused, match="at most 300 allowed"):
        gathered("id", (str(n) for n in range(1000)), Limits(keys=300))


def test_a_csv_file_has_one_column_with_the_name_that_models_carry(tmp_path: Path) -> None:
    path = tmp_path / "keys.csv"
    path.write_text('customer_id\n17\n"a,b"\n\n')
    column, values = values_in(path)
    assert (column, list(values)) == ("customer_id", ["17", "a,b"])
    path.write_text("id,name\n1,x\n")
    with pytest.raises(BadArguments, match="has the columns id, name"):
        values_in(path)
    with pytest.raises(BadArguments, match="can't be read"):
        values_in(tmp_path / "none.csv")
