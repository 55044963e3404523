"""Files of this machine, as pyiceberg asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.io import load_file_io

from retcon.lakehouse.local_files import NAME, PROPERTY, LocalFiles


@pytest.mark.parametrize("name", ["plain.avro", "a shöp.avro", "50%20.avro", "a#b?c.avro"])
@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_file_is_read_and_written_under_the_very_name_that_iceberg_says(
    tmp_path: Path, prefix: str, name: str
) -> None:
    files = load_file_io({PROPERTY: NAME})
    assert isinstance(files, LocalFiles)
    path = tmp_path / "a folder" / name
    location = f"{prefix}{path}"
    assert not files.new_input(location).exists()
    with files.new_output(location).create() as stream:
        stream.write(b"rows")
    assert path.read_bytes() == b"rows"
    found = files.new_input(location)
    assert (found.exists(), len(found), found.location) == (True, 4, location)
    with found.open() as read:
        assert (read.read(2), read.read()) == (b"ro", b"ws")
    with pytest.raises(FileExistsError):
        files.new_output(location).create()
    with files.new_output(location).create(overwrite=True) as stream:
        stream.write(b"other")
    assert len(files.new_output(location)) == 5
    files.delete(found)
    assert not path.exists()
    with pytest.raises(FileNotFoundError):
        files.delete(location)
    with pytest.raises(FileNotFoundError):
        found.open()


def test_what_is_elsewhere_is_left_to_pyiceberg(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[dict[str, str], str]] = []

    class Others:
        def __init__(self, properties: dict[str, str], location: str) -> None:
            asked.append((properties, location))

        def new_input(self, location: str) -> str:
            return f"the one at {location}"

    monkeypatch.setattr("retcon.lakehouse.local_files.load_file_io", Others)
    files = LocalFiles({PROPERTY: NAME, "s3.region": "x"})
    assert str(files.new_input("s3://bucket/key")) == "the one at s3://bucket/key"
    assert asked == [({"s3.region": "x"}, "s3://bucket/key")]
