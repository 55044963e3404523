"""Files on this machine for pyiceberg, without pyarrow: loading that takes longer than most commands do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream, load_file_io

from retcon.lakehouse.paths import local_path

PROPERTY, NAME = "py-io-impl", "retcon.lakehouse.local_files.LocalFiles"


class _LocalFile(InputFile, OutputFile):
    """A file by its path."""

    def __init__(self, location: str, path: str) -> None:
        super().__init__(location)
        self._path = path

    def __len__(self) -> int:
        return os.stat(self._path).st_size

    def exists(self) -> bool:
        return os.path.isfile(self._path)

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002 # every file of this machine is
        return cast(InputStream, open(self._path, "rb"))

    def create(self, overwrite: bool = False) -> OutputStream:
        Path(self._path).parent.mkdir(parents=True, exist_ok=True)
        return cast(OutputStream, open(self._path, "wb" if overwrite else "xb"))

    def to_input_file(self) -> InputFile:
        return self


class LocalFiles(FileIO):
    """Local paths by Python's own means; whatever else a table's files are on, by pyiceberg's."""

    def new_input(self, location: str) -> InputFile:
        path = local_path(location)
        return self._other(location).new_input(location) if path is None else _LocalFile(location, path)

    def new_output(self, location: str) -> OutputFile:
        path = local_path(location)
        return self._other(location).new_output(location) if path is None else _LocalFile(location, path)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        name = location if isinstance(location, str) else location.location
        path = local_path(name)
        if path is None:
            self._other(name).delete(name)
        else:
            os.remove(path)

    def _other(self, location: str) -> FileIO:
        return load_file_io({key: value for key, value in self.properties.items() if key != PROPERTY}, location)
