from __future__ import annotations

from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path

from perdure.contrib.django import awaited, engine, enqueue_on_commit, within
from tests.contrib.django_shop.settings import IS_POSTGRES
from tests.contrib.django_shop.workflows import fulfil


class Refused(Exception):
    pass


def refuse(refused: bool) -> None:
    if refused:
        raise Refused


def buy(request: HttpRequest, order: str) -> JsonResponse:
    """Enqueue in the transaction, where it is the store's database, else when it has committed."""
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            if IS_POSTGRES:
                run_id = engine().enqueue(fulfil, order, run_id=order, within=within()).run_id
            else:
                run_id = enqueue_on_commit(fulfil, order, run_id=order)
            refuse("refuse" in request.GET)
    except Refused:
        run_id = ""
    return JsonResponse({"run": run_id})


async def show(request: HttpRequest) -> JsonResponse:
    del request
    rows = await awaited(lambda: [(row.run_id, row.status.word) for row in engine().runs()])
    return JsonResponse({"runs": rows})


urlpatterns = [path("buy/<order>", buy), path("show", show)]
