"""A hand at a desktop: presses the keys that somebody far away names.

`python -m studies.rig.desktop.hand DISPLAY PORT`: what comes over a TCP connection to PORT is
pressed, a byte a key, as xdotool would do it (the extension XTEST).
"""

import socket
import sys

from studies.rig.output import write_line


def main(arguments: list[str]) -> None:
    """Says when it can be reached; ends with the connection."""
    from Xlib import X, display
    from Xlib.ext import xtest

    name, port = arguments
    shown = display.Display(name)
    with socket.create_server(("", int(port))) as server:
        write_line("ready")
        connection, _ = server.accept()
        with connection:
            while key := connection.recv(1):
                code = shown.keysym_to_keycode(ord(key))
                for event in (X.KeyPress, X.KeyRelease):
                    xtest.fake_input(shown, event, code)
                shown.sync()


if __name__ == "__main__":
    main(sys.argv[1:])
