"""A full disk under the store: what was accepted stays, nothing more is, and then it goes on."""

import asyncio
import contextlib
import os
import re
import subprocess
import tempfile
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from calendar_lab import CalendarProcess, headers, request, settings, wait_for
from clusters import Cluster
from simulated_world import Clocks, VirtualLoop

from weir.calendar.service.service import Service
from weir.calendar.storage.store import Store
from weir.errors import Unavailable


@contextlib.contextmanager
def disk(size):
    """A file system of its own, that user postgres may enter."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    with tempfile.TemporaryDirectory(prefix="weir-full-") as place:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "weir-test", place]
        subprocess.run(mount, check=True)
        try:
            yield Path(place)
        finally:
            subprocess.run(["umount", "-l", place], check=True)


@contextlib.contextmanager
def filled(place):
    """No block of it is free."""
    filler = place / "filler"
    descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT)
    try:
        with contextlib.suppress(OSError):
            while True:
                os.write(descriptor, bytes(4096))
        yield
    finally:
        os.close(descriptor)
        filler.unlink()


def asked(name):
    return request(destination_path=name, size_bytes=1_000)


def submitted(client, names):
    """The ids of those that were accepted, and what was said of the others."""
    accepted, said = [], []
    for name in names:
        try:
            accepted.append(client.submit(asked(name), name)["id"])
        except Unavailable as error:
            said.append(str(error))
    return accepted, said


def known(client):
    return {one["id"] for one in client.list("all", 1_000)}


def test_an_sqlite_store_has_what_was_accepted_and_no_more(tmp_path):
    with disk("2m") as small:
        process = CalendarProcess(tmp_path, store=f"sqlite:///{small}/calendar.db").start()
        try:
            with process.client() as client:
                kept, _ = submitted(client, "abc")
                with filled(small):
                    more, said = submitted(client, map(str, range(20)))
                    assert said
                    assert all("database or disk is full" in one for one in said)
                    status = httpx.post(
                        f"{process.url}/v1/transfers",
                        json=asked("d"),
                        headers=headers(process.token),
                    )
                    assert (status.status_code, status.json()["status"]) == (503, 503)
                    assert known(client) == {*kept, *more}
                later, _ = submitted(client, "ef")
                assert len(later) == 2
                everything = {*kept, *more, *later}
                assert known(client) == everything
            process.kill()
            with filled(small):
                # Whoever takes a store over says so in it first.
                done = subprocess.run(process.command(), capture_output=True, text=True, timeout=60)
                assert done.returncode == 6
                assert "full" in done.stderr or "disk I/O error" in done.stderr
                assert "Traceback" not in done.stderr
            process.start()
            with process.client() as client:
                assert known(client) == everything
            assert "Traceback" not in (tmp_path / "calendar.log").read_text()
        finally:
            process.stop()


def test_a_postgresql_store_has_what_was_accepted_and_no_more(tmp_path):
    """First its tables have no room, then its log: it ends itself, and is started again."""
    with disk("100m") as small:
        cluster = Cluster(small / "cluster", durable=False)
        process = CalendarProcess(tmp_path, store=f"{cluster.url}postgres").start()
        try:
            with process.client() as client:
                kept, _ = submitted(client, "abc")
                with filled(small):
                    more, said = submitted(client, map(str, range(40)))
                    assert said
                    assert all("No space left on device" in one for one in said)
                    assert known(client) == {*kept, *more}
                    switch_logs(cluster)
                    none, said = submitted(client, "de")
                    assert (none, len(said)) == ([], 2)
                    wait_for(lambda: httpx.get(f"{process.url}/healthz").status_code == 503)
                # Some fail with their log, and some go on by themselves.
                if cluster.run("pg_ctl", "-D", cluster.data, "status") != 0:
                    cluster.start()
                later = wait_for(lambda: submitted(client, "f")[0])
                everything = {*kept, *more, *later}
                assert known(client) == everything
            process.kill()
            process.start()
            with process.client() as client:
                assert known(client) == everything
            assert not re.search("^Traceback", (tmp_path / "calendar.log").read_text(), re.M)
        finally:
            process.stop()
            cluster.stop()


def switch_logs(cluster):
    """Has it need files for its log until it has no room for one."""
    engine = sa.create_engine(
        f"{cluster.url.replace('postgresql', 'postgresql+psycopg')}postgres",
        isolation_level="AUTOCOMMIT",
    )
    with pytest.raises(sa.exc.OperationalError), engine.connect() as connection:
        for _ in range(20):
            connection.execute(sa.text("SELECT pg_logical_emit_message(false, 'weir', 'test')"))
            connection.execute(sa.text("SELECT pg_switch_wal()"))
    engine.dispose()


def test_the_health_of_a_store_that_failed_is_told_at_once_and_until_it_has_written(
    tmp_path, monkeypatch
):
    """It was said to be well for some seconds, and whenever there was nothing to write."""
    loop, seen = VirtualLoop(), []

    async def scenario():
        store = Store(f"sqlite:///{tmp_path / 'calendar.db'}")
        service = Service(settings(), store)
        await service.start()
        await asyncio.sleep(3)
        seen.append(service.healthy)
        commit = store.commit

        def full(outcomes, snapshot, *, anchor, always):
            if always:
                raise Unavailable("database or disk is full")
            return commit(outcomes, snapshot, anchor=anchor, always=always)

        with monkeypatch.context() as patch:
            patch.setattr(store, "commit", full)
            # The service's own time is written each second.
            await asyncio.sleep(1.5)
            for _ in range(20):
                await asyncio.sleep(0.1)
                seen.append(service.healthy)
        await asyncio.sleep(1.5)
        seen.append(service.healthy)
        await service.stop()

    with Clocks(loop).installed(monkeypatch):
        loop.run_until_complete(scenario())
    loop.close()
    assert seen == [True, *[False] * 20, True]
