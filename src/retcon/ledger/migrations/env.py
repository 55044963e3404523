"""What Alembic runs for every command: the connection, and its transaction, are those of `retcon.ledger.migrate`."""

from alembic import context

from retcon.ledger.revisions import VERSION_TABLE
from retcon.ledger.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table=VERSION_TABLE
)
with context.begin_transaction():
    context.run_migrations()
