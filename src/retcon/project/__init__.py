"""From text to values: `retcon.yaml`, model files, plan files."""
