"""Probing: round-trip times of a path, and what the kernel tells, as a stream of samples.

`Probe` is the type to start with:

    target = Target.resolve("dtn7")
    with Probe(target, IcmpEcho(target), Plan(rate_hz=Fraction(10))) as probe:
        for sample in probe:
            print(sample.at_ns, sample.mean_ns)

Which requests are due when, and what samples they make, is the work of `crates/probe`; `plan` and
`pattern` say what is asked, `echo` and `carrier` open the sockets.
"""

from weir.probe.active import PatternRun, TurnReport
from weir.probe.carrier import Carrier, DataSource, FileSource, Filler, SinkCarrier
from weir.probe.constructive import TransferCarrier
from weir.probe.echo import Echo, IcmpEcho, Target, UdpEcho
from weir.probe.pattern import Pattern, PatternError, Segment
from weir.probe.probe import Active, Probe
from weir.probe.responder import Responder
from weir.probe.sampling import Plan

__all__ = [
    "Active",
    "Carrier",
    "DataSource",
    "Echo",
    "FileSource",
    "Filler",
    "IcmpEcho",
    "Pattern",
    "PatternError",
    "PatternRun",
    "Plan",
    "Probe",
    "Responder",
    "Segment",
    "SinkCarrier",
    "Target",
    "TransferCarrier",
    "TurnReport",
    "UdpEcho",
]
