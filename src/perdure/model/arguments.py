"""The arguments of a call: written by parameter name, read back as isolated copies, compared on replay.

The bytes are a JSON object of what was passed explicitly, in the order of the signature, so that a new parameter with
a default changes nothing. Arguments longer than ``LIMIT`` are kept as head and hash. Part of the format.
"""

from __future__ import annotations

import inspect
import json
from functools import cached_property
from hashlib import sha256
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.errors import NotSerializable, Undecodable
from perdure.model.codec import ValueCodec
from perdure.model.equality import same
from perdure.model.hints import Hints, Parameter
from perdure.model.secrecy import concealed, unsealed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

LIMIT = 1024
"""Bytes of arguments that an outcome keeps."""

_HEAD = 400
_LEADS = (" ", "\t")
_CONDENSED = b'["sha256'
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VAR_POSITIONAL = inspect.Parameter.VAR_POSITIONAL
_VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD
_SCANNER = json.JSONDecoder()
_new = tuple.__new__  # a named tuple's own constructor is a Python function
_ADVICE = "the step's parameters changed since; resume(accept_drift=True), patched() or version= are the ways on"


class Prepared(NamedTuple):
    """A call's arguments, written down, and copies of them that share nothing with the caller's."""

    data: bytes
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class _Slot(NamedTuple):
    """A parameter with what is needed to write it."""

    parameter: Parameter
    codec: ValueCodec
    label: bytes
    """``"name":`` as it stands in the JSON."""


class Arguments:
    """Writes, reads and compares the arguments of one definition. Everything is worked out at the first call.

    Args:
        fn: the function.
        injected: the default of parameters that the engine fills in; they are not recorded.
        skip_first: leave out the first parameter, the ``self`` of a method; calls are given without it.
        namespace: names of the scope ``fn`` was defined in; see ``perdure.model.hints.names_used``.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        injected: object = None,
        skip_first: bool = False,
        namespace: Mapping[str, object] | None = None,
    ) -> None:
        self.hints = Hints(fn, injected=injected, skip_first=skip_first, namespace=namespace)

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """Return a call's arguments as bytes.

        Raises:
            TypeError: the function cannot be called like this.
            NotSerializable: an argument cannot be stored exactly; the path starts with the parameter's name.
        """
        return self.prepare(args, kwargs).data

    def prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Prepared:
        """Return a call's arguments as bytes and as the copies that its body gets. Raises as ``encode`` does."""
        if not kwargs:
            slots, least = self._positional
            count = len(args)
            if least <= count <= len(slots):
                parts: list[bytes] = []
                copies: list[Any] = []
                for (parameter, codec, label), value in zip(slots, args, strict=False):
                    data, copy = codec.roundtrip(value, parameter.name)
                    parts.append(label + data)
                    copies.append(copy)
                return _new(Prepared, (b"{" + b",".join(parts) + b"}", tuple(copies), {}))
        return self._prepare_bound(args, kwargs)

    def decode(self, data: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return positional and keyword arguments to call the function with, under today's types.

        Raises:
            Undecodable: the bytes are damaged or condensed, or do not fit today's parameters.
        """
        values = self._decode_values(data)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        is_contiguous = True
        for parameter, _, _ in self._slots.values():
            name = parameter.name
            if name not in values:
                if parameter.required:
                    raise _misfit(f"no value for the parameter {name}, which has no default")
                is_contiguous = False
            elif parameter.kind is _VAR_KEYWORD:
                kwargs.update(values[name])
            elif parameter.kind is _VAR_POSITIONAL:
                if not is_contiguous and values[name]:
                    raise _misfit(f"values for *{name} behind a parameter that has none")
                args.extend(values[name])
            elif parameter.kind in _POSITIONAL and is_contiguous:
                args.append(values[name])
            elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                raise _misfit(f"a value for the parameter {name} behind one that has none")
            else:
                kwargs[name] = values[name]
        return tuple(args), kwargs

    def anew(self, prepared: Prepared) -> Prepared:
        """Return the same arguments with other copies: what one attempt does to its own is no concern of the next."""
        return Prepared(prepared.data, *self.decode(prepared.data))

    def condense(self, data: bytes) -> bytes:
        """Return what an outcome keeps of arguments: themselves up to ``LIMIT`` bytes, else head and hash.

        What is volatile is left out before they are hashed, since a hash cannot be compared in part.
        """
        if len(data) <= LIMIT or is_condensed(data):
            return data
        return condense(self._without_volatile(data))

    def same(self, recorded: bytes, found: bytes) -> bool:
        """Return whether two records are of the same arguments, as seen today.

        Defaults are filled in and volatile parameters left out; what does not decode is not the same. Of condensed
        ones only the hashes can be compared.
        """
        if recorded == found:
            return True
        if is_condensed(recorded) or is_condensed(found):
            try:
                return _hash(self._condensable(recorded)) == _hash(self._condensable(found))
            except Undecodable:
                return False
        try:
            one, other = self._decode_values(recorded), self._decode_values(found)
        except Undecodable:
            return False
        for parameter, _, _ in self._slots.values():
            if not parameter.volatile:
                default = _default(parameter)
                if not same(one.get(parameter.name, default), other.get(parameter.name, default)):
                    return False
        return True

    @cached_property
    def _slots(self) -> dict[str, _Slot]:
        return {
            parameter.name: _Slot(parameter, ValueCodec(parameter.hint), _label(parameter.name))
            for parameter in self.hints.parameters
        }

    @cached_property
    def _positional(self) -> tuple[tuple[_Slot, ...], int]:
        """The slots that positional arguments fill, and how many a call must give; none if it must give keywords."""
        slots: list[_Slot] = []
        for name, parameter in self.hints.signature.parameters.items():
            if parameter.kind not in _POSITIONAL or name not in self._slots:
                break
            slots.append(self._slots[name])
        required = [slot.parameter for slot in self._slots.values() if slot.parameter.required]
        if any(parameter.kind not in _POSITIONAL for parameter in required):
            return (), 1
        return tuple(slots), len(required)

    def _prepare_bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Prepared:
        try:
            bound = self.hints.signature.bind(*args, **kwargs)
        except TypeError as error:
            name = getattr(self.hints.fn, "__qualname__", None) or type(self.hints.fn).__qualname__
            raise TypeError(f"{name}() {error}") from None
        parts: list[bytes] = []
        for name, value in bound.arguments.items():
            slot = self._slots.get(name)
            if slot is not None:  # injected parameters given by hand go through as they are
                data, bound.arguments[name] = _roundtrip(slot, value)
                parts.append(slot.label + data)
        return Prepared(b"{" + b",".join(parts) + b"}", bound.args, bound.kwargs)

    def _decode_values(self, data: bytes) -> dict[str, Any]:
        """Return what was passed, by parameter."""
        values: dict[str, Any] = {}
        for name, raw in _members(data):
            slot = self._slots.get(name)
            if slot is None:
                raise _misfit(f"a value for the parameter {name}, which there is no longer")
            values[name] = _decode(slot, raw)
        return values

    def _without_volatile(self, data: bytes) -> bytes:
        dropped = self.hints.volatile
        if not dropped:
            return data
        kept = [_label(name) + raw for name, raw in _members(data) if name not in dropped]
        return b"{" + b",".join(kept) + b"}"

    def _condensable(self, data: bytes) -> bytes:
        return data if is_condensed(data) else self._without_volatile(data)


def condense(data: bytes) -> bytes:
    """Return arguments as they are up to ``LIMIT`` bytes, else as a JSON array of their hash, size and head."""
    if len(data) <= LIMIT:
        return data
    head = concealed(data)[:_HEAD].decode("utf-8", "ignore")
    return json.dumps([f"sha256 {_hash(data)}", len(data), head], ensure_ascii=False, separators=(",", ":")).encode()


def is_condensed(data: bytes) -> bool:
    """Whether a record of arguments is only head and hash."""
    return data.startswith(_CONDENSED)


def _hash(data: bytes) -> str:
    if is_condensed(data):
        return data[len(_CONDENSED) + 1 :][:64].decode("ascii", "replace")
    return sha256(unsealed(data)).hexdigest()  # whether something is marked makes no difference


def _label(name: str) -> bytes:
    return encode_basestring(name).encode("utf-8", "surrogatepass") + b":"


def _roundtrip(slot: _Slot, value: Any) -> tuple[bytes, Any]:
    parameter, codec, _ = slot
    if parameter.kind is _VAR_POSITIONAL:
        done = [codec.roundtrip(item, f"{parameter.name}[{i}]") for i, item in enumerate(value)]
        return b"[" + b",".join(data for data, _ in done) + b"]", tuple(copy for _, copy in done)
    if parameter.kind is _VAR_KEYWORD:
        named = {key: codec.roundtrip(item, f"{parameter.name}.{key}") for key, item in value.items()}
        try:
            data = (
                b"{" + b",".join(encode_basestring(key).encode() + b":" + raw for key, (raw, _) in named.items()) + b"}"
            )
        except UnicodeEncodeError:
            raise NotSerializable(
                f"{parameter.name}: a keyword has lone surrogates in it",
                path=parameter.name,
                type="str",
                advice="pass a dict instead",
            ) from None
        return data, {key: copy for key, (_, copy) in named.items()}
    return codec.roundtrip(value, parameter.name)


def _decode(slot: _Slot, raw: bytes) -> Any:
    parameter, codec, _ = slot
    if parameter.kind is _VAR_POSITIONAL:
        return tuple(codec.decode(item) for item in _items(raw))
    if parameter.kind is _VAR_KEYWORD:
        return {name: codec.decode(item) for name, item in _members(raw)}
    return codec.decode(raw)


def _default(parameter: Parameter) -> Any:
    if parameter.kind is _VAR_POSITIONAL:
        return ()
    return {} if parameter.kind is _VAR_KEYWORD else parameter.default


def _members(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the members of a JSON object with their values as they are written, leading space included."""
    text = _text(data, "{", "}")
    at = 1
    while at < len(text) - 1:
        name, at = _scan(text, at)
        if not isinstance(name, str) or text[at : at + 1] != ":":
            raise _misfit("no JSON object")
        start = at + 1
        at = _skip(text, start)
        yield name, text[start:at].encode()
        at = _comma(text, at)


def _items(data: bytes) -> Iterator[bytes]:
    """Yield the items of a JSON array as they are written."""
    text = _text(data, "[", "]")
    at = 1
    while at < len(text) - 1:
        start = at
        at = _skip(text, start)
        yield text[start:at].encode()
        at = _comma(text, at)


def _text(data: bytes, opening: str, closing: str) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise _misfit("no UTF-8") from None
    if is_condensed(data):
        raise _misfit("too long, so only their head and hash were kept")
    if len(text) < 2 or text[0] != opening or text[-1] != closing:  # noqa: PLR2004 - the two brackets
        raise _misfit(f"no JSON in {opening}{closing}")
    return text


def _skip(text: str, start: int) -> int:
    return _scan(text, start + 1 if text[start : start + 1] in _LEADS else start)[1]


def _scan(text: str, start: int) -> tuple[Any, int]:
    try:
        return _SCANNER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise _misfit(str(error)) from None


def _comma(text: str, at: int) -> int:
    last = len(text) - 1
    if text[at : at + 1] == "," and at + 1 < last:
        return at + 1
    if at != last:
        raise _misfit("no comma where one belongs")
    return at


def _misfit(why: str) -> Undecodable:
    return Undecodable(f"recorded arguments: {why}", type="arguments", advice=_ADVICE)
