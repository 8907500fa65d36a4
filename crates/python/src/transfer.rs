//! `Transfer`, `Server` and the key functions as Python sees them; nothing here holds the GIL
//! while it waits.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_transfer::{
    Access, Direction, Entry, ErrorClass, Export, Grant, HashKind, HostShare, Item, Loss,
    LowerClass, Remote, Route, Settings, Spare, TransferError, TransferState, keys, printable,
    wire::RelativePath,
};

use crate::errors::{BadInput, Refused, TransferFailed, Unavailable, Unsupported, words};
use crate::units::{Bytes, Rate, Time};

fn raise(error: &TransferError) -> PyErr {
    let text = printable(&words(error));
    match error.class() {
        ErrorClass::BadInput => BadInput::new_err(text),
        ErrorClass::Unsupported => Unsupported::new_err(text),
        ErrorClass::Refused => Refused::new_err(text),
        ErrorClass::Failed => TransferFailed::new_err(text),
        ErrorClass::Unavailable => Unavailable::new_err(text),
    }
}

/// One transfer, carried out by its own threads.
#[pyclass(frozen, module = "weir._core")]
struct Transfer(weir_transfer::Transfer);

/// (class, streams, rate, congestion control, largest packet) of spare connections.
type SpareTuple = (String, u16, Option<Rate>, Option<String>, Option<u16>);

/// (port, rate) of a route.
type RouteTuple = (u16, Option<Rate>);

/// What `Transfer` takes besides its direction.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Choices {
    keys: Option<PathBuf>,
    rate: Option<Rate>,
    streams: u16,
    routes: Vec<RouteTuple>,
    spare: Option<SpareTuple>,
    congestion: Option<String>,
    hash: String,
    sync: bool,
    checksum: bool,
    read_back: bool,
    follow_links: bool,
    unsafe_links: bool,
    root: Option<PathBuf>,
    server_name: Option<String>,
    retry: Time,
    silence: Time,
}

impl Choices {
    fn settings(self) -> PyResult<Settings> {
        let revoked = self.keys.as_deref().map(keys::revoked_list);
        let tls = self.keys.map(|directory| keys::client_config(&directory)).transpose();
        Ok(Settings {
            tls: tls.map_err(|error| raise(&error))?,
            rate: unpaced(self.rate),
            streams: self.streams,
            routes: routes(self.routes),
            others: Vec::new(),
            spare: self.spare.map(spare).transpose()?,
            congestion: self.congestion.unwrap_or_default(),
            hash: match self.hash.as_str() {
                "blake3" => HashKind::Blake3,
                "none" => HashKind::None,
                other => {
                    let text = format!("hash \"{other}\": it is blake3 or none");
                    return Err(BadInput::new_err(text));
                }
            },
            sync: self.sync,
            checksum: self.checksum,
            read_back: self.read_back,
            follow_links: self.follow_links,
            unsafe_links: self.unsafe_links,
            root: self.root,
            server_name: self.server_name,
            revoked,
            retry: self.retry.0,
            silence: self.silence.0,
        })
    }
}

fn spare((class, streams, rate, congestion, packet): SpareTuple) -> PyResult<Spare> {
    Ok(Spare {
        class: LowerClass::named(&class).map_err(|error| raise(&error))?,
        streams,
        rate: unpaced(rate),
        congestion: congestion.unwrap_or_default(),
        packet,
    })
}

fn routes(each: Vec<RouteTuple>) -> Vec<Route> {
    each.into_iter().map(|(port, rate)| Route { port, rate: unpaced(rate) }).collect()
}

/// Hosts and ports of a place on several of them.
fn hosts(place: &[Remote]) -> Vec<String> {
    place.iter().map(Remote::to_string).collect()
}

/// A rate; `None` is no bound.
fn unpaced(rate: Option<Rate>) -> weir_units::Rate {
    rate.map_or(weir_units::Rate::MAX, |rate| rate.0)
}

/// Bytes done, in all, durable, resumed and by spare connections; files done, failed, skipped and
/// in all; whether these totals are final; the state's name.
type Counters = (u64, u64, u64, u64, u64, u64, u64, u64, u64, bool, &'static str);

/// (name, bytes, when it was lost in seconds since 1970, why) of one of several hosts.
type HostTuple = (String, u64, Option<f64>, String);

fn build(
    py: Python<'_>,
    direction: Direction,
    choices: Choices,
    others: Vec<Remote>,
) -> PyResult<Transfer> {
    let settings = Settings { others, ..choices.settings()? };
    let made = py.detach(|| weir_transfer::Transfer::new(direction, settings));
    made.map(Transfer).map_err(|error| raise(&error))
}

#[pymethods]
impl Transfer {
    /// A transfer to a server.
    #[staticmethod]
    fn send(
        py: Python<'_>,
        sources: Vec<PathBuf>,
        destination: &[u8],
        choices: Choices,
    ) -> PyResult<Self> {
        let mut places = Remote::parse_all(destination).map_err(|error| raise(&error))?;
        let others = places.split_off(1);
        let direction = Direction::Send { sources, destination: places.remove(0) };
        build(py, direction, choices, others)
    }

    /// A transfer from a server, or from several that have the same.
    #[staticmethod]
    fn get(
        py: Python<'_>,
        sources: Vec<Vec<u8>>,
        destination: PathBuf,
        choices: Choices,
    ) -> PyResult<Self> {
        let mut places = Vec::new();
        for source in &sources {
            places.push(Remote::parse_all(source).map_err(|error| raise(&error))?);
        }
        let Some(first) = places.first() else {
            return Err(BadInput::new_err("nothing to get"));
        };
        for place in &places {
            if hosts(place) != hosts(first) {
                let (first, other) = (hosts(first).join(","), hosts(place).join(","));
                let text = format!("all sources must be on one server, not {first} and {other}");
                return Err(BadInput::new_err(text));
            }
        }
        let mut others = first.clone();
        let remote = others.remove(0);
        let sources = places.into_iter().map(|mut place| place.swap_remove(0).path).collect();
        build(py, Direction::Get { remote, sources, destination }, choices, others)
    }

    fn start(&self, py: Python<'_>) {
        py.detach(|| self.0.start());
    }

    /// `None` is unpaced, a rate of zero pauses.
    fn set_rate(&self, py: Python<'_>, rate: Option<Rate>) {
        py.detach(|| self.0.set_rate(unpaced(rate)));
    }

    /// Routes that are not named keep their rates; a rate of zero lets one take nothing.
    fn set_routes(&self, py: Python<'_>, each: Vec<RouteTuple>) {
        py.detach(|| self.0.set_routes(&routes(each)));
    }

    /// `None` is no bound, a rate of zero lets spare connections take nothing.
    fn set_spare_rate(&self, py: Python<'_>, rate: Option<Rate>) {
        py.detach(|| self.0.set_spare_rate(unpaced(rate)));
    }

    fn set_congestion(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| self.0.set_congestion(name)).map_err(|error| raise(&error))
    }

    /// `None` is what it begins with.
    fn set_unsent_max(&self, bytes: Option<u32>) {
        self.0.set_unsent_max(bytes);
    }

    fn set_streams(&self, streams: u16) -> PyResult<()> {
        self.0.set_streams(streams).map_err(|error| raise(&error))
    }

    /// Sends on new data connections in place of those that there are.
    fn renew_streams(&self) {
        self.0.renew_streams();
    }

    /// Whether more data connections can join now.
    fn can_join(&self) -> bool {
        self.0.can_join()
    }

    /// Counters, in the order of `weir.transfer.Progress`, and the state's name.
    fn progress(&self) -> Counters {
        let now = self.0.progress();
        let state = match self.0.state().0 {
            TransferState::Connecting => "connecting",
            TransferState::Running => "running",
            TransferState::Done => "done",
            TransferState::Failed => "failed",
            TransferState::Cancelled => "cancelled",
        };
        (
            now.bytes_done,
            now.bytes_total,
            now.bytes_durable,
            now.bytes_resumed,
            now.bytes_spare,
            now.files_done,
            now.files_failed,
            now.files_skipped,
            now.files_total,
            now.total_is_known,
            state,
        )
    }

    /// What each of several hosts took, or gave: its name, bytes, when it was lost in seconds since
    /// 1970, and why, which is empty if it was not.
    fn hosts(&self) -> Vec<HostTuple> {
        let share = |host: HostShare| {
            let at_s = |loss: &Loss| loss.at.duration_since(UNIX_EPOCH).map(|at| at.as_secs_f64());
            let lost_at_s = host.lost.as_ref().and_then(|loss| at_s(loss).ok());
            let why = host.lost.map_or_else(String::new, |loss| printable(&words(&loss.why)));
            (printable(&host.name), host.bytes, lost_at_s, why)
        };
        self.0.details().hosts().into_iter().map(share).collect()
    }

    /// The exception of a transfer that failed or was cancelled.
    fn error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let error = self.0.state().1?;
        Some(raise(&error).into_value(py).into_any())
    }

    /// Whether it is over within the time given (`None`: however long it takes).
    fn wait(&self, py: Python<'_>, timeout: Option<Time>) -> bool {
        py.detach(|| self.0.wait(timeout.map(|timeout| timeout.0)))
    }

    fn cancel(&self, py: Python<'_>) {
        py.detach(|| self.0.cancel());
    }

    /// `(local address, local port, remote address, remote port)` of each data connection.
    fn ports(&self) -> Vec<(String, u16, String, u16)> {
        let pairs = self.0.ports().into_iter();
        pairs.map(|(local, peer)| (host(local), local.port(), host(peer), peer.port())).collect()
    }

    /// `struct tcp_info` of each data connection that this end sends on.
    fn tcp_info(&self) -> Vec<Vec<u8>> {
        self.0.tcp_info()
    }

    /// The congestion control of the data connections that this end sends on.
    fn congestion(&self) -> Option<String> {
        self.0.congestion()
    }

    /// Files that settle are counted and not kept from now on.
    fn count_only(&self) {
        self.0.details().count_only();
    }

    /// Files settled since the last call: path, size in bytes, hash, whether it was there.
    fn take_settled(&self) -> Vec<(Vec<u8>, u64, Option<String>, bool)> {
        let files = self.0.details().take_settled().into_iter();
        files
            .map(|file| {
                let hash = file.hash.map(|hash| hash.iter().map(|b| format!("{b:02x}")).collect());
                (file.path, file.size_bytes, hash, file.already_there)
            })
            .collect()
    }

    /// What failed since the last call: path (where known) and why.
    fn take_failures(&self) -> Vec<(Option<Vec<u8>>, String)> {
        let files = self.0.details().take_failures().into_iter();
        files.map(|file| (file.path, words(file.failure.message))).collect()
    }

    fn take_notices(&self) -> Vec<String> {
        self.0.details().take_notices().iter().map(|notice| printable(&words(notice))).collect()
    }
}

/// The address without its port; a link-local one keeps its interface, without which nobody can
/// use it (RFC 4007).
fn host(address: SocketAddr) -> String {
    match address {
        SocketAddr::V6(six) if six.scope_id() != 0 => format!("{}%{}", six.ip(), six.scope_id()),
        _ => address.ip().to_string(),
    }
}

/// (client, root, read_only, prefix, quota in bytes).
type GrantTuple = (String, String, bool, Vec<u8>, Option<u64>);

/// What `Server` takes besides its address and roots.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ServerChoices {
    ports: u16,
    keys: Option<PathBuf>,
    sync: bool,
    silence: Time,
    idle: Time,
    reserve: Option<Bytes>,
    quota: Option<Bytes>,
    rights: Option<Vec<GrantTuple>>,
}

/// A running server; it stops when collected.
#[pyclass(frozen, module = "weir._core")]
struct Server {
    /// `None` once stopped: only then are the roots let go.
    running: Mutex<Option<weir_transfer::Server>>,
    address: (String, u16),
    ports: Vec<u16>,
}

#[pymethods]
impl Server {
    /// `exports` are (name, directory, read_only); `log` is called from other threads with a line
    /// of text and the same as a dictionary.
    #[new]
    fn new(
        py: Python<'_>,
        listen: String,
        exports: Vec<(String, PathBuf, bool)>,
        choices: ServerChoices,
        log: Py<PyAny>,
    ) -> PyResult<Self> {
        let log: weir_transfer::Log = Arc::new(move |entry: &Entry| {
            // A log that fails must not take the transfer with it.
            let _ =
                Python::attach(|py| log.call1(py, (words(entry), facts(py, entry)?)).map(|_| ()));
        });
        let ServerChoices { ports, keys, sync, silence, idle, reserve, quota, rights } = choices;
        let rights = rights.map(|rights| rights.into_iter().map(grant).collect()).transpose();
        let rights = rights.map_err(|error| raise(&error))?;
        let start = || {
            let mut opened = Vec::new();
            for (name, directory, read_only) in exports {
                opened.push(Export::open(&name, &directory, access(read_only))?);
            }
            let revoked = keys.as_deref().map(keys::revoked_list);
            let tls = keys.map(|directory| keys::server_config(&directory)).transpose()?;
            let settings = weir_transfer::ServerSettings {
                listen,
                ports,
                exports: opened,
                tls,
                sync,
                silence: silence.0,
                idle: idle.0,
                reserve: reserve.map(|reserve| reserve.0.count()),
                quota: quota.map(|quota| quota.0.count()),
                rights,
                revoked,
            };
            weir_transfer::Server::start(settings, log)
        };
        let server = py.detach(start).map_err(|error| raise(&error))?;
        let address = (host(server.address()), server.address().port());
        let ports = server.ports();
        Ok(Self { running: Mutex::new(Some(server)), address, ports })
    }

    fn ports(&self) -> Vec<u16> {
        self.ports.clone()
    }

    fn address(&self) -> (String, u16) {
        self.address.clone()
    }

    fn stop(&self, py: Python<'_>) {
        py.detach(|| drop(self.running.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}

fn access(read_only: bool) -> Access {
    if read_only { Access::ReadOnly } else { Access::ReadWrite }
}

fn grant((client, root, read_only, prefix, quota): GrantTuple) -> Result<Grant, TransferError> {
    let prefix = RelativePath::from_typed(&prefix).map_err(TransferError::Path)?;
    Ok(Grant { client, root, access: access(read_only), prefix, quota })
}

/// An entry of the log as a machine reads it.
fn facts<'py>(py: Python<'py>, entry: &Entry) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    facts.set_item("event", entry.event)?;
    facts.set_item("client", &entry.client)?;
    facts.set_item("address", &entry.address)?;
    if let Some(account) = &entry.transfer {
        facts.set_item("request", account.request)?;
        facts.set_item("path", &account.path)?;
        facts.set_item("files", account.files)?;
        facts.set_item("bytes", account.bytes)?;
        facts.set_item("seconds", account.seconds)?;
        facts.set_item("outcome", if entry.message.is_empty() { "done" } else { "failed" })?;
    }
    facts.set_item("message", words(&entry.message))?;
    if entry.left_out > 0 {
        facts.set_item("left_out", entry.left_out)?;
    }
    Ok(facts)
}

/// (purpose, name, serial number, valid until in seconds since 1970) of each certificate.
#[pyfunction]
fn keys_show(
    py: Python<'_>,
    directory: PathBuf,
) -> PyResult<Vec<(&'static str, String, String, i64)>> {
    let shown = py.detach(|| keys::show(&directory)).map_err(|error| raise(&error))?;
    let purpose = |purpose| match purpose {
        keys::Purpose::Server => "server",
        keys::Purpose::Client => "client",
    };
    let row = |(whose, holder): (keys::Purpose, weir_transfer::Holder)| {
        (purpose(whose), printable(&holder.name), holder.serial, holder.until_s)
    };
    Ok(shown.into_iter().map(row).collect())
}

#[pyfunction]
fn keys_revoke(py: Python<'_>, directory: PathBuf, holder: &str) -> PyResult<()> {
    py.detach(|| keys::revoke(&directory, holder)).map_err(|error| raise(&error))
}

/// Path below the place, kind, size in bytes, and the file's hash or the link's target; of what is
/// unreadable the path is empty and the last says why.
type Listed = (Vec<u8>, &'static str, u64, Vec<u8>);

/// What stands at a place, one after the other, by path.
#[pyclass(frozen, module = "weir._core")]
struct Catalogue {
    /// Until it was read to its end.
    items: Mutex<weir_transfer::Catalogue>,
    #[pyo3(get)]
    single: bool,
    #[pyo3(get)]
    files: u64,
    #[pyo3(get)]
    size_bytes: u64,
}

#[pymethods]
impl Catalogue {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self) -> PyResult<Option<Listed>> {
        let item = self.items.lock().unwrap_or_else(PoisonError::into_inner).next();
        item.transpose().map(|item| item.map(listed)).map_err(|error| raise(&error))
    }
}

/// What stands at a place; `None` if nothing is there. With a `silence`, after which a server is
/// gone, the place is a server's, else it is a local one.
#[pyfunction]
#[pyo3(signature = (place, follow_links, silence=None, keys=None))]
fn catalogue(
    py: Python<'_>,
    place: Vec<u8>,
    follow_links: bool,
    silence: Option<Time>,
    keys: Option<PathBuf>,
) -> PyResult<Option<Catalogue>> {
    let made = py.detach(|| match silence {
        None => {
            let place = std::path::Path::new(OsStr::from_bytes(&place));
            weir_transfer::Catalogue::of_local(place, follow_links)
        }
        Some(silence) => {
            let remote = Remote::parse(&place)?;
            let revoked = keys.as_deref().map(keys::revoked_list);
            let tls = keys.map(|directory| keys::client_config(&directory)).transpose()?;
            let silence = silence.0;
            let settings = Settings { tls, revoked, silence, follow_links, ..Settings::default() };
            weir_transfer::Catalogue::of_remote(&remote, &settings)
        }
    });
    let made = made.map_err(|error| raise(&error))?;
    Ok(made.map(|made| Catalogue {
        single: made.single,
        files: made.files,
        size_bytes: made.bytes,
        items: Mutex::new(made),
    }))
}

fn listed(item: Item) -> Listed {
    match item {
        Item::File { path, size_bytes, hash } => {
            (path.as_bytes().to_vec(), "file", size_bytes, hash.to_vec())
        }
        Item::Link(link) => (link.path.as_bytes().to_vec(), "link", 0, link.target),
        Item::Directory(path) => (path.as_bytes().to_vec(), "directory", 0, Vec::new()),
        Item::Unreadable(why) => (Vec::new(), "unreadable", 0, why.into_bytes()),
    }
}

#[pyfunction]
fn keys_init(py: Python<'_>, directory: PathBuf) -> PyResult<()> {
    py.detach(|| keys::init(&directory)).map_err(|error| raise(&error))
}

#[pyfunction]
fn keys_issue(
    py: Python<'_>,
    authority: PathBuf,
    target: PathBuf,
    name: &str,
    server: bool,
) -> PyResult<()> {
    let purpose = if server { keys::Purpose::Server } else { keys::Purpose::Client };
    py.detach(|| keys::issue(&authority, &target, name, purpose)).map_err(|error| raise(&error))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Transfer>()?;
    module.add_class::<Server>()?;
    module.add_class::<Catalogue>()?;
    module.add_function(wrap_pyfunction!(catalogue, module)?)?;
    module.add_function(wrap_pyfunction!(keys_init, module)?)?;
    module.add_function(wrap_pyfunction!(keys_issue, module)?)?;
    module.add_function(wrap_pyfunction!(keys_show, module)?)?;
    module.add_function(wrap_pyfunction!(keys_revoke, module)?)
}
