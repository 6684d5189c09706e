"""The description of the JSON API, made of the pages and actions themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perdure.web.artifacts import PARAMETERS
from perdure.web.schemas import SCHEMAS, ref

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.web.actions import Action
    from perdure.web.asking import Parameter
    from perdure.web.changes import Change
    from perdure.web.pages import Page

_RUN_ID = {
    "name": "run_id",
    "in": "path",
    "required": True,
    "description": "The run's id; slashes in it may stand as they are.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 500},
}


_KEY = {
    "name": "key",
    "in": "path",
    "required": True,
    "description": "The schedule's key; slashes in it may stand as they are.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 400},
}
_JOB: Final = {
    "name": "job",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "minLength": 1, "maxLength": 40},
}
_ABOUT: Final[dict[str, list[dict[str, Any]]]] = {"": [], "run_id": [_RUN_ID], "key": [_KEY], "job": [_JOB]}
"""The parameter in the path, by what something is about."""


def description(pages: Iterable[Page], actions: Iterable[Action], changes: Iterable[Change]) -> dict[str, Any]:
    """Return the API as OpenAPI 3.1 describes it."""
    paths: dict[str, Any] = {}
    for page in pages:
        path = f"/api{page.path}" + (f"/{{{page.of}}}" if page.of else "")
        paths[path] = {
            "get": {
                "operationId": page.name,
                "summary": page.summary,
                "parameters": [*_ABOUT[page.of], *map(_parameter, page.parameters)],
                "responses": _responses(page.schema, of_one=bool(page.of)),
            }
        }
    for action in actions:
        paths[f"/api/{action.verb}/{{run_id}}"] = {
            "post": {
                "operationId": f"{action.verb}Run",
                "summary": action.summary,
                "parameters": [_RUN_ID],
                "requestBody": {
                    "content": {"application/json": {"schema": _body(action)}},
                    "required": bool(action.required),
                },
                "responses": _responses("Done", of_one=True, changes=True),
                "security": [{"bearer": []}, {"csrf": [], "csrfCookie": []}],
            }
        }
    for change in changes:
        path = f"/api/{change.verb}" + (f"/{{{change.of}}}" if change.of else "")
        paths.setdefault(path, {})["post"] = {
            "operationId": change.name,
            "summary": change.summary,
            "parameters": [*_ABOUT[change.of], *map(_parameter, change.parameters)],
            "requestBody": {
                "content": {"application/json": {"schema": _body(change)}},
                "required": bool(change.required),
            },
            "responses": _responses(change.schema, of_one=True, changes=True),
            "security": [{"bearer": []}, {"csrf": [], "csrfCookie": []}],
        }
    paths["/api/artifacts/{run_id}"] = {
        "get": {
            "operationId": "download",
            "summary": "What a run keeps beside its log: a step's artifact by name, or an event's payload by seq.",
            "parameters": [_RUN_ID, *[_parameter(one) for one in PARAMETERS]],
            "responses": {
                **_responses("Error", of_one=True),
                "200": {
                    "description": "The bytes, as a download.",
                    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
                },
            },
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Perdure",
            "version": "1",
            "description": "What the dashboard shows and does. Instants are ISO 8601 in UTC, durations are seconds. "
            "Under /in/NAMESPACE/api is the same of another namespace, if the dashboard shows several.",
        },
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "csrf": {"type": "apiKey", "in": "header", "name": "X-CSRF-Token"},
                "csrfCookie": {"type": "apiKey", "in": "cookie", "name": "perdure_csrf"},
            },
        },
    }


def _parameter(one: Parameter) -> dict[str, Any]:
    return {"name": one.name, "in": "query", "required": False, "schema": one.schema()}


def _body(action: Action | Change) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": action.fields,
        "required": list(action.required),
        "additionalProperties": False,
    }


def _responses(schema: str, *, of_one: bool, changes: bool = False) -> dict[str, Any]:
    statuses = {
        400: "What was sent cannot be read.",
        401: "It has to be known who asks.",
        403: "That is not allowed.",
        **({404: "There is no such thing.", 410: "The run was purged."} if of_one else {}),
        **({409: "It is in no state for that.", 413: "Too much was sent.", 415: "That is no JSON."} if changes else {}),
        421: "It does not answer under this name.",
        422: "What was sent does not fit.",
        503: "The store cannot be reached.",
    }
    errors = {
        str(status): {"description": text, "content": {"application/json": {"schema": ref("Error")}}}
        for status, text in statuses.items()
    }
    return {"200": {"description": "Done.", "content": {"application/json": {"schema": ref(schema)}}}, **errors}


__all__ = ["description"]
