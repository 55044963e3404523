"""Report values as rich renderables: nothing here prints or asks."""
