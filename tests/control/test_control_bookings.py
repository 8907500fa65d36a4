"""From the counters of pairs to the promises of transfers, and what the calendar makes of them."""

import asyncio
import time

from control_rig import network

from weir.calendar.agents.edge import EdgeAgent
from weir.calendar.agents.enforcer import Pair
from weir.calendar.service.kept import Change, Promises
from weir.calendar.service.kept import Kept as Told
from weir.calendar.service.models import KeptReport
from weir.control.bookings import Bookings
from weir.control.core import Core
from weir.control.enforcer import SwitchEnforcer
from weir.control.promises import Kept

PAIR = Pair("10.0.0.1", "10.0.0.3", 7411)
PAIR_NETWORK = network(["h1", "h2"], [("h1", "s1"), ("s1", "h2")], ["s1"])


def assignment(identifier, rate_bps, **changes):
    values = {
        "id": identifier,
        "source_address": "10.0.0.1",
        "destination_address": None,
        "data_address": "10.0.0.3:7411",
        "rate_bps": rate_bps,
    }
    return values | changes


def counted(reports):
    return {x["id"]: (x["promised_bytes"], x["carried_bytes"], x["alarm"]) for x in reports}


def test_transfers_between_one_pair_share_what_it_carries_from_when_they_began():
    bookings, one, other = Bookings(), assignment("a", 3), assignment("b", 1)
    elsewhere = assignment("c", 1, source_address="10.0.0.9")
    assert counted(bookings.reports([one], {PAIR: Kept(100, 80)})) == {"a": (100, 80, None)}
    found = bookings.reports([one, other, elsewhere], {PAIR: Kept(500, 480, "empty", "why")})
    assert counted(found) == {"a": (400, 380, "empty"), "b": (100, 100, "empty")}
    assert found[0]["detail"] == "why"
    # The pair had ended, and begun again.
    assert counted(bookings.reports([one], {PAIR: Kept(10, 10)})) == {"a": (410, 390, None)}
    # What was under way when it ended is its own still, as long as the pair is known.
    assert counted(bookings.reports([], {PAIR: Kept(10, 15)})) == {"a": (410, 395, None)}
    assert bookings.reports([], {}) == []
    assert counted(bookings.reports([one], {PAIR: Kept(5, 5)})) == {"a": (5, 5, None)}


def test_who_has_sent_everything_has_no_empty_booking():
    bookings, broken = Bookings(), Kept(2000, 1040, "empty", "why")
    one, unknown = assignment("a", 1, size_bytes=1000), assignment("a", 1)
    assert counted(bookings.reports([one], {PAIR: Kept(999, 999, "empty", "why")})) == {
        "a": (999, 999, "empty")
    }
    assert bookings.reports([one], {PAIR: broken})[0]["alarm"] is None
    assert bookings.reports([one], {PAIR: broken})[0]["detail"] is None
    # Packets elsewhere are an alarm, however many; a calendar older than this tells no size.
    astray = bookings.reports([one], {PAIR: Kept(2000, 1040, "astray", "why")})
    assert astray[0]["alarm"] == "astray"
    assert bookings.reports([unknown], {PAIR: broken})[0]["alarm"] == "empty"


def test_no_report_says_more_than_the_calendar_takes():
    bookings, at = Bookings(), [assignment("a", 10**8)]
    bookings.reports(at, {PAIR: Kept()})
    [report] = bookings.reports(at, {PAIR: Kept(100, 2**64)})
    assert KeptReport(**report).carried_bytes == 10**18


def test_an_alarm_is_reported_at_once():
    posted = []

    class Stream:
        async def messages(self):
            await asyncio.Event().wait()
            yield {}

        async def post(self, kind, body):
            posted.append(time.monotonic())
            return {}

    async def work():
        agent = EdgeAgent(Stream(), SwitchEnforcer(Core(PAIR_NETWORK), lambda: None), stays=True)
        running = asyncio.create_task(agent.run())
        async with asyncio.timeout(60):
            while not posted:
                await asyncio.sleep(0)
            # As fast as can be; by the clock alone it would be a second for each.
            for count in range(1, 100):
                agent.report()
                while len(posted) <= count:
                    await asyncio.sleep(0)
        running.cancel()

    asyncio.run(work())
    assert len(posted) == 100
    assert posted[-1] - posted[0] < 50


def test_a_transfer_whose_ends_are_not_known_is_not_reported():
    unknown = assignment("a", 1, data_address=None)
    assert Bookings().reports([unknown], {PAIR: Kept(100, 80)}) == []


def test_an_alarm_is_told_when_it_begins_and_when_it_is_over():
    promises = Promises()
    assert promises.take({"a": Told(100, 90, None, None)}) == []
    broken = Told(200, 90, "empty", "nothing has entered at s1")
    data = {"promised_bytes": 200, "carried_bytes": 90}
    more = {"alarm": "empty", "reason": "nothing has entered at s1"}
    assert promises.take({"a": broken}) == [Change("a", "promise-broken", more | data)]
    assert promises.take({"a": broken}) == []
    assert promises.alarms == 1
    whole = Told(300, 190, None, None)
    data = {"promised_bytes": 300, "carried_bytes": 190}
    assert promises.take({"a": whole}) == [Change("a", "promise-kept", data)]
    # It has ended: what is known of it stays, and counts no more.
    assert promises.take({"b": Told(50, 50, "astray", "x")})[0].id == "b"
    assert promises.of("a") == whole
    assert (promises.promised_bytes, promises.carried_bytes) == (350, 240)
    # Another controller counts from nothing.
    promises.take({"b": Told(10, 10, None, None)})
    assert (promises.promised_bytes, promises.carried_bytes, promises.alarms) == (360, 250, 0)


def test_a_booking_over_several_paths_is_the_sum_of_its_pairs():
    bookings, second = Bookings(), Pair("10.0.0.1", "10.0.0.3", 7412)
    lanes = [{"path": ["x"], "rate_bps": 30}, {"path": ["y"], "rate_bps": 10}]
    one = assignment("a", 40, lanes=lanes, data_ports=[7411, 7412])
    other = assignment("b", 10)
    found = bookings.reports([one], {PAIR: Kept(300, 280), second: Kept(100, 90)})
    assert counted(found) == {"a": (400, 370, None)}
    # The other has one path, and shares that alone.
    kept = {PAIR: Kept(700, 680), second: Kept(200, 90, "empty", "why")}
    found = bookings.reports([one, other], kept)
    assert counted(found) == {"a": (800, 670, "empty"), "b": (100, 100, None)}
    assert found[0]["detail"] == "port 7412: why"
    # What goes astray is told rather than what is empty.
    kept[PAIR] = Kept(700, 680, "astray", "lost")
    found = bookings.reports([one], kept)
    assert (found[0]["alarm"], found[0]["detail"]) == ("astray", "port 7411: lost")
    # Both are its own still when it has ended.
    ended = bookings.reports([], {PAIR: Kept(700, 690), second: Kept(200, 95)})
    assert counted(ended) == {"a": (800, 685, None)}
