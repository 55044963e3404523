"""The command line: parses arguments, calls the flow, prints what comes back."""
