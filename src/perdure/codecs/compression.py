"""Compression: payloads above a size, where it makes them smaller."""

from __future__ import annotations

from threading import local
from typing import Any, Final

from perdure.errors import DefinitionError

LEVELS: Final = range(1, 23)


class Zstandard:
    """Compresses payloads that are larger than a size, if that makes them smaller; all others stay as they are.

    Place it before encryption: what is encrypted cannot be compressed.
    """

    name: str = "zstd"

    def __init__(self, *, above: int = 1024, level: int = 3) -> None:
        """Set it up.

        Args:
            above: payloads of up to so many bytes stay as they are.
            level: of Zstandard, from 1 (fast) to 22 (small).

        Raises:
            DefinitionError: an option is wrong, or the library is not installed.
        """
        if isinstance(above, bool) or not isinstance(above, int) or above < 0:
            raise DefinitionError(f"above is a number of bytes from 0, not {above!r:.80}")
        if isinstance(level, bool) or level not in LEVELS:
            raise DefinitionError(f"level is a whole number from 1 to 22, not {level!r:.80}")
        try:
            import zstandard
        except ImportError as error:
            raise DefinitionError(
                "compression needs the package zstandard", advice="pip install 'perdure[codecs]'"
            ) from error
        self._library: Any = zstandard
        self._above, self._level = above, level
        self._tools = local()  # neither compressors nor decompressors may be shared by threads

    def __repr__(self) -> str:
        return f"Zstandard(above={self._above}, level={self._level})"

    def encode(self, data: bytes, /) -> bytes | None:
        """Return the compressed bytes; None if they are few, or do not get fewer."""
        if len(data) <= self._above:
            return None
        tools = self._tools
        compressor: Any = getattr(tools, "compressor", None)
        if compressor is None:
            compressor = tools.compressor = self._library.ZstdCompressor(level=self._level, write_checksum=True)
        made: bytes = compressor.compress(data)
        return made if len(made) < len(data) else None

    def decode(self, data: bytes, /) -> bytes:
        """Return what was compressed."""
        tools = self._tools
        decompressor: Any = getattr(tools, "decompressor", None)
        if decompressor is None:
            decompressor = tools.decompressor = self._library.ZstdDecompressor()
        whole: bytes = decompressor.decompress(data)
        return whole


__all__ = ["Zstandard"]
