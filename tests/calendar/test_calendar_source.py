"""Questions about a host's files: answered in time, whatever the file system does."""

import asyncio
import os
import threading

import pytest

from weir.calendar.agents.source import Questions, source_place, tree_bytes
from weir.errors import BadInput, Unavailable


def test_a_size_is_counted_as_find_does(tmp_path):
    for number in range(50):
        place = tmp_path / f"d{number % 7}" / f"f{number}"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(b"x" * number)
    (tmp_path / "d0" / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "d0" / "fifo")
    assert tree_bytes(tmp_path) == sum(range(50))


def test_a_file_swapped_for_a_fifo_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    # It would be waited for without end.
    assert tree_bytes(tmp_path / "fifo") == 0


def test_a_count_has_an_end(tmp_path):
    for number in range(10):
        (tmp_path / str(number)).write_bytes(b"")
    with pytest.raises(BadInput, match="give the size"):
        tree_bytes(tmp_path, seconds_max=0)


@pytest.mark.parametrize("path", ["/etc/passwd", "link", "down/../../x"])
def test_nothing_leads_out_of_the_root(tmp_path, path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to("/etc")
    with pytest.raises(BadInput, match="out of the root"):
        source_place(tmp_path / "root", path)


@pytest.mark.parametrize("path", ["loop", "loop/below", "there", "back/there"])
def test_a_link_that_leads_to_itself_is_named(tmp_path, path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "there").symlink_to("back")
    (tmp_path / "back").symlink_to("there")
    with pytest.raises(BadInput, match="leads to itself"):
        source_place(tmp_path, path)


def test_a_question_that_hangs_holds_up_neither_others_nor_the_end():
    hung = threading.Event()

    async def ask():
        questions = Questions(count_max=2)
        stuck = [asyncio.create_task(questions.ask(hung.wait, 0.2)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="does not answer"):
            await questions.ask(lambda: 5)
        for task in stuck:
            with pytest.raises(Unavailable, match="in time"):
                await task
        hung.set()
        for _ in range(6000):
            try:
                return await questions.ask(lambda: 5)
            except Unavailable:
                await asyncio.sleep(0.01)

    assert asyncio.run(ask()) == 5
