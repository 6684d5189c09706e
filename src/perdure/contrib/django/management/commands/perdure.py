"""``manage.py perdure …``: the command ``perdure``, on the project's store."""

from __future__ import annotations

import os
import sys

from django.core.management.base import BaseCommand

from perdure.cli.main import main
from perdure.contrib.django import configured


class Command(BaseCommand):
    """Any command of ``perdure``, on the store of the project's settings."""

    help = "Any command of perdure, on the project's store: `manage.py perdure runs --status failed`."

    def run_from_argv(self, argv: list[str]) -> None:
        """Hand everything on: the command line is Perdure's own."""
        given = configured()
        if given.get("STORE") is not None:
            os.environ["PERDURE_STORE"] = str(given["STORE"])
        if namespace := given.get("OPTIONS", {}).get("namespace"):
            os.environ["PERDURE_NAMESPACE"] = namespace
        sys.exit(main(argv[2:]))
