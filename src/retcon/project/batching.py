"""May many slices be computed in one job? Judged by where each column of the query comes from.

The question is whether a slice comes out the same alone and among others. Every relation in the query is given the days
around a slice for which it is complete (`Span`): an input its lookback and lookahead, a join what both sides have
where its conditions hold them together, a grouping what its keys carry. The query is sliceable when its slice column
carries a span that holds the slice itself. Whatever isn't proven becomes a reason, and runs slice by slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from sqlglot import exp

from retcon.core.models import Slicing
from retcon.project.columns import nothing_known, output_name, output_names, projections, source_alias, source_names
from retcon.project.columns import common_table_names
from retcon.project.comparisons import SLICE_PARAMETERS, Stated, equated, stated_bounds, whole_days
from retcon.project.functions import function_name, is_aggregate, window_clauses
from retcon.project.joins import Leaf, Pair, Tree, join_tree, leaves
from retcon.project.references import Readings, common_table, named_tables
from retcon.project.relations import JoinKind, Objection, Relation, Rows, Scope, Source, folded, joined, narrowed
from retcon.project.spans import NOWHERE, Bound, Field, Gaps, SliceBound, Span
from retcon.project.statements import SqlProblem, Statement
