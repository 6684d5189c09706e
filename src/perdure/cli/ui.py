"""``perdure ui``: the dashboard, in a browser."""

from __future__ import annotations

import sys
import webbrowser
from importlib.util import find_spec

import click

from perdure.cli.exits import Exit
from perdure.cli.loading import load_engine
from perdure.cli.main import say
from perdure.cli.options import debug_option, named_namespace, store_option
from perdure.errors import DefinitionError

PORT = 8321


@click.command(epilog="Example: perdure ui --open")
@click.argument("app", nargs=-1, metavar="[MODULE[:NAME]]...")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--read-only", is_flag=True, help="Only show what there is.")
@click.option(
    "--token",
    envvar="PERDURE_UI_TOKEN",
    metavar="TEXT",
    help="Ask for this; needed where others than this machine connect.  [env: PERDURE_UI_TOKEN]",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name under which it is reached besides those of this machine; may be given several times.",
)
@click.option(
    "--redact",
    multiple=True,
    metavar="PATTERN",
    help="Leave out what stands at such a path: '*password*', 'card.number'; may be given several times.",
)
@click.option("--open", "opens", is_flag=True, help="Open it in a browser.")
@store_option
@debug_option
def ui(  # noqa: PLR0913 - the options of the command
    app: tuple[str, ...],
    *,
    host: str,
    port: int,
    read_only: bool,
    token: str | None,
    hosts: tuple[str, ...],
    redact: tuple[str, ...],
    opens: bool,
    store: str | None,
) -> Exit:
    """Show what runs do, and let them be started, cancelled, resumed, forked and signalled, in a browser.

    It executes no workflows. Modules (or an engine) that are named are imported, so that their workflows can be started
    and sent signals by form. All namespaces are shown, unless --namespace names one. Ends with Ctrl-C.
    """
    if find_spec("starlette") is None or find_spec("jinja2") is None or find_spec("uvicorn") is None:
        raise DefinitionError("the dashboard is not installed", advice="pip install 'perdure[web]'")
    from perdure.web import dashboard
    from perdure.web.serving import listen, serve

    engine, workflows = load_engine(app) if app else (None, [])
    if engine is not None and store is not None:
        # What is shown is another store than the engine's, by the same code and codecs.
        workflows = list(engine._definitions.values())  # noqa: SLF001 - it executes nothing
    application = dashboard(
        engine if store is None else store,
        namespace=named_namespace(),
        token=token,
        hosts=hosts,
        read_only=read_only,
        redact=redact,
        codecs=None if engine is None else engine._codecs,  # noqa: SLF001 - as above
        workflows=workflows,
    )
    listening = listen(host, port, knows_who_asks=token is not None)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/"

    def ready() -> None:
        say(f"the dashboard of {application.state.site['store']} is at {address}", "Ctrl-C ends it")
        sys.stderr.flush()
        if opens:
            webbrowser.open(address)

    serve(application, listening, ready)
    return Exit.OK


__all__ = ["ui"]
