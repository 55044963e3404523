"""The only place that knows Spark and Iceberg."""
