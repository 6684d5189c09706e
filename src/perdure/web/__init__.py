"""The dashboard: what runs do and what can be done with them, in a browser and as JSON.

Comes with ``pip install 'perdure[web]'``.
"""

from __future__ import annotations

from perdure.extras import extra

with extra("web"):
    from perdure.web.app import dashboard
    from perdure.web.settings import Visitor

__all__ = ["Visitor", "dashboard"]
