"""A database that is away, slow, locked, late, older than it was, or smaller."""

import contextlib
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import time

from bench import SPENT, expect, system_calls, wait_until

REREAD = "rereading the full database"


def postgres_stopped(bench):
    """Postgres stopped and started | last good filter with its true timestamp; catches up, exact"""
    bench.postgres()
    service = bench.ready()
    slowest = 0.0
    for mode in ("fast", "immediate"):
        bench.add(100)
        bench.expect_exact(service)
        before, told = service.whole(), len(service.said("refresh failed", "ERROR"))
        bench.cluster.stop(mode)
        service.wait_said("refresh failed", 20, told + 1, "ERROR")
        bench.expect_last_good(service, before)
        expect(service.health() == "degraded", f"health says {service.health()}")
        bench.cluster.start()
        bench.add(100)
        slowest = max(slowest, bench.expect_exact(service))
        wait_until(lambda: service.health() == "ok", 10, "health says ok")
    return f"caught up {slowest:.1f} s after the start at the latest, by itself"


def postgres_away_at_the_start(bench):
    """Postgres away at the start | waits, 503, and serves once it is there"""
    bench.postgres()
    bench.cluster.stop()
    service = bench.service()
    wait_until(lambda: service.try_request(SPENT) is not None, 10, "listening")
    service.wait_said("the first refresh failed", 20, level="ERROR")
    expect(service.request(SPENT).status == 503, "something is served")
    bench.cluster.start()
    took = bench.expect_exact(service)
    return f"served {took:.1f} s after the start"


def sqlite_locked(bench):
    """SQLite locked by another for longer than one waits | last good filter; catches up, exact"""
    notes = []
    for journal in ("delete", "wal"):
        bench.sqlite(journal=journal)
        service = bench.ready(data=bench.work / f"data-{journal}")
        before = service.whole()
        bench.add(500)
        # Another process of the mint's, as a migration would.
        other = bench.mint.connect()
        late = bench.make(500)
        other.execute("BEGIN EXCLUSIVE")
        bench.mint.add_spent(late, other, commit=False)
        start = time.monotonic()
        service.hangup()
        if journal == "delete":
            wait_until(lambda: service.said("refresh failed", "ERROR") or time.monotonic() - start > 12, 15, "an error")
            expect(service.whole().etag in (before.etag, service.etag()), "a body that is none")
            failed = len(service.said("refresh failed", "ERROR"))
        else:
            # Readers of a WAL are not held up; what is not committed is not seen.
            bench.expect_exact(service)
            failed = 0
        other.execute("COMMIT")
        bench.notes += late
        took = bench.expect_exact(service)
        other.close()
        notes.append(f"{journal}: {failed} refreshes failed, caught up in {took:.1f} s")
        service.kill()
        bench.mint.close()
        for file in bench.work.glob("mint.sqlite*"):
            file.unlink()
    bench.sqlite()
    return "; ".join(notes)


def writers_are_not_held_up(bench):
    """the service reads all the time | no write of the mint's fails or waits for it"""
    waits = []
    for journal in ("wal", "delete"):
        bench.sqlite(journal=journal)
        service = bench.ready(data=bench.work / f"data-{journal}")
        alone, together = [], []
        for times, reading in ((alone, False), (together, True)) * 2:
            for _ in range(40):
                if reading:
                    service.hangup()
                start = time.monotonic()
                bench.add(20)
                times.append(time.monotonic() - start)
                time.sleep(0.01)
        bench.expect_exact(service)
        waits.append(f"{journal}: slowest transaction {max(alone) * 1000:.0f} ms alone, "
                     f"{max(together) * 1000:.0f} ms beside the readings")
        # A hundred times the whole reading of such a table: a lock would be seen, a busy machine is not.
        expect(max(together) < max(2.0, 20 * max(alone)), waits[-1])
        service.kill()
        bench.mint.close()
        for file in bench.work.glob("mint.sqlite*"):
            file.unlink()
    bench.sqlite()
    return "; ".join(waits)


def sqlite_slow(bench):
    """SQLite's disk slow | last good filter meanwhile, answers as fast as ever; then exact"""
    bench.sqlite()
    service = bench.ready(refresh=60)
    before = service.whole()
    bench.add(500)
    # A full re-read, with every read of the disk taking its time.
    bench.delete(1)
    with system_calls(service, "pread64:delay_enter=3000"):
        start = time.monotonic()
        service.hangup()
        asked, slowest = 0, 0.0
        while not service.said("refreshed")[1:] and time.monotonic() - start < 4:
            at = time.monotonic()
            answer = service.request(SPENT, "HEAD")
            slowest = max(slowest, time.monotonic() - at)
            expect(answer.status == 200, f"status {answer.status}")
            if not service.said("refreshed")[1:]:
                expect(service.etag() in (before.etag, answer.etag), "a body that is none")
            asked += 1
            time.sleep(0.02)
        lasted = time.monotonic() - start
    bench.expect_exact(service)
    expect(slowest < 1, f"an answer took {slowest:.2f} s")
    return f"asked {asked} times in {lasted:.1f} s of a slow reading; slowest answer {slowest * 1000:.0f} ms"


def postgres_hangs(bench):
    """Postgres hangs (SIGSTOP) | last good filter meanwhile; then exact"""
    bench.postgres()
    service = bench.ready()
    before = service.whole()
    processes = server_processes(bench.cluster)
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        service.hangup()
        bench.expect_last_good(service, before, 3)
    finally:
        for process in server_processes(bench.cluster):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
    bench.add(100)
    took = bench.expect_exact(service)
    return f"caught up {took:.1f} s after it went on"


def server_processes(cluster):
    """The server and its children. (They are told in any order: a stopped one is as good as another.)"""
    first = int((cluster.data / "postmaster.pid").read_text().split("\n", 1)[0])
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(first)], capture_output=True, text=True, check=True)
    return [first, *map(int, children.stdout.split())]


def late_commit(bench):
    """a long transaction commits late | every note is served after the next reading, exact"""
    steps = 0
    for mint in ("cdk", "nutshell"):
        bench.postgres(mint)
        service = bench.ready(data=bench.work / f"data-{mint}")
        for _ in range(1 if bench.quick else 3):
            early, session = bench.make(50), bench.mint.session()
            session.do("BEGIN;" + insert_only(bench.mint, early))
            for _ in range(2):
                # Later, and committed before.
                bench.add(30)
                service.hangup()
                bench.expect_exact(service)
            session.do("COMMIT;")
            session.close()
            # At the end of the list: the filter has no order.
            bench.notes += early
            bench.expect_exact(service)
            steps += 1
        expect(not service.said(REREAD, "WARN"), "all was read again")
        service.kill()
    for journal in ("wal", "delete"):
        bench.sqlite(journal=journal)
        service = bench.ready(data=bench.work / f"data-sqlite-{journal}")
        other, late = bench.mint.connect(), bench.make(50)
        bench.mint.add_spent(late, other, commit=False)
        service.hangup()
        time.sleep(0.3)
        expect(service.n() == len(bench.notes), "what is not committed is served")
        other.execute("COMMIT")
        other.close()
        bench.notes += late
        bench.expect_exact(service)
        steps += 1
        service.kill()
        bench.mint.close()
        for file in bench.work.glob("mint.sqlite*"):
            file.unlink()
    bench.sqlite()
    return f"{steps} late commits, none lost, none by reading all again on Postgres"


def insert_only(mint, notes):
    """Without CDK's totals, whose one row would keep all other transactions waiting."""
    sql = mint.adding(notes)
    if mint.mint == "cdk":
        sql = sql.removeprefix("WITH added AS (").split(" RETURNING 1)")[0] + ";"
    return sql


def flips_late(bench):
    """CDK's notes that are pending and spent later | served when they are spent, and not before"""
    bench.sqlite()
    service = bench.ready()
    pending = bench.make(300)
    connection = bench.mint.connection
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO proof (y, amount, keyset_id, secret, c, state) "
                           "VALUES (?, 1, '00deadbeefc0ffee', 's', x'02', 'PENDING')", ((y,) for y in pending))
    connection.execute("COMMIT")
    for start in range(0, 300, 100):
        bench.add(50)
        service.hangup()
        bench.expect_exact(service)
        now = pending[start:start + 50]  # the other half is deleted
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("UPDATE proof SET state = 'SPENT' WHERE y = ?", ((y,) for y in now))
        connection.executemany("DELETE FROM proof WHERE y = ?", ((y,) for y in pending[start + 50:start + 100]))
        connection.execute("UPDATE keyset_amounts SET total_redeemed = total_redeemed + 50")
        connection.execute("COMMIT")
        bench.notes += now
        service.hangup()
        bench.expect_exact(service)
    expect(not service.said(REREAD, "WARN"), "all was read again")
    return "150 flips and 150 deletions of what was never spent, without reading all again"


def restored_sqlite(bench):
    """SQLite restored to an older state | full rebuild, warning, exact"""
    seen = []
    for mint in ("cdk", "nutshell"):
        for way in ("replaced", "written over"):
            bench.sqlite(mint)
            service = bench.ready(data=bench.work / f"data-{mint}-{way.split()[0]}")
            backup, then = bench.work / "backup.sqlite", list(bench.notes)
            with contextlib.closing(sqlite3.connect(backup)) as copy:
                bench.mint.connection.backup(copy)
            bench.add(300)
            bench.expect_exact(service)
            restore(bench, backup, way)
            bench.notes = then
            # The mint goes on, and has as many notes as before after a while.
            for more in (0, 100, 200):
                if more:
                    bench.add(more)
                service.hangup()
                bench.expect_exact(service)
            expect(service.said(REREAD, "WARN"), "no warning that all is read again")
            expect(service.said("the mint has fewer notes than before", "WARN"), "no warning of fewer notes")
            expect(service.metric("nutfilter_full_rereads_total") >= 1, "no metric of reading all again")
            seen.append(f"{mint} {way}")
            service.kill()
            bench.mint.close()
            for file in bench.work.glob("*.sqlite*"):
                file.unlink()
    bench.sqlite()
    return f"noticed and exact: {', '.join(seen)}"


def restore(bench, backup, way):
    mint = bench.mint
    if way == "written over":
        with contextlib.closing(sqlite3.connect(backup)) as copy:
            copy.backup(mint.connection)
        return
    mint.close()
    for suffix in ("-wal", "-shm"):
        pathlib.Path(f"{mint.path}{suffix}").unlink(missing_ok=True)
    shutil.copy(backup, mint.path.with_suffix(".new"))
    mint.path.with_suffix(".new").rename(mint.path)
    mint.connection = mint.connect()
    mint.connection.execute("PRAGMA journal_mode = wal")
    mint.count()


def restored_with_as_many_notes(bench):
    """restored, and grown to as many notes as before, between two readings | full rebuild, exact"""
    bench.sqlite("cdk")
    service = bench.ready(refresh=3600)
    backup, then = bench.work / "backup.sqlite", list(bench.notes)
    with contextlib.closing(sqlite3.connect(backup)) as copy:
        bench.mint.connection.backup(copy)
    bench.add(300)
    service.hangup()
    bench.expect_exact(service)
    restore(bench, backup, "written over")
    bench.notes = then
    bench.add(300)  # others than before
    old = service.etag()
    service.hangup()
    service.wait_new(old, 20)
    bench.expect_exact(service)
    expect(service.said(REREAD, "WARN"), "no warning that all is read again")
    return "noticed by rows that are not where they were"


def restored_postgres(bench):
    """Postgres restored to an older state | full rebuild, warning, exact"""
    bench.postgres("cdk")
    service = bench.ready()
    bench.mint.psql("CREATE DATABASE older TEMPLATE mint_cdk", database="postgres") if free(bench) else None
    then = list(bench.notes)
    bench.add(300)
    bench.expect_exact(service)
    bench.mint.psql("DROP DATABASE mint_cdk WITH (FORCE)", database="postgres")
    service.hangup()
    time.sleep(0.5)
    expect(service.request(SPENT).status == 200, "nothing is served while there is no database")
    bench.mint.psql("ALTER DATABASE older RENAME TO mint_cdk", database="postgres")
    bench.notes = then
    bench.add(100)
    bench.expect_exact(service)
    expect(service.said(REREAD, "WARN"), "no warning that all is read again")
    expect(service.said("the mint has fewer notes than before", "WARN"), "no warning of fewer notes")
    return "noticed and exact"


def free(bench):
    """A template may have no sessions: the service's is asked to go."""
    bench.mint.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'mint_cdk'",
                    database="postgres")
    return True


def rows_deleted(bench):
    """rows deleted | full rebuild, warning, exact"""
    for database in ("sqlite", "postgres"):
        bench.sqlite("nutshell") if database == "sqlite" else bench.postgres("cdk")
        service = bench.ready(data=bench.work / f"data-{database}")
        bench.delete(100)
        service.hangup()
        bench.expect_exact(service)
        expect(service.said(REREAD, "WARN"), f"{database}: no warning that all is read again")
        expect(service.said("the mint has fewer notes than before", "WARN"), f"{database}: no warning of fewer notes")
        # As many deleted as added between two readings.
        bench.delete(50)
        bench.add(50)
        service.hangup()
        bench.expect_exact_soon(service)
        service.kill()
        bench.mint.close()
    return "noticed and exact, also where as many were added"


def rows_renumbered(bench):
    """VACUUM, which may renumber nutshell's rows | full rebuild if it did, exact"""
    bench.sqlite("nutshell")
    bench.delete(1000)
    service = bench.ready()
    rereads = []
    for renumber in (False, True):
        bench.mint.connection.execute("VACUUM")
        if renumber:
            # The SQLite of these days keeps the numbers, and says that it need not.
            bench.mint.connection.execute("UPDATE proofs_used SET rowid = rowid - 1000")
        bench.add(200)
        service.hangup()
        bench.expect_exact(service)
        rereads.append(int(service.metric("nutfilter_full_rereads_total")))
    expect(rereads[1] > rereads[0], "not noticed")
    return "noticed and exact"


ROWS = [postgres_stopped, postgres_away_at_the_start, sqlite_locked, writers_are_not_held_up, sqlite_slow,
        postgres_hangs, late_commit, flips_late, restored_sqlite, restored_with_as_many_notes, restored_postgres,
        rows_deleted, rows_renumbered]
