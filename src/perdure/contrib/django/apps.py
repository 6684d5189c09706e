"""The application that ``INSTALLED_APPS`` names as ``perdure.contrib.django``."""

from __future__ import annotations

from django.apps import AppConfig


class PerdureConfig(AppConfig):
    """Perdure's commands and settings; it has no models."""

    name = "perdure.contrib.django"
    label = "perdure"
    verbose_name = "Perdure"
