//! Relays over the kernel's sockets, with clients and servers as there are everywhere.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};
use weir_aggregate::frame::{Decoder, FLOWS_MAX, Piece, header};
use weir_aggregate::message::{Message, Reason, VERSION};
use weir_aggregate::window::WINDOW_MIN;
use weir_relay::{
    Allowed, EACH_AT_MOST, GONE_AFTER, HEARD_WITHIN, Join, JoinSettings, LinkedAck, Network, Proxy,
    ProxySettings, Split, SplitSettings, Weights,
};

/// However busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

fn here() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

fn network(text: &str) -> Network {
    text.parse().expect("a network")
}

fn split() -> Split {
    Split::start(splitting(None)).expect("a split end")
}

fn splitting(congestion: Option<&str>) -> SplitSettings {
    SplitSettings {
        listen: here(),
        from: vec![network("127.0.0.0/8")],
        servers: vec![Allowed { network: network("127.0.0.1"), port: None }],
        as_client: false,
        congestion: congestion.map(str::to_owned),
        announced: None,
        gone_after: GONE_AFTER,
        heard_within: HEARD_WITHIN,
    }
}

fn proxying(server: SocketAddr, congestion: Option<&str>) -> ProxySettings {
    ProxySettings {
        listen: here(),
        server: Some(server),
        as_client: false,
        congestion: congestion.map(str::to_owned),
        gone_after: GONE_AFTER,
    }
}

fn join(split: SocketAddr, server: SocketAddr) -> Join {
    let join = joining(split, server, LinkedAck::Off);
    until("the aggregate is there", || join.status().is_connected);
    join
}

fn joining(split: SocketAddr, server: SocketAddr, linked_ack: LinkedAck) -> Join {
    Join::start(settings_of(split, server, linked_ack)).expect("a join end")
}

fn settings_of(split: SocketAddr, server: SocketAddr, linked_ack: LinkedAck) -> JoinSettings {
    JoinSettings {
        listen: here(),
        split,
        server: Some(server),
        weights: Weights::default(),
        congestion: None,
        linked_ack,
        announced: None,
        gone_after: GONE_AFTER,
        each_at_most: EACH_AT_MOST,
        at_most: FLOWS_MAX,
        heard_within: HEARD_WITHIN,
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        thread::yield_now();
    }
}

fn connected(to: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(to).expect("a relay listens");
    client.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    client.set_write_timeout(Some(PATIENCE)).expect("a time-out");
    client
}

/// An address at which nobody listens, as long as the socket is kept.
fn refusing() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&here().into()).expect("a port");
    let address = socket.local_addr().expect("an address").as_socket().expect("of a network");
    (socket, address)
}

/// A server that does the same with each of its clients.
fn server(each: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind(here()).expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let each = each.clone();
            thread::spawn(move || each(client));
        }
    });
    address
}

/// Sends back what it gets, and says when it has all.
fn echo(mut client: TcpStream) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        if client.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
    let _ = client.shutdown(Shutdown::Write);
}

/// Bytes that are a flow's own, so that none of another's can be taken for them.
fn data(flow: usize, size: usize) -> Vec<u8> {
    (0..size).map(|at| (at.wrapping_mul(31) ^ (at >> 9) ^ flow.wrapping_mul(101)) as u8).collect()
}

/// Sends all, ends, and reads what comes back.
fn exchange(relay: SocketAddr, sent: &[u8]) -> Vec<u8> {
    let mut client = connected(relay);
    let mut sender = client.try_clone().expect("a second handle");
    thread::scope(|scope| {
        scope.spawn(move || {
            sender.write_all(sent).expect("the relay takes it");
            sender.shutdown(Shutdown::Write).expect("an end");
        });
        let mut got = Vec::new();
        client.read_to_end(&mut got).expect("it ends in order");
        got
    })
}

#[test]
fn a_hundred_flows_come_back_whole_through_one_connection() {
    let split = split();
    let join = join(split.address(), server(echo));
    thread::scope(|scope| {
        for flow in 0..100 {
            let relay = join.address();
            scope.spawn(move || {
                let sent = data(flow, 1_000 * flow * flow % 700_001);
                assert!(exchange(relay, &sent) == sent, "flow {flow} is not as it was");
            });
        }
    });
    until("all have ended", || join.status().ended == 100 && join.status().flows.is_empty());
    let (turned_away, aggregates) = split.status();
    assert_eq!((turned_away.broken, aggregates.len()), (0, 1));
    assert_eq!(join.status().bytes_sent, join.status().bytes_received);
}

/// What is less than a packet waits for nobody who might follow: a kernel that is told of more to
/// come keeps it for 200 ms.
#[test]
fn the_end_of_what_is_large_does_not_wait_for_more() {
    let split = split();
    let join = join(split.address(), server(echo));
    let mut client = connected(join.address());
    let (sent, mut got) = (data(0, 20_000), vec![0; 20_000]);
    let begun = Instant::now();
    for _ in 0..100 {
        client.write_all(&sent).expect("it is taken");
        client.read_exact(&mut got).expect("it comes back");
    }
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!(got, sent);
}

/// What is large goes through pipes, what the connection does not take waits, and what comes when
/// pipes are full waits behind it: nothing overtakes anything.
#[test]
fn who_reads_by_fits_and_starts_gets_all_in_order_both_ways() {
    let split = split();
    let fitful = server(|mut client| {
        let (mut buffer, mut size) = (vec![0; 1 << 20], 1);
        while let Ok(count @ 1..) = client.read(&mut buffer[..size]) {
            if client.write_all(&buffer[..count]).is_err() {
                return;
            }
            size = (size * 7 + 1_001) % (buffer.len() - 1) + 1;
            for _ in 0..size % 50 {
                thread::yield_now();
            }
        }
        let _ = client.shutdown(Shutdown::Write);
    });
    let join = joining(split.address(), fitful, LinkedAck::Told);
    until("the aggregate is there", || join.status().is_connected);
    thread::scope(|scope| {
        for flow in 0..6 {
            let relay = join.address();
            scope.spawn(move || {
                let sent = data(flow, 9_000_000 >> flow);
                assert!(exchange(relay, &sent) == sent, "flow {flow} is not as it was");
            });
        }
    });
    until("all have ended", || join.status().ended == 6 && join.status().flows.is_empty());
}

#[test]
fn a_server_that_refuses_is_told_by_a_reset() {
    let (_kept, unused) = refusing();
    let split = split();
    let join = join(split.address(), unused);
    let error = connected(join.address()).read(&mut [0; 1]).expect_err("it is no end in order");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    until("it is said", || {
        join.status().reasons.iter().any(|reason| reason.contains("refuses connections"))
    });
}

/// Room that is promised with a flow's first message must not have its connection read before it
/// is there: reading takes the error away, and who asks would be told another reason.
/// What the kernel said is told in words, without its numbers, and with whom it was about.
#[test]
fn every_reason_says_what_failed_and_with_whom() {
    let (_kept, gone) = refusing();
    let nowhere = joining(gone, gone, LinkedAck::Off);
    let said = format!("{gone}: the split end cannot be reached: connections are refused there");
    until("nobody listens there", || nowhere.status().reasons.contains(&said));
    let split = split();
    let (at, join) = (split.address(), join(split.address(), gone));
    let client = connected(join.address());
    let flow = format!("{} to {gone}", client.local_addr().expect("an address"));
    let refused = format!("{flow}: the server refuses connections");
    until("the split end says so", || {
        split.status().1.first().is_some_and(|(_, one)| one.reasons.contains(&refused))
    });
    let told = format!("{refused} (told by the other end)");
    until("the join end says so", || join.status().reasons.contains(&told));
    let proxy = Proxy::start(proxying(gone, None)).expect("a proxy");
    let client = connected(proxy.address());
    let refused = format!(
        "{} to {gone}: the server refuses connections",
        client.local_addr().expect("an address")
    );
    until("the proxy says so", || proxy.status().reasons.contains(&refused));
    drop(split);
    let ended = format!("{at}: the aggregate ended: the other end has ");
    let mut told = Vec::new();
    until("the aggregate has ended", || {
        told = join.status().reasons;
        told.iter().any(|why| why.starts_with(&ended))
    });
    assert!(told.iter().all(|why| !why.contains("os error")), "{told:?}");
}

#[test]
fn a_refusal_is_told_as_one_however_early_there_is_room() {
    let (_kept, server) = refusing();
    let split = split();
    let mut aggregate = connected(split.address());
    aggregate.set_nonblocking(true).expect("it need not wait");
    let (mut decoder, mut reasons) = (Decoder::default(), Vec::new());
    let mut says = Vec::new();
    Message::Hello { version: VERSION }.write(&mut says);
    for uid in 1..=500 {
        Message::Open { uid, client: here(), server }.write(&mut says);
        Message::Room { uid, until: 1 << 22 }.write(&mut says);
        aggregate.write_all(&std::mem::take(&mut says)).expect("it is taken");
        // Asking again and again keeps the processor busy, so that the answer of the server's host
        // comes a little after the call that asks it.
        until("it is said", || {
            let mut buffer = [0; 4_096];
            let Ok(count) = aggregate.read(&mut buffer) else { return false };
            let heard: Result<_, weir_aggregate::ProtocolError> =
                decoder.read(&buffer[..count], |piece| {
                    if let Piece::Control(data) = piece
                        && let Message::Reset { reason, .. } = Message::read(data)?
                    {
                        reasons.push(reason);
                    }
                    Ok(())
                });
            heard.expect("it keeps to the protocol");
            reasons.len() == usize::from(uid)
        });
    }
    assert!(reasons.iter().all(|reason| *reason == Reason::Refused), "{reasons:?}");
}

#[test]
fn a_server_that_is_not_allowed_is_not_reached() {
    let asked = server(|_| panic!("nobody may come"));
    let split = Split::start(SplitSettings {
        listen: here(),
        from: vec![network("127.0.0.0/8")],
        servers: vec![Allowed { network: network("127.0.0.0/8"), port: Some(1) }],
        as_client: false,
        congestion: None,
        announced: None,
        gone_after: GONE_AFTER,
        heard_within: HEARD_WITHIN,
    })
    .expect("a split end");
    let join = join(split.address(), asked);
    assert!(connected(join.address()).read(&mut [0; 1]).is_err());
    until("it is said", || join.status().reasons.iter().any(|why| why.contains("may not be")));
}

#[test]
fn an_aggregate_from_elsewhere_is_turned_away() {
    let split = Split::start(SplitSettings {
        listen: here(),
        from: vec![network("10.0.0.0/8")],
        servers: Vec::new(),
        as_client: false,
        congestion: None,
        announced: None,
        gone_after: GONE_AFTER,
        heard_within: HEARD_WITHIN,
    })
    .expect("a split end");
    let mut stranger = connected(split.address());
    assert!(matches!(stranger.read(&mut [0; 1]), Err(_) | Ok(0)));
    until("it is said", || split.status().0.reasons.iter().any(|why| why.contains("from there")));
}

#[test]
fn who_does_not_read_stops_nobody_else() {
    let split = split();
    // It reads nothing of whoever begins with a 0.
    let join = join(
        split.address(),
        server(|mut client| {
            let mut first = [1];
            if client.read_exact(&mut first).is_ok() && first[0] == 0 {
                thread::park_timeout(PATIENCE);
            }
            let _ = client.write_all(&first);
            echo(client);
        }),
    );
    let mut stuck = connected(join.address());
    stuck.set_nonblocking(true).expect("it never waits");
    let (begun, mut taken) = (Instant::now(), 0_usize);
    let full = vec![0; 1 << 20];
    // Until nothing more is taken for a while: all buffers on the way are full.
    let mut idle = Instant::now();
    while idle.elapsed() < Duration::from_millis(500) && begun.elapsed() < PATIENCE {
        if let Ok(count) = stuck.write(&full) {
            (taken, idle) = (taken + count, Instant::now());
        }
    }
    assert!(taken as u64 > WINDOW_MIN);
    let mut sent = data(7, 3_000_000);
    sent[0] = 7;
    assert!(exchange(join.address(), &sent) == sent);
    let (_, aggregates) = split.status();
    let waiting = aggregates[0].1.flows.iter().map(|flow| flow.bytes_waiting).max();
    assert!(waiting.unwrap_or(0) <= 4 << 20, "bounded by a window: {waiting:?}");
}

#[test]
fn a_flow_ends_when_its_server_has_acknowledged_all_and_its_end() {
    let split = split();
    let join = joining(split.address(), server(echo), LinkedAck::Told);
    until("the aggregate is there", || join.status().is_connected);
    thread::scope(|scope| {
        for flow in 0..40 {
            let relay = join.address();
            scope.spawn(move || {
                let sent = data(flow, 1_000 * flow * flow);
                assert!(exchange(relay, &sent) == sent, "flow {flow} is not as it was");
            });
        }
    });
    until("all have ended", || join.status().ended == 40 && join.status().flows.is_empty());
    until("at the other end, too", || split.status().1[0].1.ended == 40);
}

#[test]
fn what_a_server_has_not_taken_is_not_told_as_acknowledged() {
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let (tell_count, count) = std::sync::mpsc::channel();
    let told = std::sync::Arc::new(std::sync::Mutex::new(told));
    let split = split();
    let address = server(move |mut client| {
        let _ = told.lock().expect("one client").recv();
        tell_count.send(io::copy(&mut client, &mut io::sink()).ok()).expect("the test waits");
    });
    let join = joining(split.address(), address, LinkedAck::Told);
    until("the aggregate is there", || join.status().is_connected);
    let mut client = connected(join.address());
    client.set_nonblocking(true).expect("it never waits");
    let (mut sent, mut idle) = (0, Instant::now());
    while idle.elapsed() < Duration::from_millis(500) {
        if let Ok(count) = client.write(&[7; 1 << 16]) {
            (sent, idle) = (sent + count as u64, Instant::now());
        }
    }
    client.shutdown(Shutdown::Write).expect("an end");
    let acknowledged = || join.status().flows.first().and_then(|flow| flow.bytes_acknowledged);
    until("the server's kernel has some", || acknowledged().is_some_and(|bytes| bytes > 0));
    // All buffers between are full, and theirs are none of the server's.
    assert!(acknowledged().expect("it is told") < sent);
    tell.send(()).expect("the server waits");
    assert_eq!(count.recv_timeout(PATIENCE).expect("it ends"), Some(sent));
    until("it is over", || join.status().flows.is_empty() && join.status().ended == 1);
}

#[test]
fn a_server_that_resets_when_all_was_sent_to_it_is_no_end_in_order() {
    let split = split();
    let address = server(|mut client| {
        // It ends its own direction first; the client's data are never read.
        client.shutdown(Shutdown::Write).expect("an end");
        let mut first = [0; 1];
        let _ = client.read_exact(&mut first);
        SockRef::from(&client).set_linger(Some(Duration::ZERO)).expect("a reset at the end");
    });
    let join = joining(split.address(), address, LinkedAck::Told);
    until("the aggregate is there", || join.status().is_connected);
    let mut client = connected(join.address());
    client.write_all(&data(1, 30_000)).expect("the relay takes it");
    let _ = client.shutdown(Shutdown::Write);
    let _ = client.read_to_end(&mut Vec::new());
    until("both ends have seen it", || {
        let (here, there) = (join.status(), split.status().1);
        here.flows.is_empty() && there.iter().all(|(_, one)| one.flows.is_empty())
    });
}

/// A split end of the version before acknowledgements were told.
#[test]
fn a_split_end_that_is_older_is_named() {
    let address = server(|mut aggregate| {
        let (mut hello, mut before) = (Vec::new(), Vec::new());
        Message::Hello { version: VERSION }.write(&mut hello);
        Message::Alive { patience: PATIENCE }.write(&mut before);
        let mut heard = vec![0; hello.len() + before.len()];
        let _ = aggregate.write_all(&hello);
        // It knows no message of the next kind, and so ends.
        let _ = aggregate.read_exact(&mut heard).and_then(|()| aggregate.read_exact(&mut [0; 5]));
    });
    let join = joining(address, here(), LinkedAck::Told);
    until("it is said", || {
        join.status().reasons.iter().any(|why| why.contains("one that is older cannot"))
    });
}

#[test]
fn an_end_that_acknowledges_more_than_was_sent_breaks_the_protocol() {
    let address = server(|mut aggregate| {
        let mut says = Vec::new();
        Message::Hello { version: VERSION }.write(&mut says);
        Message::TellAcknowledged.write(&mut says);
        Message::Acknowledged { uid: 1, until: 2 }.write(&mut says);
        let mut heard = vec![0; 64];
        // Once a flow has come, of which nothing was sent.
        while !heard.windows(3).any(|part| part == [2, 0, 1]) {
            if aggregate.read(&mut heard).is_err() {
                return;
            }
        }
        let _ = aggregate.write_all(&says);
        let _ = aggregate.read_to_end(&mut heard);
    });
    let join = joining(address, here(), LinkedAck::Told);
    until("the aggregate is there", || join.status().is_connected);
    let _client = connected(join.address());
    until("it is said", || {
        join.status().reasons.iter().any(|why| why.contains("2 bytes of a flow are acknowledged"))
    });
}

#[test]
fn a_reset_passes_through() {
    let split = split();
    let join = join(
        split.address(),
        server(|client| {
            SockRef::from(&client).set_linger(Some(Duration::ZERO)).expect("a reset at the end");
        }),
    );
    let mut client = connected(join.address());
    let error = client.read(&mut [0; 1]).expect_err("a reset");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    until("nothing is left", || {
        join.status().flows.is_empty() && split.status().1[0].1.flows.is_empty()
    });
}

#[test]
fn a_client_that_resets_in_mid_stream_is_gone_at_the_server() {
    let (told, hears) = std::sync::mpsc::channel();
    let split = split();
    let join = join(
        split.address(),
        server(move |mut client| {
            let mut buffer = vec![0; 64 << 10];
            let end = loop {
                match client.read(&mut buffer) {
                    Ok(0) => break Ok(()),
                    Ok(_) => {}
                    Err(error) => break Err(error.kind()),
                }
            };
            told.send(end).expect("the test waits");
        }),
    );
    let mut client = connected(join.address());
    client.write_all(&data(1, 500_000)).expect("the relay takes it");
    SockRef::from(&client).set_linger(Some(Duration::ZERO)).expect("a reset");
    drop(client);
    let end = hears.recv_timeout(PATIENCE).expect("the server is told");
    assert_eq!(end, Err(io::ErrorKind::ConnectionReset), "what failed is no end in order");
}

#[test]
fn when_the_split_end_dies_clients_are_reset_and_the_next_one_serves() {
    let split = split();
    let (address, servers) = (split.address(), server(echo));
    let join = join(address, servers);
    let mut client = connected(join.address());
    client.write_all(b"first").expect("the relay takes it");
    let mut got = [0; 5];
    client.read_exact(&mut got).expect("an echo");
    drop(split);
    let error = client.read(&mut got).expect_err("a reset");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    until("it is known", || !join.status().is_connected);
    // While there is none, nobody waits in vain.
    assert!(matches!(connected(join.address()).read(&mut got), Err(_) | Ok(0)));
    let _next = Split::start(SplitSettings {
        listen: address,
        from: vec![network("127.0.0.1")],
        servers: vec![Allowed { network: network("127.0.0.1"), port: Some(servers.port()) }],
        as_client: false,
        congestion: None,
        announced: None,
        gone_after: GONE_AFTER,
        heard_within: HEARD_WITHIN,
    })
    .expect("the port is free again");
    until("there is an aggregate again", || join.status().is_connected);
    let sent = data(3, 100_000);
    assert!(exchange(join.address(), &sent) == sent);
}

/// A join end that says what it is told to; what it hears, and that it ends.
fn hostile(split: &Split, says: &[u8]) {
    let mut peer = connected(split.address());
    peer.write_all(says).expect("it listens");
    let mut heard = Vec::new();
    let _ = peer.read_to_end(&mut heard);
}

#[test]
fn an_end_that_breaks_the_protocol_loses_its_aggregate_and_no_other() {
    let split = split();
    let address = server(|client| {
        let _keep = client;
        thread::park_timeout(PATIENCE);
    });
    let join = join(split.address(), server(echo));
    let mut open = Vec::new();
    Message::Open { uid: 1, client: address, server: address }.write(&mut open);
    let twice = [open.clone(), open.clone()].concat();
    // More than the window that every flow begins with, and never a word of room.
    let mut beyond = open.clone();
    for _ in 0..2 {
        beyond.extend_from_slice(&header(1, 60_000));
        beyond.extend_from_slice(&[0; 60_000]);
    }
    let mut told = Vec::new();
    Message::Closed { uid: 1 }.write(&mut told);
    let mut hello = Vec::new();
    Message::Hello { version: VERSION }.write(&mut hello);
    for says in [&[0, 1, 0, 1][..], &twice, &beyond, &told, &[0, 0, 0, 5, 99]] {
        hostile(&split, &[&hello, says].concat());
    }
    hostile(&split, &open);
    hostile(&split, b"\0\0\0\x08GET / HTTP/1.1\r\n");
    let sent = data(5, 200_000);
    assert!(exchange(join.address(), &sent) == sent);
}

/// Whoever connects at once is accepted with the control that the listener has then.
#[test]
fn a_split_end_begins_with_its_congestion_control_before_it_listens() {
    Split::start(splitting(Some("reno"))).expect("every kernel has this one");
    let taken = TcpListener::bind(here()).expect("a port");
    let listen = taken.local_addr().expect("an address");
    let of = |congestion| Split::start(SplitSettings { listen, ..splitting(congestion) }).err();
    assert!(of(Some("reno")).expect("the port is taken").to_string().starts_with("listening"));
    let error = of(Some("nothing")).expect("no kernel has this one").to_string();
    assert!(error.starts_with("setting the congestion control"), "{error}");
}

#[test]
fn a_congestion_control_that_is_not_there_is_said_at_the_begin() {
    let anybody = server(echo);
    let settings = settings_of(anybody, anybody, LinkedAck::Off);
    let join = Join::start(JoinSettings { congestion: Some("nothing".into()), ..settings });
    let proxy = Proxy::start(proxying(anybody, Some("nothing")));
    for error in [join.err(), proxy.err()].map(|error| error.expect("no kernel has it")) {
        assert!(error.to_string().starts_with("setting the congestion control"), "{error}");
    }
}

/// Its kernel acknowledges all that comes, and answers when it is asked whether it is there.
#[test]
fn an_end_that_says_nothing_any_more_is_given_up_and_why_is_told() {
    let heard_within = Duration::from_secs(1);
    let split =
        Split::start(SplitSettings { heard_within, ..splitting(None) }).expect("a split end");
    let mut hello = Vec::new();
    Message::Hello { version: VERSION }.write(&mut hello);
    let mut mute = connected(split.address());
    mute.write_all(&hello).expect("it is taken");
    let listener = TcpListener::bind(here()).expect("a port");
    let there = listener.local_addr().expect("an address");
    let settings = settings_of(there, there, LinkedAck::Off);
    let join = Join::start(JoinSettings { heard_within, ..settings }).expect("a join end");
    let (mut silent, _) = listener.accept().expect("the join end comes");
    silent.write_all(&hello).expect("it is taken");
    until("there is an aggregate", || join.status().is_connected);
    let mut client = connected(join.address());
    let error = client.read(&mut [0; 1]).expect_err("a reset");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    let why = "has said nothing for 1 s";
    until("the join end says why", || join.status().reasons.iter().any(|said| said.contains(why)));
    until("the split end does", || {
        split.status().1.iter().any(|(_, one)| one.reasons.iter().any(|said| said.contains(why)))
    });
    // It was asked for signs, and has got some.
    let mut heard = Vec::new();
    let _ = mute.read_to_end(&mut heard);
    let mut alive = Vec::new();
    Message::Alive { patience: heard_within }.write(&mut alive);
    let signs = heard.windows(alive.len()).filter(|part| *part == alive).count();
    assert!(signs > 1, "{signs} signs");
    let _next = connected(split.address());
    until("it is still told when the next one is there", || {
        split.status().0.reasons.iter().any(|said| said.contains(why))
    });
}

/// Connects from one of this host's addresses.
fn connected_from(address: [u8; 4], to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((address, 0)).into()).expect("it is ours");
    socket.connect(&to.into())?; // It may be reset before it is known to be there.
    let client = TcpStream::from(socket);
    client.set_read_timeout(Some(PATIENCE))?;
    Ok(client)
}

/// Whether it is served: what it says comes back.
fn is_served(client: &mut TcpStream) -> bool {
    let mut got = [0; 4];
    client.write_all(b"here").is_ok() && client.read_exact(&mut got).is_ok() && &got == b"here"
}

#[test]
fn who_has_as_many_connections_as_one_may_is_refused_more_and_others_are_not() {
    let split = split();
    let settings = settings_of(split.address(), server(echo), LinkedAck::Off);
    let join = Join::start(JoinSettings { each_at_most: 3, ..settings }).expect("a join end");
    until("the aggregate is there", || join.status().is_connected);
    let (greedy, other, relay) = ([127, 0, 0, 2], [127, 0, 0, 3], join.address());
    let may =
        |address| connected_from(address, relay).is_ok_and(|mut client| is_served(&mut client));
    let its = (0..3).map(|_| connected_from(greedy, relay)).collect::<io::Result<Vec<_>>>();
    let mut its = its.expect("they may come");
    assert!(its.iter_mut().all(is_served));
    for _ in 0..5 {
        assert!(!may(greedy));
        // Its own before may not have ended yet.
        until("others are served", || may(other));
    }
    assert!(join.status().reasons.iter().any(|why| {
        why.starts_with("127.0.0.2:") && why.ends_with("its address has 3 connections already")
    }));
    assert!(its.iter_mut().all(is_served), "who was there stays");
    its.pop();
    until("one that has ended makes room", || may(greedy));
}

#[test]
fn an_end_of_another_version_is_told_which() {
    let split = split();
    let mut hello = Vec::new();
    Message::Hello { version: VERSION - 1 }.write(&mut hello);
    hostile(&split, &hello);
    let why = format!("version {} of it, and this one {VERSION}", VERSION - 1);
    until("it is said", || {
        split.status().1.iter().any(|(_, one)| one.reasons.iter().any(|said| said.contains(&why)))
    });
}

#[test]
fn an_end_that_never_greets_keeps_no_place_and_no_clients() {
    let split = split();
    let mut mute = connected(split.address());
    let nobody = TcpListener::bind(here()).expect("a port");
    let there = nobody.local_addr().expect("an address");
    let join = join(there, there);
    let mut client = connected(join.address());
    let error = client.read(&mut [0; 1]).expect_err("a reset");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    let mut told = Vec::new();
    let _ = mute.read_to_end(&mut told);
    let why = "it does not greet";
    until("the split end says why", || {
        split.status().1.iter().any(|(_, one)| one.reasons.iter().any(|said| said.contains(why)))
    });
    until("the join end does", || join.status().reasons.iter().any(|said| said.contains(why)));
}

#[test]
fn a_proxy_alone_passes_everything_both_ways() {
    let proxy = Proxy::start(proxying(server(echo), None)).expect("a proxy");
    thread::scope(|scope| {
        for flow in 0..40 {
            let relay = proxy.address();
            scope.spawn(move || {
                let sent = data(flow, 50_000 * flow);
                assert!(exchange(relay, &sent) == sent, "flow {flow} is not as it was");
            });
        }
    });
    until("all have ended", || proxy.status().ended == 40 && proxy.status().flows.is_empty());
    assert_eq!(proxy.status().broken, 0);
}

#[test]
fn a_proxy_resets_where_the_server_refuses_or_resets() {
    let (_kept, unused) = refusing();
    let resets = server(|client| {
        SockRef::from(&client).set_linger(Some(Duration::ZERO)).expect("a reset at the end");
    });
    for to in [unused, resets] {
        let proxy = Proxy::start(proxying(to, None)).expect("a proxy");
        let error = connected(proxy.address()).read(&mut [0; 1]).expect_err("a reset");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        until("it is said", || proxy.status().broken == 1);
    }
}
