"""Texts for people, as every database takes them."""

from __future__ import annotations


def storable(text: str) -> str:
    """Return a text without lone surrogates and NUL, which databases refuse or cut off: they are spelt out in it."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


__all__ = ["storable"]
