"""The SQLite store, on apsw."""
