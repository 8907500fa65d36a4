//! The files of a run: what stands at the source, what stood there, and what may stand at the
//! destination.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use weir_random::Random;

use crate::kernel::with_world;
use crate::plan::{Change, FilePlan, Plan};

/// Files of a run and every content that each has had.
pub(crate) struct Tree {
    pub(crate) base: PathBuf,
    seed: u64,
    versions: BTreeMap<String, Vec<Vec<u8>>>,
    /// What stood at the destination before.
    older: BTreeMap<String, Vec<u8>>,
    /// What another sender has.
    rival: BTreeMap<String, Vec<u8>>,
    obstacles: Vec<String>,
    /// Names whose content a loss of power has spoilt, where that may be: whether their sizes and
    /// times look right, so that the next attempt takes them for the same.
    damaged: BTreeMap<String, bool>,
    modes: BTreeMap<String, u32>,
    /// A loss of power may have brought names back, and not what the files were then.
    undone: bool,
}

/// Where a symbolic link of the source leads.
const LINK_TARGET: &str = "f0";

/// Bytes that are the same for the same seed, and differ in every block otherwise.
fn content(seed: u64, path: &str, version: usize, size: u64, sparse: bool) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(format!("{seed} {path} {version}").as_bytes());
    let mut bytes = vec![0; size as usize];
    hasher.finalize_xof().fill(&mut bytes);
    if sparse {
        let third = bytes.len() / 3;
        bytes[third..2 * third].fill(0);
    }
    bytes
}

fn write(path: &Path, bytes: &[u8], sparse: bool) {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).expect("the run's folder can be written");
    }
    let file = fs::File::create(path).expect("the run's folder can be written");
    let third = bytes.len() / 3;
    let parts = if sparse { [0..third, 2 * third..bytes.len()] } else { [0..bytes.len(), 0..0] };
    for part in parts {
        let at = part.start as u64;
        file.write_all_at(&bytes[part], at).expect("the run's folder has room");
    }
    file.set_len(bytes.len() as u64).expect("the run's folder has room");
}

fn set_time(path: &Path, seconds: u64) {
    let file = fs::File::options().write(true).open(path).expect("it was just written");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds);
    file.set_modified(time).expect("its owner may set its time");
}

/// What keeps a part that has a journal from being resumed.
fn unresumable(path: &Path, name: &str) -> Option<String> {
    let mode = fs::metadata(path).map_or(0o600, |about| about.mode() & 0o777);
    let resumable = mode & 0o622 == 0o600 || !path.with_extension("journal").exists();
    (!resumable).then(|| format!("{name} has mode {mode:o}, with which nobody resumes it"))
}

fn set_mode(path: &Path, mode: u32) {
    let mode = fs::Permissions::from_mode(mode);
    fs::set_permissions(path, mode).expect("its owner may set its mode");
}

impl Tree {
    /// Lays out the files of a plan below `base`.
    pub(crate) fn lay_out(base: &Path, plan: &Plan) -> Self {
        let mut tree = Self {
            base: base.to_owned(),
            seed: plan.seed,
            versions: BTreeMap::new(),
            older: BTreeMap::new(),
            rival: BTreeMap::new(),
            obstacles: Vec::new(),
            damaged: BTreeMap::new(),
            modes: BTreeMap::new(),
            undone: false,
        };
        for folder in ["source", "rival", "root"] {
            fs::create_dir(base.join(folder)).expect("the run's folder is new");
        }
        plan.files.iter().for_each(|file| tree.lay_out_one(file));
        // Where nothing else is in the root, nothing else has its names brought to the disk.
        if !plan.single && Random::of_source(plan.seed, &["others"]).chance(0.4) {
            let link = tree.source().join("link");
            std::os::unix::fs::symlink(LINK_TARGET, link).expect("the run's folder is new");
            fs::create_dir(tree.source().join("empty")).expect("the run's folder is new");
        }
        tree
    }

    fn lay_out_one(&mut self, file: &FilePlan) {
        let FilePlan { path, size, rival_size, sparse, older, obstacle, mode } = file;
        let bytes = content(self.seed, path, 0, *size, *sparse);
        write(&self.source().join(path), &bytes, *sparse);
        set_time(&self.source().join(path), 0);
        set_mode(&self.source().join(path), *mode);
        self.modes.insert(path.clone(), *mode);
        self.versions.insert(path.clone(), vec![bytes]);
        let other = content(self.seed, path, 1000, *rival_size, false);
        write(&self.base.join("rival").join(path), &other, false);
        set_time(&self.base.join("rival").join(path), 0);
        self.rival.insert(path.clone(), other);
        if *obstacle {
            let place = self.root().join(path).join("something");
            fs::create_dir_all(place).expect("the run's folder is new");
            self.obstacles.push(path.clone());
        } else if *older {
            let bytes = content(self.seed, path, 2000, size / 2 + 3, false);
            write(&self.root().join(path), &bytes, false);
            set_time(&self.root().join(path), 7);
            self.older.insert(path.clone(), bytes);
        }
    }

    pub(crate) fn source(&self) -> PathBuf {
        self.base.join("source")
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.base.join("root")
    }

    pub(crate) fn has_obstacle(&self) -> bool {
        !self.obstacles.is_empty()
    }

    /// Changes a file of the source; what it is from now on is one of its versions.
    pub(crate) fn change(&mut self, file: &FilePlan, change: Change) {
        let Some(versions) = self.versions.get_mut(&file.path) else { return };
        let number = versions.len();
        let size = versions.last().map_or(0, |bytes| bytes.len() as u64);
        let size = match change {
            Change::Rewritten | Change::RewrittenInSecret | Change::RewrittenInPlace => size,
            Change::Appended => size + 70_000,
            Change::Shortened => size / 2,
        };
        let bytes = content(self.seed, &file.path, number, size, false);
        versions.push(bytes.clone());
        let path = self.source().join(&file.path);
        if change == Change::RewrittenInPlace {
            // At once: between the two the kernel's coarse clock would decide.
            with_world(|_| {
                let file = fs::File::options().write(true).open(&path).expect("it is there");
                file.write_all_at(&bytes, 0).expect("the run's folder has room");
                set_time(&path, number as u64);
            });
            return;
        }
        // As most programs do: a new file that takes the name at once.
        let new = self.base.join("new");
        write(&new, &bytes, false);
        let seconds = if change == Change::RewrittenInSecret { 0 } else { number as u64 };
        set_time(&new, seconds);
        set_mode(&new, file.mode);
        fs::rename(&new, &path).expect("the run's folder can be written");
    }

    /// What is wrong with what stands under final names, whatever the outcome was.
    pub(crate) fn wrong_names(&self, rival: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        for (path, versions) in &self.versions {
            if self.obstacles.contains(path) || self.damaged.contains_key(path) {
                continue;
            }
            let Ok(stands) = fs::read(self.root().join(path)) else { continue };
            let known = versions.contains(&stands)
                || self.older.get(path) == Some(&stands)
                || (rival && self.rival.get(path) == Some(&stands));
            if !known {
                wrong.push(format!("{path} has {}", self.describe(path, &stands)));
            }
        }
        wrong.extend(self.strangers());
        wrong
    }

    /// Names at the destination that nobody sent, files in progress excepted.
    fn strangers(&self) -> Vec<String> {
        let mut strangers = Vec::new();
        let mut folders = vec![self.root()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder).expect("the run's folder can be read");
            for entry in entries.flatten() {
                let path = entry.path();
                let below = path.strip_prefix(self.root()).unwrap_or(&path);
                let name = below.to_string_lossy().into_owned();
                let staged = entry.file_name().to_string_lossy().starts_with(".weir-");
                let sent =
                    name == "link" && fs::read_link(&path).is_ok_and(|to| *to == *LINK_TARGET);
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    if !self.obstacles.contains(&name) {
                        folders.push(path);
                    }
                } else if staged {
                    strangers.extend(unresumable(&path, &name).filter(|_| !self.undone));
                } else if !sent && !self.versions.contains_key(&name) {
                    strangers.push(format!("{name} was never sent"));
                }
            }
        }
        strangers
    }

    /// What is missing at the destination of a transfer that ended well.
    pub(crate) fn missing(&self, rival: bool) -> Vec<String> {
        let mut missing = Vec::new();
        for (path, versions) in &self.versions {
            if self.damaged.get(path) == Some(&true) {
                continue;
            }
            match fs::read(self.root().join(path)) {
                Err(error) => missing.push(format!("{path}: {error}")),
                Ok(stands) => {
                    let right = versions.contains(&stands)
                        || (rival && self.rival.get(path) == Some(&stands));
                    if !right {
                        missing.push(format!("{path} has {}", self.describe(path, &stands)));
                    }
                }
            }
        }
        missing.extend(self.missing_others(rival));
        missing
    }

    /// What does not stand at the destination as the source has it now.
    pub(crate) fn outdated(&self) -> Vec<String> {
        let latest = |(path, versions): (&String, &Vec<Vec<u8>>)| {
            let stands = fs::read(self.root().join(path)).ok();
            (stands.as_ref() != versions.last())
                .then(|| format!("outdated, though contents were compared: {path}"))
        };
        self.versions.iter().filter_map(latest).collect()
    }

    /// As `missing`, for whatever else than content.
    fn missing_others(&self, rival: bool) -> Vec<String> {
        let mut missing = Vec::new();
        for name in ["link", "empty"] {
            let (source, there) = (self.source().join(name), self.root().join(name));
            if source.symlink_metadata().is_ok() && there.symlink_metadata().is_err() {
                missing.push(format!("{name} is not there"));
            }
        }
        for (path, mode) in self.modes.iter().filter(|_| !rival) {
            let there = fs::metadata(self.root().join(path)).map_or(0, |about| about.mode());
            if there & 0o777 != *mode && !self.obstacles.contains(path) {
                missing.push(format!("{path} has mode {there:o} instead of {mode:o}"));
            }
        }
        missing
    }

    /// To be called after a loss of power: what has its name may have lost content where it was
    /// not synced.
    pub(crate) fn note_damage(&mut self, synced: bool) {
        if synced {
            return;
        }
        self.undone = true;
        for (path, versions) in &self.versions {
            let (there, source) = (self.root().join(path), self.source().join(path));
            let Ok(stands) = fs::read(&there) else { continue };
            if versions.contains(&stands) || self.older.get(path) == Some(&stands) {
                continue;
            }
            let looks = |path| fs::metadata(path).map(|about| (about.len(), about.mtime())).ok();
            self.damaged.insert(path.clone(), looks(there) == looks(source));
        }
    }

    /// Wherefrom the blocks of a wrong content are.
    fn describe(&self, path: &str, stands: &[u8]) -> String {
        let versions = &self.versions[path];
        let block = 1 << 16;
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (index, piece) in stands.chunks(block).enumerate() {
            let at = index * block;
            let same = |bytes: &Vec<u8>| bytes.get(at..at + piece.len()) == Some(piece);
            let from = if let Some(number) = versions.iter().position(same) {
                format!("version {number}")
            } else if self.rival.get(path).is_some_and(same) {
                "the rival".to_owned()
            } else if self.older.get(path).is_some_and(same) {
                "what was there".to_owned()
            } else if piece.iter().all(|byte| *byte == 0) {
                "zeros".to_owned()
            } else {
                "nowhere".to_owned()
            };
            *counts.entry(from).or_default() += 1;
        }
        let sizes: Vec<usize> = versions.iter().map(Vec::len).collect();
        format!("{} B of versions with {sizes:?} B, blocks from {counts:?}", stands.len())
    }
}
