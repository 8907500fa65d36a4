//! The keys that peers know each other by: a small certificate authority of one's own.
//!
//! `ca.pem` is what both sides trust, `ca.key` is what issues; a server presents `server.pem`,
//! a client `client.pem`. Only holders of a certificate from the same authority can talk.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::cert::{self, Holder};
use crate::error::TransferError;
use crate::tls::SERVER_NAME;

const AUTHORITY: &str = "ca.pem";
const AUTHORITY_KEY: &str = "ca.key";
/// Names and serial numbers that do not count any more, one a line.
const REVOKED: &str = "revoked";
/// In a key directory: a set that is being written, and a whole one that is not yet in place.
const UNFINISHED: &str = ".weir-keys-unfinished";
const SET: &str = ".weir-keys-set";
/// The largest key or certificate file, which may have many authorities.
const FILE_MAX: u64 = 16_000_000;
/// The largest list of those that do not count: of millions.
const LIST_MAX: u64 = 256_000_000;
/// Certificates are valid from this many days ago, for clocks that are behind.
const DAYS_BEFORE: i64 = 2;
/// The longest name of a client: X.509's limit on a common name.
const NAME_LIMIT: usize = 64;

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Presented by a server.
    Server,
    /// Presented by whoever connects to one.
    Client,
}

/// Creates a key directory: an authority, and certificates for a server and a client. Nothing
/// that exists is overwritten.
pub fn init(directory: &Path) -> Result<(), TransferError> {
    settle(directory)?;
    if directory.join(AUTHORITY).exists() || directory.join(AUTHORITY_KEY).exists() {
        return Err(keys_error(directory, "they exist already; choose another directory"));
    }
    let wrong = |error: rcgen::Error| keys_error(directory, &error);
    let authority = generate(directory)?;
    let certificate = authority_params().self_signed(&authority).map_err(wrong)?.pem();
    let mut files = vec![
        KeyFile::private(AUTHORITY_KEY, authority.serialize_pem()),
        KeyFile::public(AUTHORITY, certificate),
    ];
    let issuer = Issuer::new(authority_params(), authority);
    for purpose in [Purpose::Server, Purpose::Client] {
        files.extend(signed(&issuer, purpose.stem(), purpose).map_err(wrong)?);
    }
    write_all_new(directory, &files)
}

/// What every authority says about itself; its key is what tells one from another.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "Weir transfer authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    set_validity(&mut params, 3650);
    params
}

/// Issues a certificate called `name` into `target`, which gets all that a peer needs: the
/// certificate, its key, and the authority's certificate (never its key).
pub fn issue(
    authority: &Path,
    target: &Path,
    name: &str,
    purpose: Purpose,
) -> Result<(), TransferError> {
    check_name(name)?;
    settle(target)?;
    let key_text = read(authority, AUTHORITY_KEY)?;
    let ca_text = read(authority, AUTHORITY)?;
    let wrong = |error: rcgen::Error| keys_error(authority, &error);
    let ca_key = KeyPair::from_pem(&key_text).map_err(wrong)?;
    let issuer = Issuer::new(authority_params(), ca_key);
    let mut files = signed(&issuer, name, purpose).map_err(wrong)?.to_vec();
    if target.join(AUTHORITY).exists() {
        check_knows(target, &ca_text)?;
    } else {
        files.push(KeyFile::public(AUTHORITY, ca_text));
    }
    write_all_new(target, &files)
}

/// A new key, and the certificate that an authority signs for it.
fn signed(
    issuer: &Issuer<'_, KeyPair>,
    name: &str,
    purpose: Purpose,
) -> Result<[KeyFile; 2], rcgen::Error> {
    let mut params = match purpose {
        Purpose::Server => CertificateParams::new(vec![SERVER_NAME.to_owned()])?,
        Purpose::Client => CertificateParams::default(),
    };
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![match purpose {
        Purpose::Server => ExtendedKeyUsagePurpose::ServerAuth,
        Purpose::Client => ExtendedKeyUsagePurpose::ClientAuth,
    }];
    set_validity(&mut params, 825);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    let stem = purpose.stem();
    Ok([
        KeyFile::private(&format!("{stem}.key"), key.serialize_pem()),
        KeyFile::public(&format!("{stem}.pem"), certificate.pem()),
    ])
}

/// Refuses a key directory whose peers are of another authority: they would turn away whoever
/// shows a certificate of this one, and be turned away.
fn check_knows(directory: &Path, authority: &str) -> Result<(), TransferError> {
    let there = read(directory, AUTHORITY)?;
    let ours = CertificateDer::pem_slice_iter(authority.as_bytes()).next();
    let is_ours = |one| matches!((&one, &ours), (Ok(one), Some(Ok(ours))) if one == ours);
    if CertificateDer::pem_slice_iter(there.as_bytes()).any(is_ours) {
        return Ok(());
    }
    Err(keys_error(directory, "the ca.pem there is of another authority; choose another directory"))
}

/// A server's TLS from a key directory: TLS 1.3 only, clients must show a certificate.
pub fn server_config(directory: &Path) -> Result<Arc<ServerConfig>, TransferError> {
    let (chain, key) = identity(directory, Purpose::Server)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = Arc::new(trusted(directory)?);
    let wrong = |error: &dyn std::fmt::Display| keys_error(directory, error);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
        .build()
        .map_err(|error| wrong(&error))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| wrong(&error))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&error))?;
    // Sessions are long; every connection authenticates in full.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// A client's TLS from a key directory: TLS 1.3 only, with its certificate.
pub fn client_config(directory: &Path) -> Result<Arc<ClientConfig>, TransferError> {
    let (chain, key) = identity(directory, Purpose::Client)?;
    let wrong = |error: rustls::Error| keys_error(directory, &error);
    let mut config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(wrong)?
            .with_root_certificates(trusted(directory)?)
            .with_client_auth_cert(chain, key)
            .map_err(wrong)?;
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// Whose certificates lie in a key directory, the server's and the client's, and until when.
pub fn show(directory: &Path) -> Result<Vec<(Purpose, Holder)>, TransferError> {
    let mut shown = Vec::new();
    for purpose in [Purpose::Server, Purpose::Client] {
        let name = format!("{}.pem", purpose.stem());
        if !place_of(directory, &name).exists() {
            continue;
        }
        let text = read(directory, &name)?;
        let unreadable = || keys_error(directory, &format!("{name} is not a certificate"));
        let first = CertificateDer::pem_slice_iter(text.as_bytes()).next();
        let certificate = first.and_then(Result::ok).ok_or_else(unreadable)?;
        shown.push((purpose, cert::holder(&certificate).ok_or_else(unreadable)?));
    }
    if shown.is_empty() {
        return Err(keys_error(directory, "neither server.pem nor client.pem is there"));
    }
    Ok(shown)
}

/// Adds a name, or a certificate's serial number, to the list of those that do not count any
/// more. It holds for every peer that uses this key directory, at once.
pub fn revoke(directory: &Path, holder: &str) -> Result<(), TransferError> {
    check_name(holder)?;
    // In any other directory nobody looks for the list.
    read(directory, AUTHORITY)?;
    let path = directory.join(REVOKED);
    let opened =
        fs::OpenOptions::new().read(true).append(true).create(true).mode(0o644).open(&path);
    let written = opened.and_then(|mut file| {
        // Where the file system has no locks, two at a time are unlikely.
        let _ = file.lock();
        // Whoever wrote the last line by hand may have left it open: two holders in one line are
        // none.
        let (before, end) =
            (file.metadata()?.len(), if ends_in_a_line(&file)? { "" } else { "\n" });
        let written = file.write_all(format!("{end}{holder}\n").as_bytes());
        // The beginning of a name may be another holder's.
        written.and_then(|()| file.sync_all()).inspect_err(|_| drop(file.set_len(before)))
    });
    written.map_err(|error| keys_error(directory, &format!("cannot write {REVOKED}: {error}")))
}

/// Whether nothing but whole lines stands in a file.
fn ends_in_a_line(file: &fs::File) -> io::Result<bool> {
    let Some(last) = file.metadata()?.len().checked_sub(1) else {
        return Ok(true);
    };
    let mut byte = [0];
    file.read_exact_at(&mut byte, last)?;
    Ok(byte == *b"\n")
}

/// The list of a key directory, whether it exists or not.
pub fn revoked_list(directory: &Path) -> PathBuf {
    directory.join(REVOKED)
}

/// Refuses a holder who stands in the list; one that cannot be read lets nobody in.
pub(crate) fn check_revoked(list: Option<&Path>, holder: &Holder) -> Result<(), TransferError> {
    let Some(list) = list else {
        return Ok(());
    };
    let text = match read_regular(list, LIST_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let directory = list.display().to_string();
            return Err(TransferError::Keys { directory, reason: error.to_string() });
        }
    };
    let serial = plain_serial(&holder.serial);
    let named = |line: &str| {
        line == holder.name || line.trim() == holder.name.trim() || plain_serial(line) == serial
    };
    // An editor may have put the mark of its encoding first.
    if text.trim_start_matches('\u{feff}').lines().any(named) {
        let why = format!("the certificate of {} is revoked", holder.name);
        return Err(TransferError::Denied { why });
    }
    Ok(())
}

/// A serial number however it is written: with colons, leading zeros, or capitals.
fn plain_serial(written: &str) -> String {
    let digits: String = written.trim().chars().filter(|letter| *letter != ':').collect();
    digits.trim_start_matches('0').to_ascii_lowercase()
}

impl Purpose {
    fn stem(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

fn identity(
    directory: &Path,
    purpose: Purpose,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TransferError> {
    let stem = purpose.stem();
    let wrong = |error: rustls::pki_types::pem::Error| keys_error(directory, &error);
    let chain = read(directory, &format!("{stem}.pem"))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
    let key = read(directory, &format!("{stem}.key"))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(wrong)?;
    Ok((chain.map_err(wrong)?, key))
}

fn trusted(directory: &Path) -> Result<RootCertStore, TransferError> {
    let text = read(directory, AUTHORITY)?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
        let certificate = certificate.map_err(|error| keys_error(directory, &error))?;
        roots.add(certificate).map_err(|error| keys_error(directory, &error))?;
    }
    Ok(roots)
}

fn generate(directory: &Path) -> Result<KeyPair, TransferError> {
    KeyPair::generate().map_err(|error| keys_error(directory, &error))
}

fn set_validity(params: &mut CertificateParams, days: i64) {
    let now = std::time::SystemTime::now();
    let day = std::time::Duration::from_secs(86_400);
    params.not_before = (now - day * DAYS_BEFORE as u32).into();
    params.not_after = (now + day * days as u32).into();
}

fn check_name(name: &str) -> Result<(), TransferError> {
    if name.is_empty() || name.len() > NAME_LIMIT || name.chars().any(char::is_control) {
        let (item, value) = ("name", name.to_owned());
        return Err(TransferError::Setting { item, value, why: "1 to 64 printable bytes" });
    }
    Ok(())
}

/// A file of a key directory that is to be.
#[derive(Clone)]
struct KeyFile {
    name: String,
    content: String,
    mode: u32,
}

impl KeyFile {
    fn private(name: &str, content: String) -> Self {
        Self { name: name.to_owned(), content, mode: 0o600 }
    }

    fn public(name: &str, content: String) -> Self {
        Self { name: name.to_owned(), content, mode: 0o644 }
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(self.mode).open(path)?;
        let written = file.write_all(self.content.as_bytes()).and_then(|()| file.sync_all());
        written.inspect_err(|_| drop(fs::remove_file(path)))
    }
}

/// Writes all of the files or none, in a directory that is made where there is none. Some of a set
/// are of no use, and would be in the way of the next attempt.
///
/// They are written in a folder of their own, whose new name then makes them a set: whoever is
/// killed before has made nothing, and what is left to do after it is done by the next one.
fn write_all_new(directory: &Path, files: &[KeyFile]) -> Result<(), TransferError> {
    let was_there = directory.exists();
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| keys_error(directory, &error))?;
    // Where the file system has no locks, two at a time are unlikely.
    let alone = fs::File::open(directory).map_err(|error| keys_error(directory, &error))?;
    let _ = alone.lock();
    let written = prepare(directory, files).and_then(|()| settle(directory));
    written.inspect_err(|_| {
        // What cannot be taken back either is told by the next attempt.
        let _ = fs::remove_dir_all(directory.join(UNFINISHED));
        if !was_there {
            let _ = fs::remove_dir(directory);
        }
    })
}

/// Writes a set beside what is there, of which it has nothing.
fn prepare(directory: &Path, files: &[KeyFile]) -> Result<(), TransferError> {
    let unfinished = directory.join(UNFINISHED);
    // What one that was killed had begun.
    let _ = fs::remove_dir_all(&unfinished);
    let wrong = |name: &str, error| keys_error(directory, &format!("cannot write {name}: {error}"));
    let made = fs::DirBuilder::new().mode(0o700).create(&unfinished);
    made.map_err(|error| wrong(UNFINISHED, error))?;
    for file in files {
        let name = &file.name;
        let absent = match directory.join(name).symlink_metadata() {
            Ok(_) => Err(rustix::io::Errno::EXIST.into()),
            Err(_) => Ok(()),
        };
        let written = absent.and_then(|()| file.write(&unfinished.join(name)));
        written.map_err(|error| wrong(name, error))?;
    }
    let renamed = sync(&unfinished).and_then(|()| fs::rename(&unfinished, directory.join(SET)));
    renamed.and_then(|()| sync(directory)).map_err(|error| wrong(SET, error))
}

/// Puts the files of a whole set where they belong.
fn settle(directory: &Path) -> Result<(), TransferError> {
    let set = directory.join(SET);
    let moved = move_all(&set, directory).and_then(|()| fs::remove_dir(&set));
    match moved.and_then(|()| sync(directory)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(keys_error(directory, &format!("cannot put the files of {SET} in place: {error}")))
        }
        _ => Ok(()),
    }
}

fn move_all(set: &Path, directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(set)? {
        let entry = entry?;
        let place = directory.join(entry.file_name());
        if place.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        fs::rename(entry.path(), place)?;
    }
    Ok(())
}

fn sync(directory: &Path) -> io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

/// Where a file of a key directory is, which may be in a set that is not yet in place.
fn place_of(directory: &Path, name: &str) -> PathBuf {
    let place = directory.join(name);
    let waiting = directory.join(SET).join(name);
    if !place.exists() && waiting.exists() { waiting } else { place }
}

fn read(directory: &Path, name: &str) -> Result<String, TransferError> {
    read_regular(&place_of(directory, name), FILE_MAX).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "; `weir keys init` makes a set, `weir keys issue` adds one",
            _ => "",
        };
        keys_error(directory, &format!("cannot read {name}: {error}{hint}"))
    })
}

/// All of a regular file. Another kind might be waited for, or be read, without end.
fn read_regular(path: &Path, most_bytes: u64) -> io::Result<String> {
    let mut options = fs::OpenOptions::new();
    // A FIFO is opened at once, whoever writes to it.
    let mut file = options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > most_bytes {
        let text = format!("it is no regular file of at most {} MB", most_bytes / 1_000_000);
        return Err(io::Error::other(text));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

fn keys_error(directory: &Path, reason: &(impl std::fmt::Display + ?Sized)) -> TransferError {
    let directory = directory.display().to_string();
    TransferError::Keys { directory, reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 6] =
        ["ca.key", "ca.pem", "client.key", "client.pem", "server.key", "server.pem"];

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_a_killed_one_had_not_finished_is_nothing() {
        let top = tempfile::tempdir().unwrap();
        let made = top.path().join("keys");
        fs::create_dir_all(made.join(UNFINISHED)).unwrap();
        fs::write(made.join(UNFINISHED).join("ca.key"), "half").unwrap();
        assert!(client_config(&made).is_err());
        init(&made).unwrap();
        assert_eq!(names(&made), NAMES);
        client_config(&made).unwrap();
    }

    #[test]
    fn a_set_is_whole_however_many_of_its_files_were_put_in_place() {
        for moved in 0..=NAMES.len() {
            let top = tempfile::tempdir().unwrap();
            let (made, other) = (top.path().join("keys"), top.path().join("other"));
            init(&made).unwrap();
            // As whoever was killed there leaves it.
            fs::create_dir(made.join(SET)).unwrap();
            for name in &NAMES[moved..] {
                fs::rename(made.join(name), made.join(SET).join(name)).unwrap();
            }
            server_config(&made).unwrap();
            client_config(&made).unwrap();
            assert_eq!(show(&made).unwrap().len(), 2);
            issue(&made, &other, "dtn7", Purpose::Client).unwrap();
            let again = init(&made).unwrap_err().to_string();
            assert!(again.contains("exist already"), "{again}");
            assert_eq!(names(&made), NAMES);
        }
    }

    #[test]
    fn nothing_takes_the_place_of_what_is_there() {
        let top = tempfile::tempdir().unwrap();
        let made = top.path().join("keys");
        fs::create_dir_all(made.join(SET)).unwrap();
        fs::write(made.join(SET).join("ca.key"), "of a set").unwrap();
        fs::write(made.join("ca.key"), "somebody's").unwrap();
        assert!(init(&made).is_err());
        assert_eq!(fs::read_to_string(made.join("ca.key")).unwrap(), "somebody's");
    }
}
