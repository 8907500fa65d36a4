"""Where switches connect, and who may: with TLS, whoever has a certificate of one authority.

Which switch it is, is its own word, unless the network file binds that one to a name in it.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.errors import BadInput
from weir.listener import clear_socket, port_of

Meet = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]
# How a connection with TLS begins, in the place of OpenFlow's version.
TLS_HANDSHAKE = 0x16
_FORMS = "HOST:PORT or unix:PATH, nor ssl:HOST:PORT"
# What OpenSSL calls it, and what an operator can do about it.
_REASONS = {
    "WRONG_VERSION_NUMBER": "it does not speak TLS: set its controller to ssl:HOST:PORT",
    "HTTP_REQUEST": "it does not speak TLS",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has no certificate (ovs-vsctl set-ssl)",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not one of the authority's",
    **dict.fromkeys(
        (
            "TLSV1_ALERT_UNKNOWN_CA",
            "TLSV1_ALERT_DECRYPT_ERROR",
            "SSLV3_ALERT_BAD_CERTIFICATE",
            "SSLV3_ALERT_CERTIFICATE_EXPIRED",
            "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        ),
        "it does not accept the controller's certificate",
    ),
}


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the controller is to switches, and whom it believes: files of PEM.

    Attributes:
        private_key, certificate: its own.
        ca_cert: the certificate of the authority that switches have theirs from.
    """

    private_key: Path
    certificate: Path
    ca_cert: Path

    def context(self) -> ssl.SSLContext:
        """TLS with a certificate at either end.

        Raises:
            BadInput: a file cannot be read, is not what it should be, or the key is another's.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        for path in (self.private_key, self.certificate, self.ca_cert):
            try:
                path.read_bytes()
            except OSError as error:
                raise BadInput(f"{path}: {error.strerror}") from None
        try:
            context.load_verify_locations(self.ca_cert)
        except ssl.SSLError:
            raise BadInput(f"{self.ca_cert} is not a certificate of an authority (PEM)") from None
        try:
            context.load_cert_chain(self.certificate, self.private_key, password="")
        except ssl.SSLError as error:
            is_other = error.reason == "KEY_VALUES_MISMATCH"
            what = "is another key's" if is_other else "and its key are not PEM without a password"
            raise BadInput(f"{self.certificate} {what} ({self.private_key})") from None
        return context


def names(certificate: Mapping[str, Any]) -> set[str]:
    """The names of a certificate's holder: common names, and alternative ones of kind DNS.

    Args:
        certificate: as `ssl.SSLSocket.getpeercert` tells of one that was verified.
    """
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    pairs = [*subject, *certificate.get("subjectAltName", ())]
    return {name for kind, name in pairs if kind in ("commonName", "DNS")}


def context_for(listen: str, identity: Identity | None) -> ssl.SSLContext | None:
    """The TLS of an address; None where there is none.

    Raises:
        BadInput: it asks for TLS and there is no identity, or the other way round.
    """
    if listen.startswith("ssl:"):
        if identity is None:
            raise BadInput(f"{listen} needs --private-key, --certificate and --ca-cert")
        return identity.context()
    if identity is not None:
        raise BadInput(f"certificates are for ssl:HOST:PORT, and --listen is {listen}")
    return None


async def listen_at(listen: str, meet: Meet) -> asyncio.Server:
    """Takes connections at an address; TLS is the business of who meets them.

    Raises:
        BadInput: this is no address, nobody can listen there, or somebody does.
    """
    try:
        if listen.startswith("unix:"):
            path = Path(listen.removeprefix("unix:"))
            clear_socket(path)  # asyncio would take it from whoever listens there
            return await asyncio.start_unix_server(meet, path)
        host, _, text = listen.removeprefix("ssl:").removeprefix("tcp:").rpartition(":")
        port = port_of(text)
        if not host or port is None:
            raise BadInput(f'"{listen}" is not {_FORMS}')
        return await asyncio.start_server(meet, host.strip("[]"), port)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"cannot listen at {listen}: {why}") from None


def refusal(error: ssl.SSLError) -> str:
    """Why there is no connection with TLS, in words."""
    return _REASONS.get(error.reason or "", f"TLS: {error.reason or error}")
