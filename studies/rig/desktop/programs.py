"""A desktop with real programs over a lossy line: a window manager, and a browser that shows.

As `lossy` has it, but for what paints and how it is known what a screen should show: nothing that
is shown carries a number. The X server says when it was painted to, and what it shows in the end;
the screen says since when it shows just that (`recorder`, `watcher`).
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from studies.rig.desktop import card, clip, lossy, page, recorder, watcher
from studies.rig.desktop.lossy import DESKTOP, KEEPER, RDP, SCREEN, VNC, Desktop, Line, Measured
from studies.rig.processes import module_command
from weir.errors import BadInput, Unsupported

PICTURE, TURN, CLIP, SLOW = "i", "p", "v", "s"
"""The keys of what there is to do; the last is the clip at a frame a second."""
_PROGRAMS = {"twm": "twm", "chromium": "chromium", "xdotool": "xdotool"}
"""Each with the Debian package that has it."""
_EXACT = (VNC, RDP)
# Whatever is shown has the whole screen. Without these fonts the server would need a package.
_TWM = """RandomPlacement
NoTitle
BorderWidth 0
""" + "".join(f'{one}Font "fixed"\n' for one in ("Title", "Menu", "Icon", "Resize", "IconManager"))
_FLAGS = (
    "--no-sandbox",  # which root cannot have
    "--test-type",  # else a bar over the page tells so
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
    "--password-store=basic",
    "--window-position=0,0",
)


def missing(protocol: str = VNC) -> str | None:
    """What is needed and this machine lacks, with the way to it; None if nothing."""
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            return f"{program} is not installed: apt-get install {package}"
    return lossy.missing(protocol)


def carry_out(
    plan: str,
    line: Line,
    seed: int,
    told: Callable[[str], None] = lambda key: None,
    *,
    clip_s: float = 6.0,
    name: str | None = None,
    protocol: str = VNC,
) -> list[Measured]:
    """Does the tasks of a plan, one after another.

    No marker says when a task ended (`Measured.marker`); `server` is when the X server was last
    painted to.

    Args:
        plan: of the keys `PICTURE`, `TURN`, `CLIP` and `SLOW`.
        line: between desktop and screen.
        seed: of the loss and of the pictures.
        told: is given the key of each task that is done.
        clip_s: how long the clip is, less than a minute.
        name: of the lab.
        protocol: `VNC` or `RDP`, whose screens have every pixel as the desktop has it.

    Raises:
        BadInput: another protocol: what is packed with loss is never just what the desktop shows.
        Unsupported: this machine has no labs, or lacks a program; says which.
        Unavailable: a program ended before its time.
    """
    if protocol not in _EXACT:
        raise BadInput(f"protocol {protocol}: {' or '.join(_EXACT)}")
    if not {CLIP, SLOW} & set(plan):
        clip_s = 0.0
    lacking = missing(protocol) or (clip.missing() if clip_s else None)
    if lacking is not None:
        raise Unsupported(lacking)
    plans = [(plan, [lossy.PAUSES_S[protocol]] * len(plan))]
    (found,) = lossy.carried_out(plans, line, seed, told, clip_s, name, protocol, kind=_Programs)
    return found


class _Programs(Desktop):
    """A desktop with a window manager and a browser on it."""

    files_bytes = 160 << 20

    def _start(self, seed: int, clip_s: float) -> "subprocess.Popen[str]":
        folder = self._folder / self._name("browser")
        folder.mkdir()
        (folder / "twmrc").write_text(_TWM)
        shown = page.write(folder, card.WIDTH, card.HEIGHT, seed)
        if clip_s:
            clip.write(folder, clip_s, seed)
        environment = _environment(self._display, folder)
        for name, command in (
            ("twm", ["twm", "-f", str(folder / "twmrc")]),
            ("chromium", browsing(shown, folder)),
        ):
            self._processes.start(self._name(name), DESKTOP, command, env=environment)
        markers = self._lab.address(KEEPER), str(self.marker_port)
        recording = self._processes.start(
            self._name("recorder"),
            DESKTOP,
            module_command(recorder.__name__, self._display, *markers, page.TITLE),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        lossy.said_line(self._processes, recording)
        return recording

    def _begin(self, screen: "subprocess.Popen[str]", key: str) -> None:
        # Without its window manager a desktop would be another one, and look the same.
        self._processes.check()
        self._tell(self._painted, key)

    def _screen(self, plan: str, pauses: Sequence[float]) -> "subprocess.Popen[str]":
        host, is_near = self._lab.address(DESKTOP), self._protocol == RDP
        if is_near:
            self._show(host)
            host = "127.0.0.1"
        where = host, str(self._vnc_port), "near" if is_near else "far"
        times = ",".join(f"{one:.3f}" for one in pauses)
        return self._processes.start(
            self._name("screen"),
            SCREEN,
            module_command(watcher.__name__, *where, times),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


def browsing(shown: Path, folder: Path) -> list[str]:
    """The command of a browser that shows a page alone, and keeps what is its own in a folder."""
    size = f"--window-size={card.WIDTH},{card.HEIGHT}"
    profile = f"--user-data-dir={folder / 'profile'}"
    return ["chromium", *_FLAGS, size, profile, f"--app={shown.as_uri()}"]


def _environment(display: str, folder: Path) -> dict[str, str]:
    """All of a program's own files lie in the folder, and fonts are those of the locale C."""
    own = {one: str(folder) for one in ("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    return os.environ | own | {"DISPLAY": display, "LC_ALL": "C"}
