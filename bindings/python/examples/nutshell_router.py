"""A nutshell mint that serves its filters itself:  uvicorn --app-dir examples nutshell_router:app"""

import asyncio
import base64
import time
from typing import Literal

from cashu.core.errors import KeysetNotFoundError
from cashu.mint.app import app
from cashu.mint.startup import ledger
from fastapi import APIRouter
from nutfilter import Filter

MAX_AGE = 60  # seconds between two readings of the database
QUERIES = {
    "spent": "SELECT y AS point FROM {proofs_used} WHERE id = :id",
    "issued": "SELECT b_ AS point FROM {promises} WHERE id = :id AND c_ IS NOT NULL",
}
TABLES = {name: ledger.db.table_with_schema(name) for name in ("proofs_used", "promises")}
router, responses, lock = APIRouter(), {}, asyncio.Lock()


@router.get("/v1/filter/{kind}/{keyset_id}")
async def filter_of(kind: Literal["spent", "issued"], keyset_id: str) -> dict:
    if keyset_id not in ledger.keysets:
        raise KeysetNotFoundError(keyset_id)
    async with lock:
        kept = responses.get((kind, keyset_id))
        if kept is None or kept["timestamp"] < time.time() - MAX_AGE:
            now = int(time.time())
            rows = await ledger.db.fetchall(QUERIES[kind].format(**TABLES), {"id": keyset_id})
            made = await asyncio.to_thread(Filter.build, (bytes.fromhex(row["point"]) for row in rows))
            content = base64.b64encode(made.content).decode()
            kept = {"n": made.n, "p": made.p, "m": made.m, "content": content, "timestamp": now}
            responses[kind, keyset_id] = kept
        return kept


app.include_router(router)
