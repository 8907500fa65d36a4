"""The command line: one module per command, loaded only when it is called.

A command module has `configure(parser)`, which adds its arguments, and `run(args)`, which does
the work and returns the exit code. Exit codes are those of `weir.errors`; 130 is Ctrl-C. Further
commands come from packages that build on Weir (`weir.cli.plugins`), `studies` among them.
"""

import argparse
import contextlib
import errno
import gc
import importlib
import sys
from collections.abc import Iterator, Sequence

from weir import extras
from weir.cli import output, plugins, secret
from weir.cli.parser import Parser
from weir.errors import BadInput, Unavailable, WeirError

NO_THREAD = "can't start new thread"
"""What Python says where the system allows no more: a limit on processes, or on memory."""

COMMANDS: dict[str, str] = {
    "send": "send files or directories to a server, verified, paced, by a deadline",
    "get": "fetch files or directories from a server",
    "verify": "whether two places, local or at servers, hold the same, by hashes",
    "serve": "receive and offer files under given roots",
    "keys": "create the keys and certificates that servers and senders know each other by",
    "calendar": "the bandwidth calendar: serve it, and submit, list, show, cancel transfers",
    "why": "why a transfer waits, was refused, was slowed or will be late, in words",
    "agent": "carry out a calendar's assignments on this host",
    "control": "the controller of OpenFlow switches: puts into them what a calendar allots",
    "relay": "join many TCP connections into one and split them again, or relay each by itself",
    "migrate": "plan the live migration of many virtual machines over shared links",
    "probe": "round-trip times of a path, ten requests a sample, beside our own bursts if wanted",
    "ops": "who is on a path, by hand; what the recogniser learns from, and how good it is",
    "lab": "real hosts and emulated links on this machine: up, exec, status, down, run",
    "sim": "the scenario of a lab, packet by packet, in simulated time",
    "compare": "two results of weir sim or weir lab run side by side",
    "observe": "what no host can tell of itself: a fabric that stalls, a desktop that is late",
    "doctor": "what this machine allows, and what each missing thing disables",
    "completion": "lines by which bash, zsh or fish completes commands and options at Tab",
}

_EPILOG = """\
`weir COMMAND --help` says more of one. `weir doctor` tells what this machine allows; `weir run`
shows in a minute and a half what it is all for.

exit codes: 0 done; 1 a failure that has no other; 2 a wrong argument; 3 this machine cannot; 4
refused; 5 a transfer stopped; 6 nobody answers; 7 late; 130 Ctrl-C."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; every error a user can cause is one message and an exit code.

    With `--json` an error is an event on the standard output as well, unless the command told it.
    """
    is_program = argv is None
    args = argparse.Namespace()
    try:
        output.prepare()
        output.is_the_work(False)
        if is_program:
            secret.hide()
        with extras.named():
            with _imports_that_stay() if is_program else contextlib.nullcontext():
                argv = list(sys.argv[1:] if argv is None else argv)
                command = next((word for word in argv if word != "help"), "")
                args = build_parser(command).parse_args(argv)
            code = int(args.run(args))
        sys.stdout.flush()  # what cannot be printed counts here still
        return code
    except WeirError as error:
        output.is_the_work(False)  # from here on it is the error that counts
        output.tell(error, as_json=getattr(args, "json", False))
        return error.exit_code
    except output.Lost as lost:
        if not lost.is_quiet:
            print(f"weir: {lost}", file=sys.stderr)
        return lost.exit_code
    except OSError as error:
        # Nobody asks for this everywhere that a place is looked at.
        if error.errno != errno.ENAMETOOLONG:
            if not is_program:
                raise
            return _break(error, args)
        return _refuse(f"{error.filename}: {error.strerror}", args)
    except KeyboardInterrupt:
        output.hurry()
        return 130
    except Exception as error:
        if (no_text := _encoding(error)) is not None:
            # A byte of an argument that is no UTF-8, given to what takes text.
            wrong = str(no_text.object)[no_text.start :]
            return _refuse(f"{wrong!r:.60} is not UTF-8 text", args)
        if not is_program:
            raise
        if isinstance(error, RuntimeError) and str(error) == NO_THREAD:
            lacking = Unavailable("this system allows no more threads; try again later")
            output.is_the_work(False)
            output.tell(lacking, as_json=getattr(args, "json", False))
            return lacking.exit_code
        return _break(error, args)


def _encoding(error: BaseException | None) -> UnicodeEncodeError | None:
    """The failure to write a text as bytes that an error is, or comes from."""
    while error is not None and not isinstance(error, UnicodeEncodeError):
        error = error.__cause__
    return error


def _break(error: Exception, args: argparse.Namespace) -> int:
    """Tells what nobody has foreseen, in one line; the exit code.

    Who mends it wants to know where, which `WEIR_TRACEBACK=1` shows.
    """
    import os

    if os.environ.get("WEIR_TRACEBACK"):
        raise error
    output.is_the_work(False)
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{error.filename}: "
        text = f"{where}{error.strerror}"
    else:
        text = f"a fault of this program: {type(error).__name__}: {error}"
    text = " ".join(text.split())
    output.tell(WeirError(f"{text} (WEIR_TRACEBACK=1 shows where)"), getattr(args, "json", False))
    return WeirError.exit_code


def _refuse(message: str, args: argparse.Namespace) -> int:
    """Tells what is wrong with an argument; the exit code."""
    output.is_the_work(False)
    refused = BadInput(message)
    output.tell(refused, as_json=getattr(args, "json", False))
    return refused.exit_code


@contextlib.contextmanager
def _imports_that_stay() -> Iterator[None]:
    """No collection of garbage looks at what is imported here, the last one neither.

    A command is started for every small transfer, and these looks take a seventh of its start.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def build_parser(command: str) -> argparse.ArgumentParser:
    """The parser with every command's name, and with the arguments of `command` only.

    Importing one command's module keeps `weir send` from paying for FastAPI.
    """
    parser = Parser(
        prog="weir",
        description="Bulk data across shared networks, on time, fairly, and proven.",
        epilog=_EPILOG,
    )
    parser.add_argument("-V", "--version", action="version", version=_version())
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(name, help=summary)
        if name == command:
            _configure(sub, importlib.import_module(f"weir.cli.{name}"))
    # What is ours need not wait for a look at what is installed.
    for name, load in {} if command in COMMANDS else plugins.found("weir.commands").items():
        module = load()
        sub = commands.add_parser(name, help=module.SUMMARY)
        if name == command:
            _configure(sub, module)
    return parser


def _configure(parser: argparse.ArgumentParser, module: plugins.Command) -> None:
    module.configure(parser)
    parser.set_defaults(run=module.run)


def _version() -> str:
    from weir import __version__

    return f"weir {__version__}"
