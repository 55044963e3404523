"""The files of a scan, all of them at once, inside the JVM: to ask Java for each takes longer than all the rest."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from retcon.lakehouse.java_classes import java_class

_TASK = "org.apache.iceberg.FileScanTask"
_FILE, _DATA = "org.apache.iceberg.ContentFile", "org.apache.iceberg.DataFile"
_OPENED, _OVERWRITE = "org.apache.iceberg.io.InputFile", "org.apache.iceberg.OverwriteFiles"
_TEXT, _ANY = "java.lang.String", "java.lang.Object"
_PRIMITIVES = {"int": "java.lang.Integer", "boolean": "java.lang.Boolean"}
_AT_ONCE = 16
"""Questions to the storage, which for object storage are requests."""


class ScannedFiles:
    """What a scan would read."""

    def __init__(self, scan: Any, java: JavaMethods) -> None:
        self._java = java
        tasks = scan.planFiles()
        try:
            self._tasks = java.listed(tasks)
        finally:
            tasks.close()

    def __len__(self) -> int:
        return int(self._tasks.size())

    def have_deletes(self) -> bool:
        """Is there a delete file to be applied to any of them?"""
        return bool(self._tasks.stream().mapToInt(self._java.files_of_task).sum() != len(self))

    def missing(self, io: Any) -> list[str]:
        """The paths at which there is nothing."""
        paths = self._tasks.parallelStream().map(self._java.path_of_task)
        told = self._java.collected(paths, self._java.is_there(io))
        # What a pool's own thread begins is done by the threads of that pool.
        pool = self._java.pool(_AT_ONCE)
        try:
            gone = pool.submit(told).get().get(False)
            # Not by Java's iterator: its end is an exception, and to tell Python which one takes eighty questions.
            return [str(gone.get(at)) for at in range(len(gone))]
        finally:
            pool.shutdown()

    def add_to(self, overwrite: Any) -> None:
        """Put each into a commit that is being made."""
        self._tasks.forEach(self._java.adding_to(overwrite))


class JavaMethods:
    """Java's methods as values: each is looked up once, however many tables are published."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def listed(self, tasks: Any) -> Any:
        """What an iterable gives, as a list."""
        return java_class(self._spark, "org.apache.iceberg.relocated.com.google.common.collect.Lists").newArrayList(
            tasks
        )

    def pool(self, threads: int) -> Any:
        """Threads of its own."""
        return java_class(self._spark, "java.util.concurrent.ForkJoinPool")(threads)

    @cached_property
    def files_of_task(self) -> Any:
        """How many files a task opens: its own, and those that tell what was deleted from it."""
        return self._function("ToIntFunction", self._method(_TASK, "filesCount", "int"))

    @cached_property
    def path_of_task(self) -> Any:
        """Where a task's file is."""
        return self._function("Function", self._then(self._file_of_task, self._method(_FILE, "location", _TEXT)))

    def is_there(self, io: Any) -> Any:
        """Is there something at a path?"""
        return self._function("Predicate", self._then(self._opened.bindTo(io), self._exists))

    def collected(self, stream: Any, predicate: Any) -> Any:
        """To be called: what the stream gives, by what the predicate says of it."""
        by_answer = java_class(self._spark, "java.util.stream.Collectors").partitioningBy(predicate)
        return self._function("Callable", self._collect.bindTo(stream).bindTo(by_answer))

    def adding_to(self, overwrite: Any) -> Any:
        """Puts a task's file into a commit."""
        return self._function("Consumer", self._then(self._data_file_of_task, self._add_file.bindTo(overwrite)))

    @cached_property
    def _file_of_task(self) -> Any:
        return self._method(_TASK, "file", _FILE)

    @cached_property
    def _data_file_of_task(self) -> Any:
        return self._file_of_task.asType(self._file_of_task.type().changeReturnType(self._class(_DATA)))

    @cached_property
    def _opened(self) -> Any:
        return self._method("org.apache.iceberg.io.FileIO", "newInputFile", _OPENED, _TEXT)

    @cached_property
    def _exists(self) -> Any:
        return self._method(_OPENED, "exists", "boolean")

    @cached_property
    def _collect(self) -> Any:
        return self._method("java.util.stream.Stream", "collect", _ANY, "java.util.stream.Collector")

    @cached_property
    def _add_file(self) -> Any:
        return self._method(_OVERWRITE, "addFile", _OVERWRITE, _DATA)

    @cached_property
    def _loader(self) -> Any:
        # Jars that Spark was given for its executors are known to this loader only.
        return java_class(self._spark, "java.lang.Thread").currentThread().getContextClassLoader()

    @cached_property
    def _handles(self) -> Any:
        return java_class(self._spark, "java.lang.invoke.MethodHandles")

    def _class(self, name: str) -> Any:
        if name in _PRIMITIVES:
            return java_class(self._spark, _PRIMITIVES[name]).TYPE
        return self._loader.loadClass(name)

    def _method(self, owner: str, name: str, returns: str, *takes: str) -> Any:
        types = java_class(self._spark, "java.lang.invoke.MethodType")
        kind = types.methodType(*map(self._class, (returns, *takes)))
        return self._handles.publicLookup().findVirtual(self._class(owner), name, kind)

    def _then(self, first: Any, second: Any) -> Any:
        return self._handles.filterReturnValue(first, second)

    def _function(self, interface: str, method: Any) -> Any:
        package = "java.util.concurrent" if interface == "Callable" else "java.util.function"
        proxies = java_class(self._spark, "java.lang.invoke.MethodHandleProxies")
        return proxies.asInterfaceInstance(self._class(f"{package}.{interface}"), method)
