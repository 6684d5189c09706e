"""The API is what it says of itself, whatever it is sent."""

from __future__ import annotations

from itertools import cycle

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from perdure import Engine
from perdure.web import dashboard
from tests.web import shop

pytestmark = pytest.mark.only("sqlite")
TOKEN = "a token nobody guesses"  # noqa: S105 - nobody has it
HEADERS = {"authorization": f"Bearer {TOKEN}"}
FEW = settings(max_examples=6, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["good", "bad"])
def test_it_answers_as_its_description_says(mode, filled):
    schema = schemathesis.openapi.from_asgi(
        "/api/openapi.json",
        dashboard(Engine(filled, workflows=shop.WORKFLOWS), token=TOKEN, hosts=["testserver"]),
        headers=HEADERS,
    )
    ids = cycle(["sold", None, "failed", None, "asks", "parent"])
    seen = set()
    for found in schema.get_all_operations():
        operation = found.ok()
        if mode is GenerationMode.NEGATIVE and not (list(operation.iter_parameters()) or operation.body):
            continue  # it is asked for nothing that could be wrong

        @FEW
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case):
            known = next(ids)
            if known is not None and case.path_parameters and mode is GenerationMode.POSITIVE:
                places = {"run_id": known, "key": "yearly", "job": "unknown"}
                case.path_parameters = {name: places[name] for name in case.path_parameters}
            response = case.call(headers=HEADERS)
            case.validate_response(response, headers=HEADERS, excluded_checks=[positive_data_acceptance])
            seen.add((case.operation.label, response.status_code))

        check()
    if mode is GenerationMode.POSITIVE:
        done = {label for label, status in seen if status == 200}
        assert done >= {"GET /api/runs", "GET /api/runs/{run_id}", "GET /api/log/{run_id}"}
    assert {status for _, status in seen} <= {200, 400, 404, 405, 409, 410, 415, 422}


def test_the_description_is_of_every_route(filled):
    app = dashboard(filled)
    told = {path.replace("}", ":path}") for path in app.state.description["paths"]}
    assert {route.path for route in app.routes if route.path.startswith("/api/")} - told == {"/api/openapi.json"}
