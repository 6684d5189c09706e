"""The description of the JSON API, made of the pages and actions themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.web.artifacts import PARAMETERS
from perdure.web.schemas import SCHEMAS, ref

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.web.actions import Action
    from perdure.web.asking import Parameter
    from perdure.web.pages import Page

_RUN_ID = {
    "name": "run_id",
    "in": "path",
    "required": True,
    "description": "The run's id; slashes in it may stand as they are.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 500},
}


def description(pages: Iterable[Page], actions: Iterable[Action]) -> dict[str, Any]:
    """Return the API as OpenAPI 3.1 describes it."""
    paths: dict[str, Any] = {}
    for page in pages:
        path = f"/api{page.path}" + ("/{run_id}" if page.of_run else "")
        paths[path] = {
            "get": {
                "operationId": page.name,
                "summary": page.summary,
                "parameters": [*([_RUN_ID] if page.of_run else []), *map(_parameter, page.parameters)],
                "responses": _responses(page.schema, of_run=page.of_run),
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
                "responses": _responses("Done", of_run=True, changes=True),
                "security": [{"bearer": []}, {"csrf": [], "csrfCookie": []}],
            }
        }
    paths["/api/artifacts/{run_id}"] = {
        "get": {
            "operationId": "download",
            "summary": "What a run keeps beside its log: a step's artifact by name, or an event's payload by seq.",
            "parameters": [_RUN_ID, *[_parameter(one) for one in PARAMETERS]],
            "responses": {
                **_responses("Error", of_run=True),
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
            "description": "What the dashboard shows and does. Instants are ISO 8601 in UTC, durations are seconds.",
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


def _body(action: Action) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": action.fields,
        "required": list(action.required),
        "additionalProperties": False,
    }


def _responses(schema: str, *, of_run: bool, changes: bool = False) -> dict[str, Any]:
    statuses = {
        400: "What was sent cannot be read.",
        401: "It has to be known who asks.",
        403: "That is not allowed.",
        **({404: "There is no such run.", 410: "The run was purged."} if of_run else {}),
        **(
            {409: "The run is in no state for that.", 413: "Too much was sent.", 415: "That is no JSON."}
            if changes
            else {}
        ),
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
