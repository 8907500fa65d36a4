"""Puts old faults of the mover back, one at a time, and shows the seed by which the simulator of
sessions (crates/transfer/tests/simulation) finds each. The sources themselves stay as they are.

    python tests/transfer/old_faults.py                    # all, a few minutes
    python tests/transfer/old_faults.py mixed-resume      # one
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCES = ROOT / "crates/transfer/src"
SEEDS_MAX = 6000
MINUTES_MAX = 10


@dataclass(frozen=True)
class Edit:
    """A piece of a source file and what stood there, or could have, before it was right."""

    file: str
    now: str
    before: str


@dataclass(frozen=True)
class Fault:
    """A fault in words, what the simulator says of it, and as edits of the sources."""

    words: str
    finding: str
    edits: tuple[Edit, ...]


def edit(file: str, now: str, before: str) -> Edit:
    return Edit(file, now, before)


FAULTS = {
    "uncounted-failures": Fault(
        "a `get` ends well though files could not be stored: the receiver counts no failures",
        "false success",
        (
            edit(
                "receive/outcome.rs",
                "        self.progress.fail(Some(path.as_bytes()), failure);\n"
                "        let sent = self.control",
                "        let sent = self.control",
            ),
            edit(
                "receive/outcome.rs",
                "self.progress.fail(Some(incoming.entry().path.as_bytes()), failure);",
                "drop(failure);",
            ),
        ),
    ),
    "mixed-resume": Fault(
        "a source rewritten between two attempts, with equal size and time, is mixed with the old",
        "wrong bytes",
        (
            edit(
                "send/large.rs",
                "let confirmed = present.is_empty() ||",
                "let confirmed = true ||",
            ),
            edit(
                "receive/partial.rs",
                "let unconfirmed = expected.is_none() && self.resumed > 0;",
                "let unconfirmed = false;",
            ),
        ),
    ),
    "finished-believed": Fault(
        "*Finished* ends a transfer well, whatever was delivered",
        "success, though",
        (
            edit("send/mod.rs", "if files.all_told && files.known.is_empty() {", "if true {"),
            edit("send/mod.rs", ".and_then(|()| sending.part(reader));", ";"),
        ),
    ),
    "changed-unseen": Fault(
        "a source that changes while it is read is not noticed",
        "wrong bytes",
        (edit("send/large.rs", "if FileVersion::of(&now) == self.version {", "if true {"),),
    ),
    "damage-unseen": Fault(
        "a chunk is not compared with its hash",
        "wrong bytes",
        (
            edit(
                "receive/intake.rs",
                "Ok(()) if hash.is_some_and(|hash| hash != trailer.hash) => {",
                "Ok(()) if hash.is_some_and(|_| false) => {",
            ),
        ),
    ),
    "read-back-unseen": Fault(
        "what is read back from the storage is not compared with what was written",
        "wrong bytes",
        (
            edit("receive/partial.rs", "if self.hash_written(going)? == hash {", "if true {"),
            edit("receive/whole.rs", "< content.len() || read != content {", "< content.len() {"),
        ),
    ),
    "durable-too-early": Fault(
        "bytes are reported durable that no journal knows",
        "reported durable",
        (
            edit(
                "receive/partial.rs",
                "            state.journal.append(&[record])?;\n            return",
                "            return",
            ),
        ),
    ),
    "names-unsynced": Fault(
        "with `--sync` a file counts before its name is on the disk",
        "did not survive the loss of power",
        (
            edit(
                "receive/report.rs",
                "self.directories.get(parent).and_then(|directory| directory.sync());",
                "self.directories.get(parent).map(drop);",
            ),
        ),
    ),
    "content-unsynced": Fault(
        "with `--sync` a file gets its name before its content is on the disk",
        "did not survive the loss of power",
        (
            edit(
                "receive/whole.rs",
                "care.sync {\n            file.sync_all()?;",
                "care.sync {",
            ),
        ),
    ),
    "parts-unnamed": Fault(
        "with `--sync` chunks count before the names of part and journal are on the disk",
        "reported durable",
        (
            edit(
                "receive/partial.rs",
                "            state.journal.sync()?;\n        }\n        self.directory.sync()",
                "            state.journal.sync()?;\n        }\n        Ok(())",
            ),
        ),
    ),
    "parents-unsynced": Fault(
        "with `--sync` a file counts before the directory above its own is on the disk",
        "did not survive the loss of power",
        (
            edit(
                "receive/directory.rs",
                "above.map_or(Ok(()), |parent| parent.sync())?;",
                "drop(above);",
            ),
        ),
    ),
    "mode-forbids-resume": Fault(
        "a part that was killed just before its name has a mode with which nobody resumes it",
        "with which nobody resumes it",
        (edit("receive/partial.rs", "self.entry.mode & !0o022 | 0o600);", "self.entry.mode);"),),
    ),
    "name-lost": Fault(
        "a name that does not resolve for a moment ends a transfer that would try again",
        "what passes by",
        (
            edit(
                "error.rs",
                "Self::UnknownHost { .. } | Self::DiskFull(_) =>",
                "Self::DiskFull(_) =>",
            ),
        ),
    ),
    "disk-full-ends": Fault(
        "a disk that is full for a moment ends a transfer that would try again",
        "what passes by",
        (
            edit(
                "error.rs",
                "Self::UnknownHost { .. } | Self::DiskFull(_) => true,",
                "Self::UnknownHost { .. } => true,\n            Self::DiskFull(_) => false,",
            ),
        ),
    ),
    "crowd-locks-out": Fault(
        "a crowd of idle strangers keeps known clients out: nobody makes room",
        "an honest client's",
        (
            edit(
                "server/guests.rs",
                "Some((_, guest)) if guest.is_young() => {",
                "Some((_, guest)) => {",
            ),
        ),
    ),
    "drips-hold": Fault(
        "a greeting that drips holds its place: each byte within the patience for one read",
        "a greeting that drips",
        (
            edit(
                "server/guests.rs",
                "deadline: Some(Instant::now() + GREETING_TIMEOUT),",
                "deadline: None,",
            ),
        ),
    ),
    "offer-takes-memory": Fault(
        "an offer of a few hundred bytes takes memory for all that it says to be coming",
        "of memory were taken",
        (
            edit(
                "chunks.rs",
                "Self { size, count, hashing, groups: BTreeMap::new(), known: 0 }",
                "let empty = || Group { known: 0, hashes: Vec::with_capacity(64) };\n"
                "        let group = |number| (number, empty());\n"
                "        let groups = (0..count.div_ceil(GROUP)).map(group).collect();\n"
                "        Self { size, count, hashing, groups, known: 0 }",
            ),
        ),
    ),
}


def put_back(fault: Fault, sources: Path) -> None:
    """Edits a copy of the sources; each piece must stand there exactly once."""
    for one in fault.edits:
        path = sources / one.file
        text = path.read_text()
        if text.count(one.now) != 1:
            raise ValueError(f"{one.file} has {text.count(one.now)} times: {one.now}")
        path.write_text(text.replace(one.now, one.before))


def copy(folder: Path) -> Path:
    """The workspace as Cargo needs it."""
    for name in ("Cargo.toml", "Cargo.lock"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "crates", folder / "crates", ignore=shutil.ignore_patterns("target"))
    return folder / "crates/transfer/src"


def search(folder: Path, finding: str) -> str:
    """Tries seeds on a copy until one fails; returns what the simulator said."""
    command = "cargo test -q --profile tests -p weir-transfer --test simulation --"
    wanted = {
        "CARGO_TARGET_DIR": str(ROOT / "target/old-faults"),
        "WEIR_SIMULATION_FIRST": "1",
        "WEIR_SIMULATION_COUNT": str(SEEDS_MAX),
        "WEIR_SIMULATION_FAILURES": "1",
        "WEIR_SIMULATION_WANTED": finding,
        "WEIR_SIMULATION_MINUTES": str(MINUTES_MAX),
    }
    ran = subprocess.run(
        [*command.split(), "--ignored", "--exact", "soak", "--nocapture"],
        cwd=folder,
        env={**os.environ, **wanted},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout + ran.stderr


def main() -> int:
    names = sys.argv[1:] or list(FAULTS)
    missed = 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            put_back(FAULTS[name], copy(Path(folder)))
            said = search(Path(folder), FAULTS[name].finding)
        found = re.search(r"WEIR_SIMULATION_SEED=(\d+) .*\n(.*)", said)
        if found:
            print(f"| {FAULTS[name].words} | {found[2]} | `{name}`: seed {found[1]} |", flush=True)
        else:
            missed += 1
            print(f"{name} was not found:\n{said[-2000:]}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
