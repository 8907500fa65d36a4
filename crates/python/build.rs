//! Hands the crate a digest of the sources of all crates, by which results are told apart.
//!
//! A digest of the sources and not of the binary, so that every machine that is built from the same
//! ones has the same.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{fs, io};

fn main() -> io::Result<()> {
    let root = Path::new("../..").canonicalize()?;
    println!("cargo::rerun-if-changed={}", root.join("Cargo.lock").display());
    let mut files = BTreeSet::from([root.join("Cargo.lock")]);
    for entry in fs::read_dir(root.join("crates"))? {
        let sources = entry?.path().join("src");
        println!("cargo::rerun-if-changed={}", sources.display());
        collect(&sources, &mut files)?;
    }
    let mut digest = DefaultHasher::new();
    for file in &files {
        file.strip_prefix(&root).ok().hash(&mut digest);
        fs::read(file)?.hash(&mut digest);
    }
    println!("cargo::rustc-env=WEIR_SOURCE={:016x}", digest.finish());
    Ok(())
}

fn collect(folder: &Path, files: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.insert(path);
        }
    }
    Ok(())
}
