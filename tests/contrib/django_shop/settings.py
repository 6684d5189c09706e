from __future__ import annotations

import os

SECRET_KEY = "of no use to anybody"  # noqa: S105 - a test's
ALLOWED_HOSTS = ["*"]
USE_TZ = True
INSTALLED_APPS = ["perdure.contrib.django", "tests.contrib.django_shop"]
ROOT_URLCONF = "tests.contrib.django_shop.views"
STORE = os.environ["PERDURE_STORE"]
IS_POSTGRES = STORE.startswith("postgres")
if IS_POSTGRES:
    from psycopg.conninfo import conninfo_to_dict

    _to = conninfo_to_dict(STORE.partition("?schema=")[0].partition("&schema=")[0])
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql", "NAME": _to["dbname"], "USER": _to.get("user", ""),
            "PASSWORD": _to.get("password", ""), "HOST": _to.get("host", ""), "PORT": _to.get("port", ""),
        }
    }  # fmt: skip
else:
    DATABASES = {
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.path.join(os.environ["FOLDER"], "shop.db")}  # noqa: PTH118
    }
PERDURE = {"STORE": STORE, "OPTIONS": {"lease": "5s", "heartbeat": "1s"}}
