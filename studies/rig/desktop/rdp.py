"""A desktop by RDP: xrdp in front of the server of VNC that the test card is on, and FreeRDP.

xrdp hands on what an X server shows that speaks RFB (its library `vnc`), so that nobody logs in.
FreeRDP shows it on an X server of the screen's host, which tells it to the viewer by RFB, too, over
the loopback interface.
"""

import shutil
from pathlib import Path

from studies.rig.desktop import card

_PACKAGES = "xrdp freerdp2-x11"
# With no channel at all xrdp 0.9 breaks FreeRDP's connection off.
_CONFIGURATION = """\
[Globals]
ini_version=1
fork=false
port=tcp://0.0.0.0:{port}
tcp_nodelay=true
security_layer=tls
crypt_level=none
certificate=
key_file=
autorun=vnc
allow_channels=true
max_bpp=32
bitmap_compression=true
bulk_compression=true

[Logging]
LogFile={log}
EnableSyslog=false
EnableConsole=true
ConsoleLevel=WARNING

[Channels]
cliprdr=true

[vnc]
name=vnc
lib=libvnc.so
username=na
password=na
ip=127.0.0.1
port={vnc_port}
"""


def missing() -> str | None:
    """What RDP needs and this machine lacks, with the way to it; None if nothing."""
    for one in ("xrdp", "xfreerdp"):
        if shutil.which(one) is None:
            return f"{one} is not installed: apt-get install {_PACKAGES}"
    return None


def serving(folder: Path, port: int, vnc_port: int) -> list[str]:
    """The command of a server of RDP.

    Args:
        folder: where its configuration may lie.
        port: that it listens on.
        vnc_port: of the server of VNC on its host.
    """
    path = folder / f"xrdp-{port}.ini"
    log = path.with_suffix(".log")
    path.write_text(_CONFIGURATION.format(port=port, vnc_port=vnc_port, log=log))
    return ["xrdp", "--nodaemon", "--config", str(path)]


def showing(desktop: str, port: int, display: str) -> list[str]:
    """The command that shows a desktop on a display.

    Args:
        desktop: address of its host.
        port: of its server of RDP.
        display: of an X server of the desktop's size.
    """
    command = ["env", f"DISPLAY={display}", "xfreerdp", f"/v:{desktop}:{port}", "/u:na", "/p:na"]
    command += ["/cert:ignore", "/sec:tls", f"/size:{card.WIDTH}x{card.HEIGHT}", "/bpp:32"]
    return [*command, "-clipboard"]
