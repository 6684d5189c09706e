"""Ask the project what a browser would, in processes that are forked as a server forks its own."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import django
from django.test import AsyncClient, Client

django.setup()

from django.db import connections  # noqa: E402 - only now
from django.db.transaction import TransactionManagementError  # noqa: E402

from perdure.contrib.django import engine, within  # noqa: E402

print(json.dumps([Client().get("/buy/a").json(), Client().get("/buy/b?refuse").json()]))  # noqa: T201
try:
    within()
except TransactionManagementError:
    print("no transaction")  # noqa: T201
connections.close_all()
sys.stdout.flush()
parent = engine()
child = os.fork()
if child == 0:
    assert engine() is not parent
    print(json.dumps(asyncio.run(AsyncClient().get("/show")).json()))  # noqa: T201
    sys.exit()  # what the parent does at exit is not the child's to do
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
