//! From an accepted connection to its session: who it is, what it is for, and where it belongs.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;

use super::Shared;
use super::guests::{GREETING_TIMEOUT, Place};
use super::log::Entry;
use super::peer::Peer;
use super::session::Session;
use crate::connection::Connection;
use crate::control;
use crate::error::TransferError;
use crate::keys;
use crate::random;
use crate::socket;
use crate::streams::STREAMS_MAX;
use crate::tls::TlsSession;
use crate::wire::{self, FailureCode, Message, PREFIX_SIZE, Role, message_length};

/// The longest first message: a `Hello` is 40 bytes.
const HELLO_LIMIT: usize = 128;

impl Shared {
    pub(super) fn receive_guest(self: &Arc<Self>, stream: TcpStream, address: SocketAddr) {
        let shared = Arc::clone(self);
        let stream = Arc::new(stream);
        let place = self.guests.admit(Arc::clone(&stream), address);
        let spawned = thread::Builder::new().name("weir-guest".to_owned()).spawn(move || {
            let mut peer = Peer { address: address.to_string(), client: None };
            if let Err(error) = shared.serve_guest(stream, &mut peer, &place) {
                shared.tell_of_refusal(&peer, &place, &error);
            }
        });
        if let Err(error) = spawned {
            let why = format!("no thread can be had for it: {error}");
            self.log.tell(Entry::refused(&address.to_string(), None, &why));
        }
    }

    fn tell_of_refusal(&self, peer: &Peer, place: &Place, error: &TransferError) {
        let client = peer.client.as_deref();
        let entry = match place.put_out() {
            _ if self.stopping.load(Relaxed) => return,
            Some(why) => Entry::refused(&peer.address, client, &format!("put out: {why}")),
            None => Entry::refused(&peer.address, client, error),
        };
        self.log.tell(entry);
    }

    /// Finds out who it is and what it is for. The guests' deadline bounds all of it.
    fn serve_guest(
        &self,
        stream: Arc<TcpStream>,
        peer: &mut Peer,
        place: &Place,
    ) -> Result<(), TransferError> {
        let broken = |error| control::broken(&peer.address, error);
        socket::prepare(&stream).map_err(broken)?;
        control::set_patience(&stream, Some(GREETING_TIMEOUT)).map_err(broken)?;
        let mut connection = match &self.settings.tls {
            None => Connection::plain(stream),
            Some(config) => {
                let greeted = || place.greet();
                let session = TlsSession::accept(&stream, Arc::clone(config), greeted);
                let session = session.map_err(broken)?;
                let holder = session.holder();
                let mut connection = Connection::secured(stream, session);
                if let Some(holder) = holder {
                    let admitted = keys::check_revoked(self.settings.revoked.as_deref(), &holder)
                        .and_then(|()| place.identify(&holder.name));
                    peer.client = Some(holder.name);
                    admitted.map_err(|error| turn_away(&mut connection, error))?;
                }
                connection
            }
        };
        let (role, token) = read_hello(&mut connection, &peer.address)?;
        if peer.client.is_none() {
            let admitted = place.identify(host(&peer.address));
            admitted.map_err(|error| turn_away(&mut connection, error))?;
        }
        match role {
            Role::Control => self.serve_session(connection, peer, place, wire::version_of(token)),
            Role::Data => self.join_session(connection, token),
        }
    }

    /// Hands a data connection to its session, whose control connection answers for it.
    fn join_session(
        &self,
        mut connection: Connection,
        token: [u8; 16],
    ) -> Result<(), TransferError> {
        let peer = connection.peer();
        let broken = |error| control::broken(&peer, error);
        let session = self.sessions().get(&token).cloned();
        let Some(session) = session else {
            return Err(TransferError::Unexpected { peer, what: "a token of no session" });
        };
        socket::prepare_data(&connection.socket).map_err(broken)?;
        connection.sender.send(&[1]).map_err(broken)?;
        // A session that ended, or has too many already, drops the connection, which closes it.
        let _ = session.try_send(connection);
        Ok(())
    }

    fn serve_session(
        &self,
        connection: Connection,
        peer: &Peer,
        place: &Place,
        version: u16,
    ) -> Result<(), TransferError> {
        let (reader, control) = control::split(connection);
        control.set_version(version);
        let mut token = [0; 16];
        random::fill(&mut token).map_err(|error| control::broken(control.peer(), error))?;
        let (sender, joined) = mpsc::sync_channel(STREAMS_MAX.into());
        self.sessions().insert(token, sender);
        let session = Session { shared: self, peer, place, control, joined, data: Vec::new() };
        let result = session.run(reader, token);
        self.sessions().remove(&token);
        result
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<[u8; 16], SyncSender<Connection>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the first message with the least possible trust: its length is bounded before any of it
/// is kept.
fn read_hello(connection: &mut Connection, peer: &str) -> Result<(Role, [u8; 16]), TransferError> {
    let wire = |source| TransferError::Wire { peer: peer.to_owned(), source };
    let broken = |error| control::broken(peer, error);
    let mut prefix = [0; PREFIX_SIZE];
    connection.receiver.receive(&mut prefix).map_err(broken)?;
    let length = message_length(prefix, HELLO_LIMIT).map_err(wire)?;
    let mut body = vec![0; length];
    connection.receiver.receive(&mut body).map_err(broken)?;
    match Message::decode(&body) {
        Ok(Message::Hello { role, token }) => Ok((role, token)),
        Ok(_) => Err(TransferError::Unexpected { peer: peer.to_owned(), what: "no hello" }),
        Err(source) => {
            // A peer of another version learns why.
            let (code, message) = (FailureCode::Protocol, source.to_string());
            let _ = connection.sender.send(&Message::Failure { code, message }.encode());
            Err(wire(source))
        }
    }
}

/// Tells a peer that is known, but not wanted now, why.
fn turn_away(connection: &mut Connection, error: TransferError) -> TransferError {
    let (code, message) = (error.code(), error.to_string());
    // Where the peer is gone it cannot be told.
    let _ = connection.sender.send(&Message::Failure { code, message }.encode());
    error
}

/// The address without its port.
fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}
