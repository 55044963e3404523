"""Which slices a data file may hold rows of, as Iceberg's metadata tells."""

from __future__ import annotations

from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    YearTransform,
)
from pyiceberg.types import DateType, NestedField, TimestampType, TimestamptzType

from retcon.core.slices import Buckets, Cut, Grain, Whole
from retcon.core.tables import NO_SLICE, TableFile

_MICROSECONDS_AN_HOUR = 3_600_000_000
_WIDEST = 1_000_000
"""A file that spans more slices than this (a sentinel such as 9999-12-31 among hours) counts as unbounded."""
_CUTS: list[tuple[type[Transform[Any, Any]], Grain]] = [
    (HourTransform, Grain.HOUR),
    (DayTransform, Grain.DAY),
    (MonthTransform, Grain.MONTH),
    (YearTransform, Grain.YEAR),
]


class Spans:
    """Which slices a file may hold rows of: by its partition, and by the bounds of its time column, in hours."""

    def __init__(self, table: Table, time: str | None, cut: Cut) -> None:
        schema = table.schema()
        self._cut = cut
        self._specs = table.specs()
        self._field: NestedField | None = None
        if time is not None:
            self._field = next((f for f in schema.fields if f.name.lower() == time.lower()), None)
        self._by_partition: dict[tuple[Any, ...], tuple[int, int] | None] = {}
        """The one slice of each partition that lies in one."""

    @property
    def key(self) -> tuple[int | None, Cut]:
        """What the slices of a file depend on besides the file."""
        return None if self._field is None else self._field.field_id, self._cut

    def file(self, file: DataFile) -> TableFile:
        first, last = self._slices(file)
        return TableFile(
            path=file.file_path,
            rows=file.record_count,
            bytes=file.file_size_in_bytes,
            first=first,
            last=last,
            is_delete=file.content != DataFileContent.DATA,
        )

    def null_rows(self, file: DataFile) -> int:
        if self._field is None or file.content != DataFileContent.DATA or self._within_one(file) is not None:
            return 0
        spec = self._specs[file.spec_id]
        cut = self._cut
        by_partition = self._bucket(file, cut) if isinstance(cut, Buckets) else self._partition_hours(file, spec)
        in_null_partition = by_partition == NO_SLICE
        return int((file.null_value_counts or {}).get(self._field.field_id, file.record_count * in_null_partition))

    def _slices(self, file: DataFile) -> tuple[int | None, int | None]:
        if isinstance(self._cut, Whole):
            return 0, 0
        if isinstance(self._cut, Buckets):
            return self._bucket(file, self._cut)
        one = self._within_one(file)
        if one is not None:
            return one
        hours = self._hours(file)
        if hours is None or hours == NO_SLICE:
            return hours or (None, None)
        first, last = (self._cut.holding(hour) for hour in hours)
        return (first, last) if last - first < _WIDEST else (None, None)

    def _within_one(self, file: DataFile) -> tuple[int, int] | None:
        """The slice that holds the file's whole partition: bounds can't tell more, and no row is without a time."""
        if self._field is None or not isinstance(self._cut, Grain):
            return None
        partition = file.partition
        key = (file.spec_id, *(partition[at] for at in range(len(partition))))
        if key not in self._by_partition:
            hours = self._partition_hours(file, self._specs[file.spec_id])
            slices = {self._cut.holding(hour) for hour in hours} if hours is not None and hours != NO_SLICE else set()
            only = slices.pop() if len(slices) == 1 else None
            self._by_partition[key] = None if only is None else (only, only)
        return self._by_partition[key]

    def _bucket(self, file: DataFile, cut: Buckets) -> tuple[int | None, int | None]:
        """By the partition alone: bounds of a column tell nothing of its hashes."""
        for position, field in enumerate(self._specs[file.spec_id].fields):
            is_by_key = self._field is not None and field.source_id == self._field.field_id
            if is_by_key and isinstance(field.transform, BucketTransform) and field.transform.num_buckets == cut.number:
                value = file.partition[position]
                return NO_SLICE if value is None else (value, value)
        return None, None

    def _hours(self, file: DataFile) -> tuple[int, int] | None:
        if self._field is None:
            return None
        by_partition = self._partition_hours(file, self._specs[file.spec_id])
        # Bounds of a delete file are those of its own columns, not of the rows it deletes.
        if by_partition == NO_SLICE or file.content != DataFileContent.DATA:
            return by_partition
        if file.record_count and self.null_rows(file) == file.record_count:
            return NO_SLICE
        low = self._bound_hours((file.lower_bounds or {}).get(self._field.field_id))
        high = self._bound_hours((file.upper_bounds or {}).get(self._field.field_id))
        if low is None or high is None:
            return by_partition
        return _within((low[0], high[1]), by_partition)

    def _partition_hours(self, file: DataFile, spec: PartitionSpec) -> tuple[int, int] | None:
        assert self._field is not None
        found: tuple[int, int] | None = None
        for position, field in enumerate(spec.fields):
            if field.source_id != self._field.field_id:
                continue
            value = file.partition[position]
            hours = self._value_hours(field.transform, value)
            if hours is not None and value is None:
                # Rows without a time have a partition of their own.
                return NO_SLICE
            found = hours if found is None else _within(found, hours)
        return found

    def _value_hours(self, transform: Transform[Any, Any], value: Any) -> tuple[int, int] | None:
        """The hours of a partition; None where it isn't cut by time."""
        if isinstance(transform, IdentityTransform):
            return self._moment_hours(value or 0)
        grain = next((grain for kind, grain in _CUTS if isinstance(transform, kind)), None)
        if grain is None:
            return None
        ordinal = 0 if value is None else int(value)
        return grain.first_hour(ordinal), grain.first_hour(ordinal + 1) - 1

    def _bound_hours(self, bound: bytes | None) -> tuple[int, int] | None:
        assert self._field is not None
        kind = self._field.field_type
        if bound is None or not isinstance(kind, DateType | TimestampType | TimestamptzType):
            return None
        return self._moment_hours(from_bytes(kind, bound))

    def _moment_hours(self, value: Any) -> tuple[int, int] | None:
        """The hours that a value of the time column may mean; None where the column tells no time."""
        assert self._field is not None
        match self._field.field_type:
            case DateType():
                return int(value) * 24, int(value) * 24 + 23
            case TimestampType() | TimestamptzType():
                hour = int(value) // _MICROSECONDS_AN_HOUR
                return hour, hour
            case _:
                return None


def _within(hours: tuple[int, int], others: tuple[int, int] | None) -> tuple[int, int]:
    """What both allow; where they don't meet, bounds were cut off when they were written, and the partition counts."""
    if others is None:
        return hours
    first, last = max(hours[0], others[0]), min(hours[1], others[1])
    return (first, last) if first <= last else others
