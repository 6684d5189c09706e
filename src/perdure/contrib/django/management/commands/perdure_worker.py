"""``manage.py perdure_worker``: execute the project's runs until asked to stop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from perdure.contrib.django import worker_engine, workflows

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Execute runs until SIGTERM or Ctrl-C."""

    help = "Execute the project's runs until SIGTERM or Ctrl-C."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take what belongs to one worker; all else is in the setting PERDURE."""
        parser.add_argument("--concurrency", type=int, help="Runs in execution at once.")
        parser.add_argument(
            "--queue", action="append", metavar="NAME", help="Only runs of this queue; may be repeated."
        )
        parser.add_argument("--drain", metavar="TIME", help="How long steps may finish when stopping.")
        parser.add_argument("--grace", metavar="TIME", help="How long they may clean up after that.")

    def handle(self, *_args: Any, **given: Any) -> None:
        """Execute."""
        names = sorted(one.name for one in workflows())
        if not names:
            raise CommandError("no app has a module `workflows` with workflows in it, and PERDURE names none")
        more = {"concurrency": given["concurrency"], "only_queues": given["queue"]}
        engine = worker_engine(**{name: value for name, value in more.items() if value is not None})

        def ready() -> None:
            self.stderr.write(f"perdure: executes {', '.join(names)}; Ctrl-C or SIGTERM stops it")

        if left := asyncio.run(engine.serve(given["drain"], given["grace"], ready=ready)):
            raise CommandError(f"stopped; these runs did not heed it, and go on elsewhere: {', '.join(left)}")
