"""The files of a scan, all of them at once, inside the JVM: to ask Java for each takes longer than all the rest."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

_TASK = "org.apache.iceberg.FileScanTask"
_FILE, _DATA = "org.apache.iceberg.ContentFile", "org.apache.iceberg.DataFile"
_OPENED = "org.apache.iceberg.io.InputFile"
_TEXT, _ANY = "java.lang.String", "java.lang.Object"
_PRIMITIVES = {"int": "Integer", "boolean": "Boolean"}
_AT_ONCE = 16
"""Questions to the storage, which for object storage are requests."""


class ScannedFiles:
    """What a scan would read."""

    def __init__(self, spark: SparkSession, scan: Any) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        tasks = scan.planFiles()
        try:
            self._tasks = jvm.org.apache.iceberg.relocated.com.google.common.collect.Lists.newArrayList(tasks)
        finally:
            tasks.close()

    def __len__(self) -> int:
        return int(self._tasks.size())

    def have_deletes(self) -> bool:
        """Is there a delete file to be applied to any of them?"""
        files = self._function("ToIntFunction", self._method(_TASK, "filesCount", "int"))
        return bool(self._tasks.stream().mapToInt(files).sum() != len(self))

    def missing(self, io: Any) -> list[str]:
        """The paths at which there is nothing."""
        location = self._then(self._method(_TASK, "file", _FILE), self._method(_FILE, "location", _TEXT))
        opened = self._method("org.apache.iceberg.io.FileIO", "newInputFile", _OPENED, _TEXT).bindTo(io)
        is_there = self._function("Predicate", self._then(opened, self._method(_OPENED, "exists", "boolean")))
        paths = self._tasks.parallelStream().map(self._function("Function", location))
        collect = self._method("java.util.stream.Stream", "collect", _ANY, "java.util.stream.Collector").bindTo(paths)
        told = collect.bindTo(self._jvm.java.util.stream.Collectors.partitioningBy(is_there))
        # What a pool's own thread begins is done by the threads of that pool.
        pool = self._jvm.java.util.concurrent.ForkJoinPool(_AT_ONCE)
        try:
            return [str(path) for path in pool.submit(self._function("Callable", told)).get().get(False)]
        finally:
            pool.shutdown()

    def add_to(self, overwrite: Any) -> None:
        """Put each into a commit that is being made."""
        added = self._method("org.apache.iceberg.OverwriteFiles", "addFile", "org.apache.iceberg.OverwriteFiles", _DATA)
        file = self._method(_TASK, "file", _FILE)
        file = file.asType(file.type().changeReturnType(self._class(_DATA)))
        self._tasks.forEach(self._function("Consumer", self._then(file, added.bindTo(overwrite))))

    # ── Java's methods as values ─────────────────────────────────────────────────────────────────────────────────

    def _class(self, name: str) -> Any:
        if name in _PRIMITIVES:
            return getattr(self._jvm.java.lang, _PRIMITIVES[name]).TYPE
        # Jars that Spark was given for its executors are known to this loader only.
        return self._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)

    def _method(self, owner: str, name: str, returns: str, *takes: str) -> Any:
        kind = self._jvm.java.lang.invoke.MethodType.methodType(*map(self._class, (returns, *takes)))
        return self._jvm.java.lang.invoke.MethodHandles.publicLookup().findVirtual(self._class(owner), name, kind)

    def _then(self, first: Any, second: Any) -> Any:
        return self._jvm.java.lang.invoke.MethodHandles.filterReturnValue(first, second)

    def _function(self, interface: str, method: Any) -> Any:
        package = "java.util.concurrent" if interface == "Callable" else "java.util.function"
        proxies = self._jvm.java.lang.invoke.MethodHandleProxies
        return proxies.asInterfaceInstance(self._class(f"{package}.{interface}"), method)
