from __future__ import annotations

from perdure import step, workflow
from tests.contrib.leaving import gate, leave


@step
async def charge(order: str) -> str:
    leave(f"charge {order}")
    return f"payment-{order}"


@step
async def pack(order: str) -> str:
    leave(f"pack {order}")
    await gate("pack")
    return "parcel"


@workflow
async def fulfil(order: str) -> str:
    return f"{await charge(order)} {await pack(order)}"
