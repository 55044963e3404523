"""Reading a query without running it: what it names, what it returns, whether its slices are independent."""
