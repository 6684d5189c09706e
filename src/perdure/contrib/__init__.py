"""Perdure inside of other frameworks: a module for each, and none of them is loaded unless you import it."""
