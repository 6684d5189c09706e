"""Steps that work in a transaction of your own database, whose outcome is written there too: exactly once.

A source is made of a database and given to steps as ``@step(transactional=…)``. Inside the step's body its
``connection()`` is that of the transaction, which Perdure begins before the body and commits after it, with a row in
``perdure_steps`` that says what the step returned. Importing this loads neither psycopg nor SQLAlchemy.
"""

from __future__ import annotations

from perdure.transactional.alchemy import AsyncSQLAlchemy, SQLAlchemy
from perdure.transactional.files import Apsw, SQLite
from perdure.transactional.psycopg3 import AsyncPsycopg, Psycopg

__all__ = ["Apsw", "AsyncPsycopg", "AsyncSQLAlchemy", "Psycopg", "SQLAlchemy", "SQLite"]
