from __future__ import annotations

import asyncio
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from html import unescape

import httpx
import pytest

from perdure import Engine, Queue, Rate
from perdure.store.open import open_store
from perdure.web import dashboard
from tests.web import shop

CSRF = {"headers": {"x-csrf-token": "c" * 32, "cookie": f"perdure_csrf={'c' * 32}"}}
"""What a program sends that has no bearer token."""


@pytest.fixture
def path(made_store):
    """The address of the store; there is no run in it yet."""
    return made_store()


@pytest.fixture
def filled(request, database, tmp_path):
    """The address of a store with runs of all kinds."""
    if database == "sqlite":  # it is the same for all, so it is made once
        return str(shutil.copy(request.getfixturevalue("filled_once"), tmp_path / "filled.db"))
    path = request.getfixturevalue("path")
    apart(fill(path))
    return path


@pytest.fixture(scope="session")
def filled_once(tmp_path_factory):
    path = tmp_path_factory.mktemp("filled") / "store.db"
    apart(fill(path))
    with open_store(path, create=False):  # whoever closes last leaves all in one file
        pass
    return path


def apart(coroutine):
    """Run a coroutine on a thread of its own: a test with a browser has a loop on this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


async def fill(path):
    """Run workflows of all kinds."""
    engine = Engine(path, workflows=shop.WORKFLOWS, queues=[Queue(shop.EVIL_NAME, concurrency=2, rate=Rate(9, "1m"))])
    order = shop.Order()
    async with engine:
        for key in ("yearly", f"../{shop.EVIL}"):
            await engine.schedule(shop.nap, order, every="300d", key=key, tags={"note": shop.EVIL[:60], "region": "eu"})
        for one, name in ((shop.sell, "sold"), (shop.fail, "failed"), (shop.family, "parent")):
            handle = await engine.enqueue(one, order, run_id=name, tags={"note": shop.EVIL[:60], "region": "eu"})
            try:
                await handle.result(timeout=20)
            except shop.Rejected:
                assert name == "failed"
        for one, name in ((shop.ask, "asks"), (shop.nap, "naps")):
            handle = await engine.enqueue(one, order, run_id=name)
            while (await handle.row()).status.word not in {"waiting", "sleeping"}:  # noqa: ASYNC110 - the store says when
                await asyncio.sleep(0.005)
        await engine.enqueue(shop.nap, order, run_id=f"../../{shop.EVIL}")


class Browser:
    """A client that keeps cookies and sends what forms hold, as a browser does without JavaScript."""

    def __init__(self, app, *, host="localhost", client=("127.0.0.1", 50000), root="", **options):
        self.app = app
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app, client=client, root_path=root, raise_app_exceptions=False),
            base_url=f"http://{host}{root}",
            **options,
        )

    async def get(self, at, **options):
        return await self.client.get(at, **options)

    async def page(self, at, status=200):
        """The text of a page, as it is shown."""
        answer = await self.get(at)
        assert answer.status_code == status, (at, answer.status_code, answer.text[-3000:])
        return answer.text

    async def send(self, at, form=None, *, page=None, **fields):
        """Fill in the form of a page and send it."""
        text = await self.page(page or at)
        (token,) = set(re.findall(r'name="csrf" value="([^"]+)"', text))
        return await self.client.post(at, data={"csrf": token, **fields, **(form or {})})

    async def json(self, at, status=200, **options):
        answer = await self.get(f"/api{at}", **options)
        assert answer.status_code == status, (at, answer.status_code, answer.text[-2000:])
        return answer.json()


@asynccontextmanager
async def beside(store, **options):
    """Another dashboard of a store, in a client."""
    app = dashboard(store, **options)
    async with app.router.lifespan_context(app):
        yield Browser(app)


@pytest.fixture
def browse():
    """Open a dashboard of a store in a client, and do something with it."""

    def browse(store, act, *, host="localhost", client=("127.0.0.1", 50000), root="", **options):
        async def main():
            app = dashboard(store, **options)
            async with app.router.lifespan_context(app):
                return await act(Browser(app, host=host, client=client, root=root))

        return asyncio.run(main())

    return browse


def shown(html):
    """What a reader sees of a page, without its tags."""
    return unescape(re.sub(r"<[^>]*>", " ", html))
