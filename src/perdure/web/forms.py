"""Forms and JSON that requests bring along."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from perdure.web.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request

_FIELDS = 200
"""Fields in one form at most."""


def parse_form(content_type: str, body: bytes) -> dict[str, str] | None:
    """Return the fields of a form; None if it is none. Files are not taken.

    Raises:
        Problem: it cannot be read.
    """
    if content_type.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        return None
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS))
    except ValueError as error:
        raise Problem(400, "bad_form", "the form cannot be read", "send it as UTF-8, with fewer fields") from error


class Given:
    """What a request asks for: the fields of its form, or of the JSON object that it brings.

    Raises:
        Problem: it brings neither.
    """

    def __init__(self, request: Request, body: bytes) -> None:
        form: dict[str, str] | None = request.state.form
        self.is_form = form is not None
        self._fields: dict[str, Any]
        if form is not None:
            self._fields = dict(form)
            return
        kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Problem(415, "unknown_media", f"{kind[:80]!r} is not understood", "send JSON, or a form")
        try:
            fields = json.loads(body or b"{}")
        except (ValueError, RecursionError) as error:
            raise Problem(400, "bad_json", "the body is no JSON", "send an object") from error
        if not isinstance(fields, dict):
            raise Problem(422, "bad_json", "the body is no JSON object", "send an object")
        self._fields = fields

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def names(self) -> list[str]:
        """Return the names of all fields."""
        return list(self._fields)

    def only(self, *names: str) -> None:
        """Refuse fields that nobody knows; a form's are ours.

        Raises:
            Problem: there is one.
        """
        unknown = sorted(set(self._fields).difference(names))
        if unknown and not self.is_form:
            raise Problem(
                422, "unknown_field", f"no field {unknown[0][:80]!r} is known here", f"known: {', '.join(names)}"
            )

    def text(self, name: str, *, longest: int = 2000) -> str:
        """Return a text; empty if it is not there.

        Raises:
            Problem: it is no text, or too long.
        """
        value = self._fields.get(name, "")
        if not isinstance(value, str) or len(value) > longest or not _is_writable(value):
            raise Problem(422, "bad_field", f"{name} is a text of at most {longest} characters", "")
        return value

    def flag(self, name: str) -> bool:
        """Return a truth value; False if it is not there.

        Raises:
            Problem: it is none.
        """
        value = self._fields.get(name, False)
        if self.is_form:
            return value in {"on", "true", "1"}
        if not isinstance(value, bool):
            raise Problem(422, "bad_field", f"{name} is true or false", "")
        return value

    def value(self, name: str) -> Any:
        """Return a value as JSON has it: of a form, what its text says.

        Raises:
            Problem: the text is no JSON.
        """
        value = self._fields.get(name)
        if not self.is_form or value is None:
            return value
        try:
            return json.loads(value) if str(value).strip() else None
        except (ValueError, RecursionError) as error:
            raise Problem(
                422,
                "bad_json",
                f"{name} is no JSON",
                'a text goes in double quotes: "yes"; others are true, 42, {"a": 1}',
            ) from error


def _is_writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


__all__ = ["Given", "parse_form"]
