"""Which queries of a PostgreSQL store would walk through a whole table; SQLite's plans are the same in every file."""

from __future__ import annotations

import re
from contextlib import closing
from itertools import pairwise

from perdure.store.postgres.address import parse_address
from perdure.store.postgres.connect import Connector
from perdure.store.postgres.sql import QUERIES

_BIG = "runs|events|inbox|artifacts|artifact_uses|tags"
_SCAN = re.compile(rf"Seq Scan on ({_BIG}|schedules|occurrences)\b|Index (Only )?Scan .*\bon ({_BIG})\b")
"""A node that reads a table which grows."""


def walks(target: str) -> list[str]:
    """The queries that read all of a big table, or all of one of its indexes, as the store's sessions execute them."""
    connector, found = Connector(parse_address(target), "disk"), []
    with closing(connector.open()) as connection:
        for name, template in QUERIES.items():
            if "{schema}" not in template or template.startswith(("CREATE", "LISTEN")):
                continue
            count = max((int(number) for number in re.findall(r"\$(\d+)", template)), default=0)
            values = f"({', '.join(['NULL'] * count)})" if count else ""
            connection.execute(b"PREPARE planned AS " + connector.texts[name])
            lines = connection.execute(f"EXPLAIN (COSTS OFF) EXECUTE planned{values}").fetchall()
            connection.execute("DEALLOCATE planned")
            found += [f"{name}: {walk}" for walk in walked("\n".join(line for (line,) in lines))]
    return found


def walked(plan: str) -> list[str]:
    """The scans in a plan that read all of a big table or index; to take the first entry of an index reads one."""
    nodes, found = plan.split("->"), []
    for above, node in pairwise(["", *nodes]):
        scan = _SCAN.search(node)
        first = above.strip().endswith("Limit") and "Filter" not in node
        if scan is not None and "Index Cond" not in node and not first:
            found.append(scan[0])
    return found
