"""How the ledger became what it is, one file a revision."""
