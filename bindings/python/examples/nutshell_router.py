"""A nutshell mint that serves its filters itself:  uvicorn --app-dir examples nutshell_router:app"""

import asyncio
import base64
import hashlib
import json
import os
import time
from typing import Dict, Literal, Set, Tuple

from cashu.core.errors import KeysetNotFoundError
from cashu.mint.app import app
from cashu.mint.startup import ledger
from fastapi import APIRouter, Request, Response
from nutfilter import SortedHashes

MAX_AGE = int(os.environ.get("FILTER_MAX_AGE", 60))  # seconds between two readings of the database
OVERLAP = 600  # seconds before the last reading that are read again, for notes that were written late
TABLES = {name: ledger.db.table_with_schema(name) for name in ("proofs_used", "promises")}
FROM = {"spent": f"FROM {TABLES['proofs_used']} WHERE id = :id",
        "issued": f"FROM {TABLES['promises']} WHERE id = :id AND c_ IS NOT NULL"}
POINTS = {"spent": "y", "issued": "b_"}
Kind = Literal["spent", "issued"]
router, lock = APIRouter(), asyncio.Lock()


def stamp(seconds: int) -> object:
    return ledger.db.to_timestamp(ledger.db.timestamp_from_seconds(seconds))


class Notes:
    """What was read of one kind and keyset."""

    def __init__(self) -> None:
        self.hashes, self.read_at, self.body, self.tag = SortedHashes(), 0, b"", ""
        self.seen: Set[str] = set()

    async def read(self, kind: Kind, keyset_id: str) -> None:
        """Reads what is new, or everything if the number of rows differs, as after a restored backup."""
        now = int(time.time())
        if not (self.read_at and await self.add(kind, keyset_id, now, self.read_at - OVERLAP)):
            self.hashes, self.seen = SortedHashes(), set()
            await self.add(kind, keyset_id, now, 0)
        made = await asyncio.to_thread(self.hashes.encode)
        content = base64.b64encode(made.content).decode()
        answer = {"n": made.n, "p": made.p, "m": made.m, "content": content, "timestamp": now}
        self.body, self.read_at = json.dumps(answer).encode(), now
        self.tag = f'"{hashlib.sha256(self.body).hexdigest()}"'

    async def add(self, kind: Kind, keyset_id: str, now: int, since: int) -> bool:
        """Adds the notes since a time; whether there are then as many as in the database."""
        values = {"id": keyset_id, "recent": stamp(now - OVERLAP)}
        query = f"SELECT {POINTS[kind]} AS point, created >= :recent AS recent {FROM[kind]}"
        if since:
            query, values["since"] = f"{query} AND created >= :since", stamp(since)
        rows = await ledger.db.fetchall(query, values)
        new = [bytes.fromhex(row["point"]) for row in rows if row["point"] not in self.seen]
        # Those that the next reading meets again.
        self.seen = {row["point"] for row in rows if row["recent"]}
        await asyncio.to_thread(self.hashes.add, new)
        row = await ledger.db.fetchone(f"SELECT count(*) AS rows {FROM[kind]}", {"id": keyset_id})
        return bool(row["rows"] == len(self.hashes))


kept: Dict[Tuple[Kind, str], Notes] = {}


@router.get("/v1/filter/{kind}/{keyset_id}")
async def filter_of(kind: Kind, keyset_id: str, request: Request) -> Response:
    if keyset_id not in ledger.keysets:
        raise KeysetNotFoundError(keyset_id)
    async with lock:
        notes = kept.setdefault((kind, keyset_id), Notes())
        if notes.read_at < time.time() - MAX_AGE:
            await notes.read(kind, keyset_id)
    headers = {"ETag": notes.tag, "Cache-Control": f"max-age={MAX_AGE}"}
    if notes.tag in request.headers.get("If-None-Match", ""):
        return Response(status_code=304, headers=headers)
    return Response(notes.body, media_type="application/json", headers=headers)


app.include_router(router)
