"""Named queries: the SQL of a store lives in ``.sql`` files, and code asks for it by name.

A file holds any number of queries, each under two lines: ``-- name: claim_runs`` and one that says what it does. What
several of them have in common is a part, under ``-- part: narrowed`` likewise: it takes the place of ``{narrowed}``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_NAME = re.compile(r"^-- (name|part): (\w+)\n(-- .+\n)", re.MULTILINE)


def parse_queries(text: str) -> dict[str, str]:
    """Split the text of a ``.sql`` file into its queries by name.

    Raises:
        ValueError: a name is given twice.
    """
    marks = list(_NAME.finditer(text))
    found: dict[str, str] = {}
    parts: dict[str, str] = {}
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        name = mark[2]
        if name in found or name in parts:
            raise ValueError(f"two queries are named {name!r}")
        said = text[mark.end() : following.start() if following else len(text)].strip().removesuffix(";")
        (found if mark[1] == "name" else parts)[name] = said
    # A part may hold others that come before it.
    for name, part in reversed(parts.items()):
        for query, said in found.items():
            found[query] = said.replace(f"{{{name}}}", part)
    return found


def load_queries(folder: Path) -> dict[str, str]:
    """Read every ``.sql`` file of a folder.

    Raises:
        ValueError: a name is given twice, in one file or in two.
    """
    return parse_queries("\n".join(file.read_text("utf-8") for file in sorted(folder.glob("*.sql"))))
