"""What results of an interactive testbed are measured against (004-spec section 3.4)."""

from weir import Bytes, Rate, Time
from weir.errors import BadInput


def reference_time(size: Bytes, rtt: Time, rate: Rate) -> Time:
    """What one undisturbed download needs: two round trips, and the object at the link's rate."""
    return Time.from_ns(2 * rtt.ns + round(size.count * 8e9 / rate.bit_per_s))


def fair_rate(rate: Rate, taken: Rate, downloads: int) -> Rate:
    """What each download has of a link beside traffic of constant or limited rate.

    Args:
        rate: of the link.
        taken: by everything that is not a download.
        downloads: how many there are.

    Raises:
        BadInput: there are no downloads, or nothing is left for them.
    """
    if downloads < 1:
        raise BadInput(f"{downloads} downloads: a fair rate needs at least one")
    if taken >= rate:
        raise BadInput(f"{taken} taken of {rate} leave nothing for downloads")
    return Rate.from_bit_per_s((rate.bit_per_s - taken.bit_per_s) // downloads)


def axis_limit(rate: Rate, flows: int, starved: int = 0) -> Rate:
    """The upper end of the axis of a flow's rate: twice an equal share of those not starved.

    Raises:
        BadInput: all are starved.
    """
    if flows - starved < 1:
        raise BadInput(
            f"{starved} of {flows} flows starve: the axis needs at least one that does not"
        )
    return Rate.from_bit_per_s(2 * rate.bit_per_s // (flows - starved))
