"""Encryption: AES-256-GCM under keys that are kept in the store, each encrypted by a master key that is not.

Two levels, so that the master key can be rotated at once however much is stored (envelope encryption): payloads are
encrypted by *data keys*, which the store holds, wrapped by the master key. A new master key wraps the data keys anew;
no payload, and no event of any log, is touched.

What is stored for a payload: the data key's id (8 bytes), a salt (16), a nonce (12), the ciphertext and its tag (16).
The key of a message is derived from the data key and the salt (HKDF-SHA256, RFC 5869). A salt is drawn by each process,
and drawn again after 2^32 messages, which is what NIST SP 800-38D allows under one key with random nonces.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections import OrderedDict
from hashlib import sha256
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from perdure.errors import CodecMissing, DefinitionError
from perdure.model.records import StoredKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NAME: Final = "aes"

_SIZE: Final = 32
_ID, _SALT, _NONCE = 8, 16, 12
_HEAD: Final = _ID + _SALT
_MESSAGES: Final = 1 << 32
"""Messages under one derived key."""
_REMEMBERED: Final = 1000
"""Derived keys that are kept for reading."""

GivenKey: TypeAlias = "str | bytes | MasterKey"


@runtime_checkable
class MasterKey(Protocol):
    """A key that encrypts data keys: a secret of yours, or one in a key management service."""

    name: str
    """Tells it from all others; stored beside what it has wrapped."""

    def wrap(self, key: bytes, key_id: bytes, /) -> bytes:
        """Return a data key (32 bytes) encrypted; ``key_id`` names it."""
        ...

    def unwrap(self, wrapped: bytes, key_id: bytes, /) -> bytes:
        """Return what was wrapped."""
        ...


class Keyring(Protocol):
    """Where wrapped data keys are kept: the store."""

    def read_keys(self) -> list[StoredKey]:
        """All keys, the oldest first."""
        ...

    def add_key(self, key: StoredKey, /) -> None:
        """Add a key; one that is there stays as it is."""
        ...

    def rewrap_key(self, old: StoredKey, new: StoredKey, /) -> bool:
        """Have a key encrypted by another master key; whether it was still as in ``old``, or is as in ``new``."""
        ...

    def now(self) -> int:
        """The clock, µs UTC."""
        ...


class Rotation(NamedTuple):
    """What a rotation has done.

    Attributes:
        rewrapped: data keys that the newest master key wraps now, and another one did before.
        already: data keys that it wrapped before.
        added: the id of the data key that is new, hexadecimal.
        master: the name of the newest master key.
    """

    rewrapped: int
    already: int
    added: str
    master: str


def new_key() -> str:
    """Return a new master key: 32 random bytes, as base64."""
    return b64encode(os.urandom(_SIZE)).decode("ascii")


class Encryption:
    """Encrypts payloads (AES-256-GCM) with keys that the store keeps, wrapped by a master key of yours.

    Names, keys, tags, queues, times and statuses are not encrypted; inputs, arguments, results, messages, errors,
    progress, emitted values and artifacts are.
    """

    name: str = NAME

    def __init__(self, keys: GivenKey | Sequence[GivenKey]) -> None:
        """Set it up.

        Args:
            keys: master keys, the newest first: 32 bytes each, or those as base64 or hexadecimal (``perdure keys new``
                makes one); or objects of yours (see ``MasterKey``). What the others have wrapped stays readable.

        Raises:
            DefinitionError: a key is none, or the library is not installed.
        """
        given = [keys] if isinstance(keys, (str, bytes, MasterKey)) else list(keys)
        if not given:
            raise DefinitionError("encryption needs a key", advice="`perdure keys new` makes one")
        self._masters = [key if isinstance(key, MasterKey) else _SecretKey(_secret(key)) for key in given]

    def __repr__(self) -> str:
        return f"Encryption({', '.join(master.name for master in self._masters)})"

    def bound(self, keyring: Keyring, /) -> BoundEncryption:
        """Return the codec for one store. Reads nothing yet."""
        return BoundEncryption(self._masters, keyring)

    def encode(self, data: bytes, /) -> bytes | None:
        """Never used: the codec of a store is ``bound`` to its keys."""
        raise NotImplementedError(len(data))

    def decode(self, data: bytes, /) -> bytes:
        """Never used: the codec of a store is ``bound`` to its keys."""
        raise NotImplementedError(len(data))

    def rotate(self, keyring: Keyring, /) -> Rotation:
        """Have the newest master key wrap every data key, and add a data key for what is written from now on.

        May be interrupted and done again. Once it is done, and every process that uses the store has the newest key,
        the others are needed no more.

        Raises:
            CodecMissing: a data key is wrapped by a master key that is not given; nothing was changed.
        """
        newest, rewrapped, before = self._masters[0], 0, keyring.read_keys()
        while True:  # a process that has not heard of the newest may add one meanwhile
            keys = [(one, _unwrap(self._masters, one)) for one in keyring.read_keys()]
            waiting = [(one, key) for one, key in keys if one.master != newest.name]
            if not waiting:
                break
            for one, key in waiting:
                again = one._replace(master=newest.name, wrapped=newest.wrap(key, one.key_id))
                rewrapped += keyring.rewrap_key(one, again)
        made = _make(newest, keyring)
        already = sum(one.master == newest.name for one in before)
        return Rotation(rewrapped, already, made.key_id.hex(), newest.name)


class BoundEncryption:
    """Encrypts and decrypts with the keys of one store."""

    name: str = NAME

    def __init__(self, masters: Sequence[MasterKey], keyring: Keyring) -> None:
        self._masters, self._keyring = masters, keyring
        self._keys: dict[bytes, bytes] = {}
        self._writing: tuple[bytes, Any, Iterator[int]] | None = None
        self._reading: OrderedDict[bytes, Any] = OrderedDict()
        self._lock = Lock()

    def prepare(self) -> None:
        """Have a key to write with, and make the store's first one if it has none.

        Raises:
            CodecMissing: the store's newest key is wrapped by a master key that is not given.
        """
        with self._lock:
            self._prepare()

    def _prepare(self) -> tuple[bytes, Any, Iterator[int]]:
        stored = self._keyring.read_keys() or [_make(self._masters[0], self._keyring)]
        newest = stored[-1]
        key = self._keys[newest.key_id] = _unwrap(self._masters, newest)
        head = newest.key_id + os.urandom(_SALT)
        self._writing = writing = head, _cipher(_derived(key, head[_ID:])), count()
        return writing

    def encode(self, data: bytes, /) -> bytes:
        """Return the encrypted bytes."""
        writing = self._writing
        if writing is None or next(writing[2]) >= _MESSAGES:
            with self._lock:
                writing = self._prepare()
        head, cipher, _ = writing
        nonce = os.urandom(_NONCE)
        encrypted: bytes = cipher.encrypt(nonce, data, head)
        return head + nonce + encrypted

    def decode(self, data: bytes, /) -> bytes:
        """Return what was encrypted.

        Raises:
            CodecMissing: its key is not in the store, or wrapped by a master key that is not given.
        """
        head = data[:_HEAD]
        cipher = self._reading.get(head)
        if cipher is None:
            cipher = self._reader(head)
        decrypted: bytes = cipher.decrypt(data[_HEAD : _HEAD + _NONCE], data[_HEAD + _NONCE :], head)
        return decrypted

    def _reader(self, head: bytes) -> Any:
        key_id = head[:_ID]
        with self._lock:
            key = self._keys.get(key_id)
            if key is None:
                found = next((one for one in self._keyring.read_keys() if one.key_id == key_id), None)
                if found is None:
                    raise CodecMissing(
                        f"a payload is encrypted by the key {key_id.hex()}, which the store does not have",
                        codec=NAME,
                        advice="it comes from another store, or is damaged",
                    )
                key = self._keys[key_id] = _unwrap(self._masters, found)
            cipher = self._reading[head] = _cipher(_derived(key, head[_ID:]))
            if len(self._reading) > _REMEMBERED:
                self._reading.popitem(last=False)
            return cipher


class Locked:
    """Stands in for encryption where a store is encrypted and no key is given: values are neither read nor written."""

    name: str = NAME

    def encode(self, data: bytes, /) -> bytes | None:
        """Write nothing readable into an encrypted store."""
        del data
        raise locked()

    def decode(self, data: bytes, /) -> bytes:
        """Read nothing."""
        del data
        raise locked()


def locked() -> CodecMissing:
    """Return what is raised where a store is encrypted and no key is given."""
    return CodecMissing(
        "the values in this store are encrypted, and no key is given",
        codec=NAME,
        advice="set PERDURE_ENCRYPTION_KEYS (or PERDURE_ENCRYPTION_KEYS_FILE), or give codecs=[Encryption(key)]",
    )


class _SecretKey:
    """A master key that is at hand."""

    def __init__(self, secret: bytes) -> None:
        self.name = sha256(b"perdure master key " + secret).hexdigest()[:16]
        self._cipher = _cipher(secret)

    def wrap(self, key: bytes, key_id: bytes, /) -> bytes:
        """Encrypt a data key."""
        nonce = os.urandom(_NONCE)
        wrapped: bytes = nonce + self._cipher.encrypt(nonce, key, b"perdure key " + key_id)
        return wrapped

    def unwrap(self, wrapped: bytes, key_id: bytes, /) -> bytes:
        """Decrypt a data key."""
        key: bytes = self._cipher.decrypt(wrapped[:_NONCE], wrapped[_NONCE:], b"perdure key " + key_id)
        return key


def _secret(given: str | bytes) -> bytes:
    """Return a master key's 32 bytes.

    Raises:
        DefinitionError: it is none. The message does not show it.
    """
    if isinstance(given, bytes) and len(given) == _SIZE:
        return given
    text = given.decode("ascii", "replace") if isinstance(given, bytes) else given
    for read in (bytes.fromhex, lambda text: b64decode(text, validate=True)):
        try:
            found = read(text.strip())
        except ValueError:
            continue
        if len(found) == _SIZE:
            return found
    raise DefinitionError(
        "a key for encryption is 32 bytes, or those as base64 or hexadecimal", advice="`perdure keys new` makes one"
    )


def _unwrap(masters: Sequence[MasterKey], stored: StoredKey) -> bytes:
    master = next((one for one in masters if one.name == stored.master), None)
    if master is None:
        raise CodecMissing(
            f"the data key {stored.key_id.hex()} is wrapped by the master key {stored.master}, which is not given",
            codec=NAME,
            advice="give all master keys in use, the newest first; an old one is, until `perdure rotate-keys` has run",
        )
    try:
        return master.unwrap(stored.wrapped, stored.key_id)
    except Exception as error:
        raise CodecMissing(
            f"the data key {stored.key_id.hex()} cannot be unwrapped by the master key {stored.master}: "
            f"{type(error).__name__}",
            codec=NAME,
            advice="it is damaged, or the master key's service is away",
        ) from error


def _make(master: MasterKey, keyring: Keyring) -> StoredKey:
    key_id, key = os.urandom(_ID), os.urandom(_SIZE)
    made = StoredKey(key_id, master.name, master.wrap(key, key_id), keyring.now())
    keyring.add_key(made)
    return made


def _cipher(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise DefinitionError(
            "encryption needs the package cryptography", advice="pip install 'perdure[codecs]'"
        ) from error
    return AESGCM(key)


def _derived(key: bytes, salt: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), _SIZE, salt, b"perdure payload").derive(key)


__all__ = [
    "NAME",
    "BoundEncryption",
    "Encryption",
    "Keyring",
    "Locked",
    "MasterKey",
    "Rotation",
    "locked",
    "new_key",
]
