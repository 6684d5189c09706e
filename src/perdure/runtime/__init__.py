"""Executing runs: the little loop, one executing run, the journal, the worker."""
