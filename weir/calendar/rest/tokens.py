"""Bearer tokens: who may do what. Only hashes are kept, so a copied file opens nothing.

A token carries 256 random bits, so one SHA-256 is enough: there is nothing to guess.
"""

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from weir import files
from weir.calendar.storage.ownership import keep_private
from weir.errors import BadInput

_DIGEST = re.compile("[0-9a-f]{64}")
# What each role may do; "admin" may do everything, on behalf of everyone. An agent's token that is
# bound to a host tells of that host's elephants alone.
RIGHTS: dict[str, frozenset[str]] = {
    "read": frozenset({"read"}),
    "submit": frozenset({"read", "submit", "elephants"}),
    "agent": frozenset({"agent", "elephants"}),
    "admin": frozenset({"read", "submit", "elephants", "agent", "admin"}),
}


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a token speaks for. `host` binds an agent's token to one host; None binds it to none."""

    name: str
    role: str
    host: str | None
    sha256: str

    @property
    def standing(self) -> str:
        """The token and all that it may do: another one once its entry says something else."""
        return json.dumps([self.sha256, self.name, self.role, self.host])

    def may(self, right: str) -> bool:
        """Whether the role includes `right`: read, submit, elephants, agent or admin."""
        return right in RIGHTS[self.role]


class TokenFile:
    """The tokens of one calendar, in a JSON file that is read again whenever it changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = os.fspath(path)
        self._stamp: tuple[int, ...] | None = None
        self._identities: list[Identity] = []
        self._standings: frozenset[str] = frozenset()

    def identities(self) -> list[Identity]:
        """All identities; raises `BadInput` when the file is there but not a token file."""
        try:
            # At every request: a `Path` takes longer about it than the kernel does.
            status = os.stat(self._name)  # noqa: PTH116
        except FileNotFoundError:
            self._stamp, self._identities, self._standings = None, [], frozenset()
            return []
        except OSError as error:
            raise BadInput(f"token file {self.path}: {error.strerror}") from None
        stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size)
        if stamp != self._stamp:
            self._identities = self._read()
            self._standings = frozenset(identity.standing for identity in self._identities)
            self._stamp = stamp
        return self._identities

    def knows(self, standing: str) -> bool:
        """Whether a token still stands as it did; not if the file cannot be read."""
        try:
            self.identities()
        except BadInput:
            return False
        return standing in self._standings

    def find(self, token: str) -> Identity | None:
        """The identity of a token, or None. Takes as long whichever entry matches."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
        found = None
        for identity in self.identities():
            if hmac.compare_digest(identity.sha256, digest):
                found = identity
        return found

    def create(self, name: str, role: str, host: str | None = None) -> str:
        """Adds an identity and returns its token, which is shown this once and not kept.

        Raises:
            BadInput: unknown role, a name that is taken, or a host for a role that has none.
        """
        if role not in RIGHTS:
            raise BadInput(f'"{role}" is not a role; the roles are {", ".join(RIGHTS)}')
        if not name or len(name) > 100 or not name.isprintable():
            raise BadInput(f"{name!r:.60} is not a name for a token")
        if host is not None and role != "agent":
            raise BadInput(f'only an agent\'s token is bound to a host, not one for "{role}"')
        token = f"weir-{secrets.token_urlsafe(32)}"
        digest = hashlib.sha256(token.encode()).hexdigest()
        try:
            self._place().parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"token file {self.path}: {error.strerror}") from None
        with self._alone():
            identities = self.identities()
            if any(identity.name == name for identity in identities):
                raise BadInput(f'there is a token named "{name}" in {self.path}; revoke it first')
            self._write([*identities, Identity(name, role, host, digest)])
        return token

    def revoke(self, name: str) -> None:
        """Removes an identity; raises `BadInput` when there is none of that name."""
        self._require(name)
        with self._alone():
            self._require(name)
            self._write([identity for identity in self._identities if identity.name != name])

    def _require(self, name: str) -> None:
        if all(identity.name != name for identity in self.identities()):
            raise BadInput(f'no token named "{name}" in {self.path}')

    def _place(self) -> Path:
        """The file itself: in place of a link, what is revoked would stay known elsewhere."""
        return Path(os.path.realpath(self.path))

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keeps others from changing the file meanwhile: what one revokes, none writes back.

        The lock is a file that only its owner may open, so that nobody else can hold it.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(f"{self._place()}.lock", flags, 0o600)
        except OSError as error:
            raise BadInput(f"token file {self.path}: {error.strerror}") from None
        try:
            # A file system without locks has to do without.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._stamp = None
            yield
        finally:
            os.close(descriptor)

    def _read(self) -> list[Identity]:
        try:
            document = json.loads(files.text(self.path))
            identities = [Identity(**entry) for entry in document["tokens"]]
            keep_private(self.path)
            for identity in identities:
                _check(identity)
        except BadInput as error:
            raise BadInput(f"token file {error}") from None
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise BadInput(f"{self.path} is not a token file: {error}") from None
        return identities

    def _write(self, identities: list[Identity]) -> None:
        text = json.dumps({"tokens": [asdict(identity) for identity in identities]}, indent=1)
        temporary, place = None, self._place()
        try:
            # mkstemp makes the file readable by its owner only.
            descriptor, name = tempfile.mkstemp(dir=place.parent, prefix=".tokens-")
            temporary = Path(name)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(place)
        except OSError as error:
            if temporary is not None:
                temporary.unlink(missing_ok=True)
            raise BadInput(f"token file {self.path}: {error.strerror}") from None


def _check(identity: Identity) -> None:
    """Raises ValueError where an entry cannot be one of ours."""
    texts = (identity.name, identity.role, identity.sha256)
    if not all(isinstance(text, str) for text in texts) or identity.role not in RIGHTS:
        raise ValueError("an entry without a name, a known role or a hash")
    if not isinstance(identity.host, str | None) or not _DIGEST.fullmatch(identity.sha256):
        raise ValueError(f"the entry {identity.name!r:.60} is damaged")
