"""Sending signals to runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.errors import WrongState
from perdure.model.records import Delivery
from perdure.operations.missing import missing

if TYPE_CHECKING:
    from perdure.model.records import Message
    from perdure.operations.verbs import Operations


async def send(operations: Operations, run_id: str, what: Message) -> bool:
    """Send a message to a run; False if it had come already, under the same idempotency key.

    Raises:
        RunNotFound: no such run.
        WrongState: it has ended.
    """
    to = what._replace(run_id=run_id, namespace=operations.namespace, author=operations.by)
    delivery = (await operations.call(lambda: operations.store.deliver([to])))[0]
    if delivery is Delivery.UNKNOWN:
        raise await operations.call(lambda: missing(operations.store, run_id, operations.namespace))
    if delivery is Delivery.ENDED:
        status = (await operations.row(run_id)).status.word
        raise WrongState(
            f"run {run_id!r} is {status}, and hears no signal any more",
            run_id=run_id,
            status=status,
            advice="nothing was sent; a failed or cancelled run hears again once it is resumed",
        )
    return delivery is Delivery.DELIVERED


__all__ = ["send"]
