"""The same work by other tools, each in an environment of its own."""
