"""What is asked of the store, and who waits for the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.errors import EngineNotOpen, StoreBusy, StoreError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class Asked:
    """A verb of the store and who waits for what it gives."""

    __slots__ = ("_then", "_verb", "background", "error", "future", "result")

    def __init__(
        self,
        verb: Callable[[], Any],
        future: asyncio.Future[Any],
        *,
        background: bool = False,
        then: Callable[[Any], object] | None,
    ) -> None:
        self._verb = verb
        self._then = then
        self.future = future
        self.background = background
        self.result: Any = None
        self.error: BaseException | None = None

    def execute(self) -> None:
        """Do it, here."""
        self.error = None
        try:
            self.result = self._verb()
        except BaseException as error:  # noqa: BLE001 - raised to whoever waits
            self.error = error

    @property
    def is_busy(self) -> bool:
        """Whether it was turned away because it would have had to wait."""
        return isinstance(self.error, StoreBusy)

    def came_too_late(self) -> None:
        """The store was closed, or about to be: if the verb met that, say so."""
        if isinstance(self.error, StoreError):
            self.error = EngineNotOpen("the engine was stopped meanwhile", advice="ask again once it is open")

    def answer(self) -> None:
        """Tell whoever waits what it gave or raised."""
        if self._then is not None and self.error is None:
            try:
                self._then(self.result)
            except Exception as error:  # noqa: BLE001 - raised to whoever waits
                self.error = error
        if self.future.cancelled():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Job:
    """Something to do on a thread of the journal's; see ``perdure.runtime.threads.Work``."""

    __slots__ = ("_after", "_do")

    def __init__(self, do: Callable[[], object], after: Callable[[], object]) -> None:
        self._do = do
        self._after = after

    def run_here(self, _argument: object) -> None:
        """Do it, on the thread."""
        self._do()

    def finished(self) -> None:
        """Say so, on the loop."""
        self._after()


__all__ = ["Asked", "Job"]
