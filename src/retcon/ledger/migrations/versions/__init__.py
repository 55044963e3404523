"""The revisions, oldest first. A revision is never edited, and imports nothing of the tables as they are today."""
