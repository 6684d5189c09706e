"""What is kept beside a log, to download: never shown, whatever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.responses import Response

from perdure.model.secrecy import concealed
from perdure.store.coded import codecs_of
from perdure.web.asking import Text, Whole, read_query
from perdure.web.logs import run_of
from perdure.web.problems import Problem
from perdure.web.spaces import namespace_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from perdure.store.protocol import Store
    from perdure.web.reading import Reader

PARAMETERS: Final = (Text("step"), Text("name"), Whole("seq", least=1))


async def download(request: Request, reader: Reader) -> Response:
    """Answer with a step's artifact by name, or with the payload of an event by its seq.

    Only by the run that has it: the digest under which it is kept opens nothing. Of payloads, what is marked as secret
    is left out; of artifacts, nothing can be.

    Raises:
        Problem: it is not there; or something is redacted, which nobody can find in it.
    """
    if reader.redaction:
        raise Problem(
            403,
            "redacted",
            "what is kept beside the log cannot be looked through, and some of what runs hold is redacted here",
            "read it where nothing is redacted: `perdure show --json`, or a dashboard of its own",
        )
    query = read_query(PARAMETERS, request.query_params, blank=False)
    run_id: str = request.path_params["run_id"]
    namespace = namespace_of(request)

    def read(store: Store) -> tuple[str, bytes | None]:
        row = run_of(store, run_id, namespace)
        if query["seq"] is not None:
            events = store.read_events(row.run_key, query["seq"] - 1, 1)
            if not events or events[0].seq != query["seq"] or events[0].payload is None:
                return "", None
            value = codecs_of(store).unpack(events[0], store.get_artifact)
            return f"{row.run_id}-{query['seq']}.json", concealed(value)
        log = reader.logs.of(store, row)
        with log.guard:
            step = log.view.steps.get(query["step"] or "")
            digest = None if step is None else step.artifacts.get(query["name"] or "")
            is_coded = step is not None and query["name"] in step.coded
        data = None if digest is None else store.get_artifact(digest)
        return str(query["name"]), codecs_of(store).decode(data) if data is not None and is_coded else data

    name, data = await reader.read(read)
    if data is None:
        raise Problem(404, "artifact_not_found", "the run keeps no such thing", "its page lists what it keeps")
    return Response(
        data,
        media_type="application/octet-stream",
        headers={
            "content-disposition": f"attachment; filename*=UTF-8''{quote(name.replace('/', '_'), safe='')}",
            "content-security-policy": "default-src 'none'; sandbox",
        },
    )


__all__ = ["PARAMETERS", "download"]
