"""Java's classes by their names."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession


def java_class(spark: SparkSession, name: str) -> Any:
    """A class of the JVM. As `spark._jvm.org.…` each part of its name would be a question to the JVM, every time."""
    jvm: Any = spark._jvm
    return JavaClass(name, jvm._gateway_client)
