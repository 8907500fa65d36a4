//! One of the applications, chosen by its configuration.

use weir_units::Time;

use crate::bulk::Bulk;
use crate::calls::Calls;
use crate::game::Game;
use crate::messages::Messages;
use crate::outcome::ApplicationOutcome;
use crate::pages::Pages;
use crate::panorama::Panorama;
use crate::sockets::Sockets;
use crate::video::Video;
use crate::web::Web;
use crate::writes::Writes;

/// What uses the connections of a traffic.
#[derive(Debug)]
pub enum Application {
    /// Greedy transfers.
    Bulk(Bulk),
    /// Requests, a connection for each.
    Web(Web),
    /// Pages of many objects.
    Pages(Box<Pages>),
    /// Messages of one size.
    Messages(Messages),
    /// Many thin connections.
    Game(Game),
    /// What a list says.
    Writes(Writes),
    /// Adaptive video.
    Video(Box<Video>),
    /// Panoramic interactive video.
    Panorama(Box<Panorama>),
    /// Remote procedure calls.
    Calls(Box<Calls>),
}

impl Application {
    /// The traffic starts.
    pub fn start(&mut self, sockets: &mut impl Sockets) {
        match self {
            Self::Bulk(bulk) => bulk.start(sockets),
            Self::Web(web) => web.start(sockets),
            Self::Pages(pages) => pages.start(sockets),
            Self::Messages(messages) => messages.start(sockets),
            Self::Game(game) => game.start(sockets),
            Self::Writes(writes) => writes.start(sockets),
            Self::Video(video) => video.start(sockets),
            Self::Panorama(panorama) => panorama.start(sockets),
            Self::Calls(calls) => calls.start(sockets),
        }
    }

    /// Its timer ran out.
    pub fn on_timer(&mut self, sockets: &mut impl Sockets) {
        match self {
            Self::Bulk(_) => {}
            Self::Web(web) => web.on_timer(sockets),
            Self::Pages(pages) => pages.on_timer(sockets),
            Self::Messages(messages) => messages.on_timer(sockets),
            Self::Game(game) => game.on_timer(sockets),
            Self::Writes(writes) => writes.on_timer(sockets),
            Self::Video(video) => video.on_timer(sockets),
            Self::Panorama(panorama) => panorama.on_timer(sockets),
            Self::Calls(calls) => calls.on_timer(sockets),
        }
    }

    /// Something has reached `endpoint`, or its timer has run out.
    pub fn on_progress(&mut self, endpoint: u32, sockets: &mut impl Sockets) {
        match self {
            Self::Bulk(bulk) => bulk.on_progress(endpoint, sockets),
            Self::Web(web) => web.on_progress(endpoint, sockets),
            Self::Pages(pages) => pages.on_progress(endpoint, sockets),
            Self::Messages(messages) => messages.on_progress(endpoint, sockets),
            Self::Game(game) => game.on_progress(endpoint, sockets),
            Self::Writes(writes) => writes.on_progress(endpoint, sockets),
            Self::Video(video) => video.on_progress(endpoint, sockets),
            Self::Panorama(panorama) => panorama.on_progress(endpoint, sockets),
            Self::Calls(calls) => calls.on_progress(endpoint, sockets),
        }
    }

    /// The traffic stops: nothing new is begun.
    pub fn stop(&mut self, sockets: &mut impl Sockets) {
        match self {
            Self::Bulk(bulk) => bulk.stop(sockets),
            Self::Web(web) => web.stop(),
            Self::Pages(pages) => pages.stop(),
            Self::Messages(messages) => messages.stop(),
            Self::Game(game) => game.stop(),
            Self::Writes(writes) => writes.stop(),
            Self::Video(video) => video.stop(),
            Self::Panorama(panorama) => panorama.stop(),
            Self::Calls(calls) => calls.stop(),
        }
    }

    /// When [`on_timer`](Self::on_timer) is wanted; `None` for never.
    pub fn next_timer(&self) -> Option<Time> {
        match self {
            Self::Bulk(_) => None,
            Self::Web(web) => web.next_timer(),
            Self::Pages(pages) => pages.next_timer(),
            Self::Messages(messages) => messages.next_timer(),
            Self::Game(game) => game.next_timer(),
            Self::Writes(writes) => writes.next_timer(),
            Self::Video(video) => video.next_timer(),
            Self::Panorama(panorama) => panorama.next_timer(),
            Self::Calls(calls) => calls.next_timer(),
        }
    }

    /// What it measured of its own.
    pub fn outcome(&self) -> Option<ApplicationOutcome> {
        match self {
            Self::Bulk(_) | Self::Writes(_) => None,
            Self::Web(web) => Some(web.outcome()),
            Self::Pages(pages) => Some(pages.outcome()),
            Self::Messages(messages) => Some(messages.outcome()),
            Self::Game(game) => Some(game.outcome()),
            Self::Video(video) => Some(ApplicationOutcome::Video(video.outcome())),
            Self::Panorama(panorama) => Some(panorama.outcome()),
            Self::Calls(calls) => Some(calls.outcome()),
        }
    }
}
