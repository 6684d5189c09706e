"""What the tests of resuming share."""

from __future__ import annotations

import pytest

from tests.engine.desk import Refused


async def failed(engine, definition, error=Refused):
    with pytest.raises(error):
        await engine.run(definition, run_id="r")


async def resumed(engine, definition):
    handle = engine.get("r", definition)
    await handle.resume()
    return await handle.result()
