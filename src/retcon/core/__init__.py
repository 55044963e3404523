"""Values and decisions: standard library only, no clock, no files, no Spark."""
