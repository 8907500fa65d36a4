"""Every error that Weir raises on purpose, by what the caller can do about it.

    WeirError
    ├── BadInput       what was asked for cannot be right: mend the request        exit 2
    ├── Unsupported    this machine cannot do it: see `weir doctor`                exit 3
    ├── Refused        the request is well-formed and was turned down              exit 4
    ├── TransferFailed a transfer stopped; what was delivered stays resumable      exit 5
    ├── Unavailable    a peer or service did not answer: try again                 exit 6
    └── Late           everything arrived and is verified, but after its deadline  exit 7

A message says what was wrong, with which value and where, and what to do.
"""


class WeirError(Exception):
    """Base of all; `exit_code` is what the command line ends with.

    `is_told` says that a reader of `--json` has it among the events already.
    """

    exit_code = 1
    is_told = False


class BadInput(WeirError):
    """The request itself is wrong; nothing was started."""

    exit_code = 2


class Unsupported(WeirError):
    """This machine or user lacks something that the request needs."""

    exit_code = 3


class Refused(WeirError):
    """A calendar or server turned a well-formed request down, and said why."""

    exit_code = 4


class TransferFailed(WeirError):
    """A transfer ended before its files were delivered and verified."""

    exit_code = 5


class Unavailable(WeirError):
    """A peer or service could not be reached or broke off."""

    exit_code = 6


class Late(WeirError):
    """All of a transfer arrived and was verified, after the deadline it was due by."""

    exit_code = 7
