"""What the controller does when cables, switches and promises fail."""

from collections import Counter

import pytest
from control_rig import Fabric, Packet, network, ports

from weir.calendar.agents.enforcer import Allotment, Pair
from weir.control import messages as m
from weir.control.awaited import PATIENCE_S
from weir.control.cabling import EVERY_S
from weir.control.core import REFUSALS_MAX, RETRY_S, Core
from weir.control.lldp import Origin, frame, origin
from weir.control.promises import LINGER_S, PERIOD_S

SQUARE = network(
    ["h1", "h2"],
    [("h1", "s1"), ("s1", "s2"), ("s2", "h2"), ("s1", "s3"), ("s3", "s2")],
    ["s1", "s2", "s3"],
)
PAIR = Pair("10.0.0.1", "10.0.0.2", 7411)
DIRECT = ["h1s1.forward", "s1s2.forward", "s2h2.forward"]
AROUND = ["h1s1.forward", "s1s3.forward", "s3s2.forward", "s2h2.forward"]


class Running:
    """A core with its switches, which have done everything at the start."""

    def __init__(self, allotted=None, made=SQUARE):
        self.core, self.fabric, self.now_s = Core(made), Fabric(made), 0.0
        self.counts = Counter()
        self.core.allot({PAIR: Allotment(10**8)} if allotted is None else allotted)
        self.fabric.connect(self.core)
        self.fabric.settle(self.core, 0.0)

    def go_on(self, seconds, cables=None, others=()):
        """Lets time pass.

        `cables` says where a frame arrives that a port of a switch sends; `others` are ports by
        which other packets come in all the time. Switches without cables do not answer.
        """
        for _ in range(round(seconds / 0.1)):
            self.now_s += 0.1
            out = self.core.poll(self.now_s)
            self.fabric.take(out)
            self.fabric.counts = self.counts if cables else None
            self.counts.update(others)
            for name, messages in out.items() if cables else ():
                for message in messages:
                    at = isinstance(message, m.PacketOut) and cables(name, message.port)
                    if at:
                        self.counts.update([at])
                        self.core.on_frame(*at, message.frame)
            for name, queue in self.fabric.queues.items():
                while queue:
                    self.fabric.do_one(self.core, name, self.now_s)

    def path(self):
        """The links that a packet of the pair takes, and whether it is one with a promise."""
        path, packet = self.fabric.trace(DIRECT[0], Packet("10.0.0.1", "10.0.0.2", 7411))
        return path, packet.dscp == 10


def as_wired(made, exchanged=()):
    """Where frames arrive: as in the file, with the cables at two ports of a switch exchanged."""

    def leads(switch, port):
        for at, one, other in exchanged:
            if switch == at and port in (one, other):
                port = other if port == one else one
                break
        for link in made.links.values():
            leaves = ports(made, switch)[link.source_port] if link.source == switch else None
            if leaves == port and link.target in made.datapaths:
                return link.target, ports(made, link.target)[link.target_port]
        return None

    return leads


def test_a_port_that_goes_down_is_gone_round_and_the_path_is_taken_up_again():
    run = Running()
    assert run.path() == (DIRECT, True)
    up = ports(SQUARE, "s1")
    run.core.on_ports("s1", {name: x for name, x in up.items() if name != "s2"})
    # No time passes: as soon as the switches have done what they are told.
    run.fabric.settle(run.core, run.now_s)
    assert run.path() == (AROUND, True)
    assert run.core.path(PAIR) == AROUND
    back, _ = run.fabric.trace("s2h2.backward", Packet("10.0.0.2", "10.0.0.1", 50_000))
    assert back == ["s2h2.backward", "s3s2.backward", "s1s3.backward", "h1s1.backward"]
    run.core.on_ports("s1", up)
    run.fabric.settle(run.core, run.now_s)
    assert run.path() == (DIRECT, True)


def test_without_any_path_the_pair_goes_nowhere_and_this_is_said():
    run = Running()
    up = ports(SQUARE, "s1")
    run.core.on_ports("s1", {"h1": up["h1"]})
    run.go_on(2 * PERIOD_S)
    assert run.path() == (DIRECT[:1], False)
    assert run.core.kept()[PAIR].detail == "no path is up that it could take"


def test_before_the_calendar_has_spoken_nothing_is_changed():
    made = Running()
    core = Core(SQUARE)
    made.fabric.told.clear()
    made.fabric.connect(core)
    made.fabric.settle(core, 0.0)
    assert made.fabric.told == []


def test_cables_as_in_the_file_are_no_reason_to_complain():
    run = Running()
    run.go_on(3, as_wired(SQUARE))
    assert run.core.complaints() == []
    assert run.core.take_told() == []
    assert run.path() == (DIRECT, True)


def test_a_wrong_cable_is_named_and_not_used():
    run = Running()
    one, other = ports(SQUARE, "s1")["s2"], ports(SQUARE, "s1")["s3"]
    run.go_on(1, as_wired(SQUARE, [("s1", one, other)]))
    assert run.core.complaints() == [
        "link s1s2.forward: port s2 of s1 leads to port s1 of s3, not to port s1 of s2",
        "link s1s3.forward: port s3 of s1 leads to port s1 of s2, not to port s1 of s3",
    ]
    assert run.core.take_told() == run.core.complaints()
    assert run.core.path(PAIR) == []


def test_a_port_that_is_down_is_not_taken_for_a_wrong_cable():
    run = Running()
    run.go_on(1, as_wired(SQUARE))
    up = ports(SQUARE, "s1")
    run.core.on_ports("s1", {name: x for name, x in up.items() if name != "s2"})
    run.go_on(0.5, as_wired(SQUARE))
    assert run.core.complaints() == []


def test_a_port_that_the_file_names_and_the_switch_does_not_have_is_told():
    run = Running()
    up = ports(SQUARE, "s1")
    run.core.on_ports("s1", {name: x for name, x in up.items() if name not in ("s2", "h1")})
    assert run.core.take_told() == [
        "port h1 of s1 is not there or down: h1s1.forward, h1s1.backward not used",
        "port s2 of s1 is not there or down: s1s2.forward, s1s2.backward not used",
    ]
    run.core.on_gone("s1")
    run.core.on_connected("s1", {name: x for name, x in up.items() if name != "s2"})
    assert run.core.take_told() == ["port h1 of s1 is up"]
    run.core.on_ports("s1", up | {"of nobody": 99})
    assert run.core.take_told() == ["port s2 of s1 is up"]


def test_a_port_that_is_not_there_from_the_beginning_is_told():
    core = Core(SQUARE)
    core.on_connected("s4", {})
    named = {line.split()[1] for line in core.take_told()}
    assert named == set(ports(SQUARE, "s4"))


def test_a_cable_that_falls_silent_is_gone_round_in_a_second():
    run = Running()
    wired = as_wired(SQUARE)
    run.go_on(2, wired)
    cut = ports(SQUARE, "s1")["s2"]
    run.go_on(1.0, lambda name, port: None if (name, port) == ("s1", cut) else wired(name, port))
    assert run.path() == (AROUND, True)
    assert run.core.take_told() == ["link s1s2.forward carries nothing any more"]
    run.go_on(1.0, wired)
    assert run.path() == (DIRECT, True)
    assert run.core.take_told() == ["link s1s2.forward carries packets again"]


def test_a_cable_whose_queue_loses_our_frames_is_alive_while_packets_come_out_of_it():
    run = Running()
    wired = as_wired(SQUARE)
    run.go_on(2, wired)
    cut, enters = ports(SQUARE, "s1")["s2"], ports(SQUARE, "s2")["s1"]

    def lost(name, port):
        return None if (name, port) == ("s1", cut) else wired(name, port)

    run.go_on(5, lost, [("s2", enters)])
    assert run.core.take_told() == []
    run.go_on(2, lost)
    assert run.core.take_told() == ["link s1s2.forward carries nothing any more"]


def test_switches_that_are_busy_are_no_cut_cables():
    run = Running()
    run.go_on(2, as_wired(SQUARE))
    run.go_on(10)
    assert run.core.take_told() == []
    # They are asked no more until they answer.
    assert not any(isinstance(x, m.ReadPorts) for out in run.core.poll(99.0).values() for x in out)


def test_a_controller_that_stood_still_does_not_take_that_for_silence():
    run = Running()
    run.go_on(1, as_wired(SQUARE))
    run.now_s += 10
    run.go_on(2 * EVERY_S, as_wired(SQUARE))
    assert run.core.take_told() == []


def test_what_a_switch_refuses_is_said_once_and_tried_again():
    run = Running({})
    run.core.allot({PAIR: Allotment(10**8)})
    for _ in range(3):
        run.fabric.take(run.core.poll(run.now_s))
        kept = [x for x in run.fabric.queues["s1"] if not isinstance(x, m.AddMeter)]
        assert kept != run.fabric.queues["s1"]
        run.fabric.queues["s1"] = []
        run.core.on_refused("s1", "no meters here", run.now_s)
        run.core.on_done("s1")
        # Not at once: that would be for ever.
        assert "s1" not in run.core.poll(run.now_s + EVERY_S / 2)
        run.now_s += RETRY_S
        out = run.core.poll(run.now_s)
        assert m.Read() in out["s1"]
        run.core.on_read("s1", run.fabric.does["s1"], {}, run.now_s)
    assert run.core.take_told() == ["switch s1 refuses: no meters here"]


def test_each_thing_that_a_switch_refuses_is_said_once_however_they_alternate():
    """A switch without meters refuses the meter, and the rule that names it: each time anew."""
    core = Core(SQUARE)
    core.on_connected("s1", ports(SQUARE, "s1"))
    for at_s in range(20):
        for why in ("no meters here", "no such meter"):
            core.on_refused("s1", why, at_s)
    told = [x for x in core.take_told() if "refuses" in x]
    assert told == ["switch s1 refuses: no meters here", "switch s1 refuses: no such meter"]
    for number in range(10_000):
        core.on_refused("s1", f"made up: {number}", 20.0)
    assert len([x for x in core.take_told() if "refuses" in x]) == REFUSALS_MAX - 2


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        (m.Read, "told its rules and meters"),
        (m.Barrier, "confirmed its changes"),
        (m.ReadPorts, "told its ports' counters"),
    ],
)
def test_a_switch_that_never_answers_what_it_is_asked_is_told(kind, missing):
    """It goes on to say that it is there, and so nobody heard that nothing reaches it."""
    run = Running(allotted={})
    kept, running = run.fabric.queues["s1"], [True]

    def go_on(seconds):
        for _ in range(round(seconds / 0.1)):
            run.now_s += 0.1
            run.fabric.take(run.core.poll(run.now_s))
            for name, queue in run.fabric.queues.items():
                held = [x for x in queue if isinstance(x, kind)] if name == "s1" else []
                if running[0] and held:
                    queue[:] = [x for x in queue if x not in held]
                while queue:
                    run.fabric.do_one(run.core, name, run.now_s)

    run.core.take_told()
    run.core.allot({PAIR: Allotment(10**7)})
    go_on(PATIENCE_S - 1)
    told = f"switch s1 has not {missing} for 10 s, though asked"
    assert told not in run.core.take_told()
    go_on(5)
    assert run.core.take_told().count(told) == 1
    go_on(30)
    assert run.core.take_told() == []
    # What the switch was asked and had held back is answered now.
    running[0] = False
    kept.append(kind() if kind is not m.Read else m.Read())
    go_on(1)
    assert "switch s1 answers again" in run.core.take_told()


def test_a_controller_that_stood_still_takes_no_switch_for_one_that_does_not_answer():
    run = Running()
    run.go_on(1, cables=lambda name, port: None)
    run.core.take_told()
    run.fabric.take(run.core.poll(run.now_s + 1))
    run.fabric.take(run.core.poll(run.now_s + 100))
    assert run.core.take_told() == []


def test_a_question_that_a_switch_refuses_is_asked_again():
    core = Core(SQUARE)
    core.on_connected("s1", ports(SQUARE, "s1"))
    assert core.missing() == ["s2", "s3"]
    assert m.Read() in core.poll(0.0)["s1"]
    core.on_refused("s1", "meters", 0.1)
    assert m.Read() not in core.poll(0.2).get("s1", [])
    assert m.Read() in core.poll(0.1 + RETRY_S)["s1"]
    assert core.take_told()[-1] == "switch s1 refuses: meters"


def counted(run, switch, bytes_):
    """The pair's rules at a switch let so many bytes pass."""
    passed = run.fabric.passed[switch]
    for place in run.fabric.does[switch].rules:
        if place.match.eth_source or (place.match.protocol == m.TCP and place.priority == 40_000):
            passed[place] = passed.get(place, 0) + bytes_


def sending(run, seconds, **bytes_per_s):
    """A source sends so much, of which switches see what is said."""
    for _ in range(round(seconds / 0.5)):
        for switch, count in bytes_per_s.items():
            counted(run, switch, count // 2)
        run.go_on(0.5)


def test_a_promise_is_kept_by_what_the_last_switch_has_carried():
    run = Running()
    sending(run, 10 * PERIOD_S, s1=12_500_000, s2=12_000_000)
    kept = run.core.kept()[PAIR]
    assert kept.alarm == ""
    assert kept.promised_bytes == pytest.approx(20 * 12_500_000, rel=0.1)
    assert kept.carried_bytes == pytest.approx(20 * 12_000_000, rel=0.1)


def test_a_booking_that_stays_empty_is_an_alarm_within_a_period():
    run = Running()
    sending(run, 3 * PERIOD_S, s1=10**7, s2=10**7)
    assert run.core.kept()[PAIR].alarm == ""
    run.go_on(PERIOD_S)
    kept = run.core.kept()[PAIR]
    assert (kept.alarm, kept.detail) == ("empty", "nothing has entered at s1")
    sending(run, 2 * PERIOD_S, s1=10**7, s2=10**7)
    assert run.core.kept()[PAIR].alarm == ""


def test_packets_that_leave_the_path_are_an_alarm():
    run = Running()
    sending(run, 3 * PERIOD_S, s1=10**7)
    kept = run.core.kept()[PAIR]
    assert kept.alarm == "astray"
    assert kept.detail.endswith("bytes entered at s1, and none passed s2")


def test_a_switch_that_does_not_answer_is_no_empty_booking():
    run = Running()
    sending(run, 3 * PERIOD_S, s1=10**7, s2=10**7)
    run.core.on_gone("s1")
    run.go_on(3 * PERIOD_S)
    assert run.core.kept()[PAIR].alarm == ""


def test_a_rule_that_was_put_back_counts_from_nothing_and_nothing_is_lost():
    run = Running()
    sending(run, 2 * PERIOD_S, s1=10**7, s2=10**7)
    run.fabric.passed["s2"].clear()
    sending(run, 2 * PERIOD_S, s1=10**7, s2=10**7)
    assert run.core.kept()[PAIR].carried_bytes == pytest.approx(8 * 10**7, rel=0.15)


def test_what_was_under_way_when_a_booking_ended_is_counted():
    run = Running()
    sending(run, 2 * PERIOD_S, s1=10**7, s2=10**7)
    promised_bytes = run.core.kept()[PAIR].promised_bytes
    run.core.allot({})
    counted(run, "s2", 10**7)
    run.go_on(LINGER_S / 2)
    kept = run.core.kept()[PAIR]
    assert kept.carried_bytes == 5 * 10**7
    assert (kept.promised_bytes, kept.alarm) == (pytest.approx(promised_bytes, rel=0.4), "")
    run.go_on(LINGER_S)
    assert run.core.kept() == {}


def test_a_frame_tells_where_it_comes_from():
    data = frame(Origin(0xFFFF_0000_0000_0001, 70_000))
    assert origin(data) == Origin(0xFFFF_0000_0000_0001, 70_000)
    # By IEEE 802.1AB: chassis (type 1), port (type 2), time to live (type 3), end.
    assert data[:6].hex(":") == "01:80:c2:00:00:0e"
    assert data[12:14].hex() == "88cc"
    assert data[14] >> 1 == 1
    assert data[-6:].hex() == "060200040000"
    for end in range(len(data)):
        assert origin(data[:end]) in (None, Origin(0xFFFF_0000_0000_0001, 70_000))
    assert origin(data.replace(b"weir:", b"else:")) is None


def test_a_pair_is_in_force_only_when_its_first_switch_sends_it_along_its_path():
    run = Running(allotted={})
    assert not run.core.is_in_force(PAIR)
    run.core.allot({PAIR: Allotment(10**8, tuple(AROUND))})
    steps = [(run.core.is_in_force(PAIR), run.path()[0] == AROUND)]
    for _ in range(40):
        run.fabric.take(run.core.poll(run.now_s))
        for name in [name for name, queue in run.fabric.queues.items() if queue]:
            run.fabric.do_one(run.core, name, run.now_s)
            steps.append((run.core.is_in_force(PAIR), run.path()[0] == AROUND))
        run.now_s += 0.1
    assert steps[-1] == (True, True)
    # It is never said before it is so.
    assert (True, False) not in steps
