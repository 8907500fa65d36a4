"""`weir ops`: who is on a path, by hand; recordings of known traffic, and learning from them."""

import argparse
import shlex

from weir.cli import plugins

_EPILOG = """\
What is recorded, and what a file holds: docs/recordings.md.

exit codes: 0 done; 1 a recording has a flaw, and the same command makes it again; 2 a wrong
argument or file; 3 this machine has no labs, or lacks a congestion control (see weir doctor), or
scikit-learn, which train needs."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the sub-commands: the shell, and what studies bring along."""
    parser.epilog = _EPILOG
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    shell = commands.add_parser("shell", help="probing, choosing and sending by hand")
    shell.add_argument(
        "to", nargs="?", default="", metavar="HOST:PORT", help="the weir serve to send to"
    )
    shell.add_argument(
        "words",
        nargs="*",
        metavar="COMMAND",
        help="a command to run instead of a prompt, as in: -- probe 5",
    )
    shell.set_defaults(act=_shell)
    for name, load in plugins.found("weir.ops").items():
        module = load()
        command = commands.add_parser(name, help=module.SUMMARY)
        module.configure(command)
        command.set_defaults(act=module.run)


def run(args: argparse.Namespace) -> int:
    """Does what was asked."""
    return int(args.act(args))


def _shell(args: argparse.Namespace) -> int:
    from weir.cli import main
    from weir.congestion.recognisers import recogniser
    from weir.congestion.shell import Shell

    shell = Shell(recogniser, main, args.to)
    if args.words:
        shell.onecmd(shlex.join(args.words))
    else:
        shell.cmdloop()
    return shell.exit_code
