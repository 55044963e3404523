"""Python models, read without running them: what they declare, import and may not do. Only `importing` runs them."""
