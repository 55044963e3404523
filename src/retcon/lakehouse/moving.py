"""Moving: in which slices of its table the keys are that a model computes."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from retcon.core.jobs import Job
from retcon.core.queries import quoted
from retcon.core.reads import Read
from retcon.core.slices import SliceSet
from retcon.errors import Refused
from retcon.lakehouse.predicates import slice_at, slice_key
from retcon.lakehouse.python_models import worker_error
from retcon.lakehouse.scoped_reads import ScopedReads, fitted, type_of
from retcon.lakehouse.sessions import root_cause
from retcon.lakehouse.staging import computed_by

_SLICE = "__retcon_slice"


class Moving:
    """Compares keys; nothing is written."""

    def __init__(self, reads: ScopedReads) -> None:
        self._reads = reads

    def homes(self, job: Job, there: Read) -> SliceSet:
        """The slices of what is there that hold keys which the job computes."""
        key, cut = list(job.model.key), job.slices.grain
        try:
            computed = computed_by(self._reads, job)
            rows = fitted(self._reads.frame(there), computed)
            slice = slice_key(there.by, type_of(rows, there.by) or "date", cut)
            held = rows.select(F.expr(slice).alias(_SLICE), *map(quoted, key))
            found = held.join(computed.select(*map(quoted, key)), key, "left_semi").select(_SLICE).distinct().collect()
        except (PySparkException, Py4JJavaError) as error:
            reason = worker_error(self._reads.code, str(error)) or root_cause(error)
            raise Refused(
                f"{job.model.path}: the keys of {job.slices.text} can't be computed: {reason}",
                state="no plan was written",
                next="mend the model, then plan again; `retcon render` shows what runs",
            ) from error
        return SliceSet.of(cut, (slice_at(cut, row[_SLICE]).ordinal for row in found))
