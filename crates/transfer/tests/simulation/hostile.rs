//! Runs with a hostile peer: against a server that others use at the same time, and against a
//! client.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use weir_random::Random;
use weir_transfer::wire::{
    AnswerState, FrameHeader, Message, PREFIX_SIZE, Role, Settled, message_length,
};
use weir_transfer::{Direction, Remote, Settings, Transfer, TransferState, keys};
use weir_units::Time;

use crate::kernel::{self, SECOND_NS, as_process, with_world};
use crate::memory;
use crate::noise::Noise;
use crate::session::{ADDRESS, OWN_THREADS, start_server};

const SERVER: usize = 1;
const HOSTILE: usize = 2;
const HONEST: usize = 3;
/// A few sessions with a few connections each need no more than this, whatever they are told.
const MEMORY_MAX: usize = 96 << 20;
/// Nobody may take longer to greet, the network's time included.
const DRIP_MAX_NS: u64 = 40 * SECOND_NS;
/// Somebody did.
static HELD: AtomicBool = AtomicBool::new(false);
/// An honest transfer of a few files beside hostile peers.
const PATIENCE_NS: u64 = 300 * SECOND_NS;

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Folders of a run: `root` is served, or received into; nothing reaches `outside`.
fn lay_out(base: &Path) {
    for folder in ["root/shared", "root/hostile", "outside", "honest"] {
        fs::create_dir_all(base.join(folder)).expect("the run's folder is new");
    }
    fs::set_permissions(base.join("root"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    fs::write(base.join("outside/sentinel"), b"untouched").expect("the run's folder is new");
    fs::write(base.join("root/shared/small"), b"shared").expect("the run's folder is new");
    fs::write(base.join("root/shared/big"), vec![9; 2_500_000]).expect("the run's folder is new");
    for (name, size) in [("one", 3_000), ("two", 1_500_000)] {
        fs::write(base.join("honest").join(name), vec![5; size]).expect("the run's folder is new");
    }
}

/// What a hostile peer must not have reached.
fn check_bounds(base: &Path, wrong: &mut Vec<String>) {
    let outside: Vec<_> = fs::read_dir(base.join("outside")).into_iter().flatten().collect();
    let sentinel = fs::read(base.join("outside/sentinel")).unwrap_or_default();
    if outside.len() != 1 || sentinel != b"untouched" {
        wrong.push("something outside the root was changed".to_owned());
    }
    let known = ["root", "outside", "honest", "keys"];
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if !known.iter().any(|known| name == *known) {
            wrong.push(format!("{name:?} was made outside the root"));
        }
    }
    let about = fs::metadata(base.join("root"));
    let mode = about.map_or(0, |about| about.permissions().mode() & 0o777);
    if mode != 0o755 {
        wrong.push(format!("the root's own mode became {mode:o}"));
    }
}

fn read_message(stream: &mut TcpStream) -> io::Result<Message> {
    let mut prefix = [0; PREFIX_SIZE];
    stream.read_exact(&mut prefix)?;
    let length = message_length(prefix, 1 << 20).map_err(io::Error::other)?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Message::decode(&body).map_err(io::Error::other)
}

fn hello(role: Role, token: [u8; 16]) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(ADDRESS)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(&Message::Hello { role, token }.encode())?;
    Ok(stream)
}

/// A server under attack: what it serves to others stays right, and in the end it is as before.
pub(crate) fn attack_server(seed: u64, base: &Path) -> Vec<String> {
    lay_out(base);
    let mut random = Random::of_source(seed, &["hostile"]);
    let keys = random.chance(0.2).then(|| base.join("keys"));
    if let Some(keys) = &keys {
        keys::init(keys).expect("the run's folder is new");
    }
    start_server(SERVER, &base.join("root"), false, keys.as_deref());
    memory::reset_peak();
    if keys.is_some() {
        as_process(HOSTILE, || thread::spawn(crowd));
    }
    let peers = 1 + random.up_to(3);
    for peer in 0..peers {
        let random = Random::of_source(seed, &["hostile", &peer.to_string()]);
        as_process(HOSTILE, || thread::spawn(move || attack(Noise::new(random, "hostile"))));
    }
    thread::sleep(Duration::from_millis(random.up_to(20_000)));
    let sent = send_honestly(base, keys.as_deref());
    let mut wrong = Vec::new();
    for name in ["one", "two"] {
        let same = fs::read(base.join("root").join(name)).ok()
            == fs::read(base.join("honest").join(name)).ok();
        if !same {
            wrong.push(format!("an honest client's {name} is not right: {sent:?}"));
        }
    }
    with_world(|world| world.kill(HONEST));
    // By then every attack is over, and its peers hold on to what they have open.
    thread::sleep(Duration::from_secs(5_000));
    check_server("while its peers hold on", &mut wrong);
    if HELD.load(Relaxed) {
        wrong.push("a greeting that drips holds its place".to_owned());
    }
    with_world(|world| world.kill(HOSTILE));
    thread::sleep(Duration::from_secs(60));
    check_server("after its peers", &mut wrong);
    if memory::peak() > MEMORY_MAX {
        wrong.push(format!("{} B of memory were taken", memory::peak()));
    }
    check_bounds(base, &mut wrong);
    wrong
}

/// Neither a session nor a connection is left.
fn check_server(when: &str, wrong: &mut Vec<String>) {
    let (threads, links) =
        with_world(|world| (world.threads_of(SERVER), world.network.open_links_of(SERVER)));
    if threads > OWN_THREADS || links > 0 {
        wrong.push(format!("the server has {threads} threads and {links} links {when}"));
    }
}

fn send_honestly(base: &Path, keys: Option<&Path>) -> Option<TransferState> {
    let folder = base.join("honest").join("");
    let destination = Remote::parse(b"10.0.0.2:7411/").expect("a remote place");
    let direction = Direction::Send { sources: vec![folder], destination };
    let tls = keys.map(|keys| keys::client_config(keys).expect("keys as they were made"));
    let settings = Settings { tls, retry: Time::from_ms(60_000), ..Settings::default() };
    wait(direction, settings)
}

/// Carries out one transfer and says how it ended.
fn wait(direction: Direction, settings: Settings) -> Option<TransferState> {
    let state = Arc::new(Mutex::new(None));
    let told = Arc::clone(&state);
    as_process(HONEST, || {
        thread::spawn(move || {
            let transfer = Transfer::new(direction, settings);
            let ended = transfer.map_or(TransferState::Failed, |transfer| {
                transfer.start();
                transfer.wait(None);
                let (state, error) = transfer.state();
                kernel::tell_if_asked(&format!("the honest client: {state:?} {error:?}"));
                state
            });
            *lock(&told) = Some(ended);
        })
    });
    let give_up = with_world(|world| world.now_ns) + PATIENCE_NS;
    while lock(&state).is_none() && with_world(|world| world.now_ns) < give_up {
        thread::sleep(Duration::from_millis(100));
    }
    *lock(&state)
}

/// Strangers who connect, say nothing and come back.
fn crowd() {
    let mut open = Vec::new();
    for _ in 0..2 {
        open.clear();
        for _ in 0..600 {
            open.extend(TcpStream::connect(ADDRESS));
        }
        thread::sleep(Duration::from_secs(8));
    }
    thread::sleep(Duration::from_secs(10_000));
}

/// One hostile client: several sessions after one another, some of which stay open.
fn attack(mut noise: Noise) {
    let mut open = Vec::new();
    for _ in 0..=noise.up_to(6) {
        let mut streams = Vec::new();
        // Where the server closes, the next session begins.
        let _ = attack_once(&mut noise, &mut streams);
        if noise.random.chance(0.5) {
            open.append(&mut streams);
        }
    }
    thread::sleep(Duration::from_secs(10_000));
    drop(open);
}

fn attack_once(noise: &mut Noise, streams: &mut Vec<TcpStream>) -> io::Result<()> {
    if noise.random.chance(0.15) {
        let stream = TcpStream::connect(ADDRESS)?;
        streams.push(stream.try_clone()?);
        return drip(noise, stream);
    }
    let mut control = hello(Role::Control, [0; 16])?;
    streams.push(control.try_clone()?);
    let Message::Welcome { token, .. } = read_message(&mut control)? else {
        return Ok(());
    };
    let count = noise.up_to(3) as usize;
    let mut data = Vec::new();
    for _ in 0..count {
        let mut stream = hello(Role::Data, token)?;
        stream.read_exact(&mut [0])?;
        streams.push(stream.try_clone()?);
        data.push(stream);
    }
    control.write_all(&noise.request(count as u16).encode())?;
    let ready = read_message(&mut control)?;
    if ready == Message::Ready && noise.random.chance(0.8) {
        control.write_all(&Message::Begin { single_file: noise.random.chance(0.5) }.encode())?;
    }
    for _ in 0..noise.up_to(40) {
        match noise.up_to(9) {
            0 => {
                let _ = read_message(&mut control);
            }
            1 => thread::sleep(Duration::from_millis(noise.up_to(8_000))),
            2..=4 if !data.is_empty() => {
                let which = noise.up_to(data.len() as u64 - 1) as usize;
                let frame = noise.frame();
                let frame = noise.spoil(frame);
                data[which].write_all(&frame)?;
            }
            _ => {
                let bytes = noise.message().encode();
                let bytes = noise.spoil(bytes);
                control.write_all(&bytes)?;
            }
        }
    }
    Ok(())
}

/// A greeting a few bytes at a time, each within the patience for a single read.
fn drip(noise: &mut Noise, mut stream: TcpStream) -> io::Result<()> {
    let start_ns = with_world(|world| world.now_ns);
    let bytes = hello_bytes(noise);
    for byte in bytes.chunks(1 + noise.up_to(50) as usize) {
        stream.write_all(byte)?;
        if with_world(|world| world.now_ns) > start_ns + DRIP_MAX_NS {
            HELD.store(true, Relaxed);
        }
        thread::sleep(Duration::from_millis(noise.up_to(9_000)));
    }
    Ok(())
}

fn hello_bytes(noise: &mut Noise) -> Vec<u8> {
    let bytes = Message::Hello { role: Role::Control, token: [0; 16] }.encode();
    noise.spoil(bytes)
}

/// What a hostile server has said to have of what it was sent.
#[derive(Default)]
struct Claims {
    offered: u64,
    here: Vec<u64>,
}

/// A client and a hostile server: nothing leaves the client's bounds, and it believes nothing
/// that it was not told.
pub(crate) fn attack_client(seed: u64, base: &Path) -> Vec<String> {
    lay_out(base);
    memory::reset_peak();
    let mut random = Random::of_source(seed, &["hostile"]);
    let claims = Arc::new(Mutex::new(Claims::default()));
    let told = Arc::clone(&claims);
    let noise = Noise::new(Random::of_source(seed, &["hostile", "server"]), "hostile");
    as_process(HOSTILE, || {
        let listener = TcpListener::bind(ADDRESS).expect("the address is free");
        thread::spawn(move || serve_badly(&listener, noise, &told))
    });
    let sends = random.chance(0.5);
    let direction = if sends {
        let destination = Remote::parse(b"10.0.0.2:7411/").expect("a remote place");
        Direction::Send { sources: vec![base.join("honest").join("")], destination }
    } else {
        let remote = Remote::parse(b"10.0.0.2:7411").expect("a remote place");
        Direction::Get { remote, sources: vec![b"asked".to_vec()], destination: base.join("root") }
    };
    let ended = wait(direction, Settings { streams: 2, ..Settings::default() });
    with_world(|world| world.kill(HOSTILE));
    thread::sleep(Duration::from_secs(100));
    let mut wrong = Vec::new();
    let claims = lock(&claims);
    let mut here = claims.here.clone();
    here.sort_unstable();
    here.dedup();
    if sends && ended == Some(TransferState::Done) && (here.len() as u64) < 2 {
        wrong.push(format!("success, though the server has only said to have {here:?}"));
    }
    if with_world(|world| world.threads_of(HONEST)) > 0 {
        wrong.push("the client goes on without its server".to_owned());
    }
    if memory::peak() > MEMORY_MAX {
        wrong.push(format!("{} B of memory were taken", memory::peak()));
    }
    check_bounds(base, &mut wrong);
    for entry in fs::read_dir(base.join("root")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !["shared", "hostile", "asked"].contains(&name.as_str()) && !name.starts_with(".weir-") {
            wrong.push(format!("{name} was not asked for"));
        }
    }
    let _ = claims.offered;
    wrong
}

fn serve_badly(listener: &TcpListener, mut noise: Noise, claims: &Mutex<Claims>) {
    loop {
        // Where the client closes, the next session begins.
        let _ = serve_badly_once(listener, &mut noise, claims);
    }
}

fn serve_badly_once(
    listener: &TcpListener,
    noise: &mut Noise,
    claims: &Mutex<Claims>,
) -> io::Result<()> {
    let (mut control, _) = listener.accept()?;
    control.set_read_timeout(Some(Duration::from_secs(3)))?;
    control.set_write_timeout(Some(Duration::from_secs(3)))?;
    read_message(&mut control)?;
    control
        .write_all(&Message::Welcome { token: [1; 16], version: 1, streams_max: 64 }.encode())?;
    let mut data = Vec::new();
    for _ in 0..2 {
        let (mut stream, _) = listener.accept()?;
        stream.set_write_timeout(Some(Duration::from_secs(3)))?;
        read_message(&mut stream)?;
        stream.write_all(&[1])?;
        data.push(stream);
    }
    let request = read_message(&mut control)?;
    control.write_all(&Message::Ready.encode())?;
    let gets = matches!(request, Message::Get { .. });
    if gets {
        control.write_all(&Message::Begin { single_file: noise.random.chance(0.5) }.encode())?;
    }
    for _ in 0..noise.up_to(60) {
        match noise.up_to(9) {
            0 | 1 => {
                if let Ok(Message::Offer { first, files }) = read_message(&mut control) {
                    lock(claims).offered = first + files.len() as u64;
                }
            }
            2 => thread::sleep(Duration::from_millis(noise.up_to(2_000))),
            3 | 4 if gets => {
                let frame = noise.frame();
                data[noise.up_to(1) as usize].write_all(&frame)?;
            }
            _ => {
                let message = noise.message();
                note_claims(&message, claims);
                control.write_all(&message.encode())?;
            }
        }
    }
    for stream in &mut data {
        let _ = stream.write_all(&FrameHeader::END.encode());
    }
    let last = if gets { Message::Finish } else { Message::Finished };
    control.write_all(&last.encode())?;
    thread::sleep(Duration::from_secs(noise.up_to(40)));
    Ok(())
}

fn note_claims(message: &Message, claims: &Mutex<Claims>) {
    let mut claims = lock(claims);
    match message {
        Message::Answers(answers) => {
            let here = answers.iter().filter(|answer| answer.state == AnswerState::Present);
            claims.here.extend(here.map(|answer| answer.file));
        }
        Message::Committed(settled) => {
            claims.here.extend(settled.iter().map(|Settled { file, .. }| *file));
        }
        _ => {}
    }
}
