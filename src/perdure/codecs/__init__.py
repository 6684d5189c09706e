"""What stored payloads go through: compression and encryption; give them to an engine with ``codecs=``.

``pip install 'perdure[codecs]'`` brings the libraries that these two use. A codec of your own is any object with a
``name``, ``encode`` and ``decode``: see ``Codec``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.codecs.compression import Zstandard
from perdure.codecs.encryption import Encryption, Keyring, MasterKey, Rotation, new_key
from perdure.errors import DefinitionError
from perdure.model.coding import Codec
from perdure.model.ids import valid_codec_name

if TYPE_CHECKING:
    from collections.abc import Iterable


def known(name: str) -> Codec | None:
    """Return a codec that needs nothing of the user's to be read, by name; None if there is none, or not here."""
    if name != Zstandard.name:
        return None
    try:
        return Zstandard()
    except DefinitionError:
        return None


def check_codecs(codecs: Iterable[Codec]) -> tuple[Codec, ...]:
    """Return codecs as given.

    Raises:
        DefinitionError: one is none, or two have the same name.
    """
    found = tuple(codecs)
    for codec in found:
        if isinstance(codec, type) or not all(callable(getattr(codec, verb, None)) for verb in ("encode", "decode")):
            raise DefinitionError(
                f"{codec!r:.80} is no codec",
                advice="give an object with a name, encode and decode: Zstandard()",
            )
        valid_codec_name(codec.name)
    names = [codec.name for codec in found]
    if len(set(names)) < len(names):
        raise DefinitionError(f"two codecs have the same name: {', '.join(names)}")
    return found


__all__ = ["Codec", "Encryption", "Keyring", "MasterKey", "Rotation", "Zstandard", "check_codecs", "known", "new_key"]
