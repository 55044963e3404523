"""Hadoop's files on this machine, without a `chmod` for each, and with no more settings than were set.

It starts a process for the permissions of every file and folder that it makes, and beside each file writes one with
its checksums: a hundred or two a test. Its defaults are more than a thousand settings, and Iceberg sends all of them
along with each scan: without them, the code that asks has the same defaults. Tests need none of it; processes that
they start have it all, as users do.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

_JAVA = """
public class FilesAsTheyAre extends org.apache.hadoop.fs.RawLocalFileSystem {
    public void setPermission(org.apache.hadoop.fs.Path path, org.apache.hadoop.fs.permission.FsPermission mode) {}
}
"""


def spare_processes(session: SparkSession) -> None:
    """From now on, in the JVM of this session."""
    context = session.sparkContext
    jvm, new_array = context._jvm, context._gateway.new_array
    assert jvm is not None
    # Spark compiles its queries with it, so it is there.
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
    compiler.cook(_JAVA)
    made = compiler.getClassLoader().loadClass("FilesAsTheyAre")
    raw = made.getDeclaredConstructor(new_array(jvm.Class, 0)).newInstance(new_array(jvm.Object, 0))
    files = jvm.org.apache.hadoop.fs.LocalFileSystem(raw)
    place, conf = jvm.java.net.URI("file:///"), context._jsc.hadoopConfiguration()
    # When this class is loaded, it brings in defaults of its own, and all of them are read again.
    jvm.Class.forName("org.apache.hadoop.mapred.JobConf")
    conf.clear()
    files.initialize(place, conf)
    files.setWriteChecksum(False)
    files.setVerifyChecksum(False)
    parts = [jvm.java.net.URI, jvm.org.apache.hadoop.conf.Configuration, jvm.org.apache.hadoop.fs.FileSystem]
    kinds = new_array(jvm.Class, len(parts))
    for at, part in enumerate(parts):
        kinds[at] = jvm.Class.forName(part._fqn)
    given = new_array(jvm.Object, len(parts))
    given[0], given[1], given[2] = place, conf, files
    keep = jvm.Class.forName("org.apache.hadoop.fs.FileSystem").getDeclaredMethod("addFileSystemForTesting", kinds)
    keep.setAccessible(True)
    keep.invoke(None, given)
