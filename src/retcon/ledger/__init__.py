"""retcon's own tables, in the catalog's database."""
