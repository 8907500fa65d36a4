//! `Relay`: one end of an aggregate, or a proxy alone; its thread holds no GIL.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_relay::{
    Allowed, Announced, Announcement, EACH_AT_MOST, FLOWS_MAX, Filter, GONE_AFTER, HEARD_WITHIN,
    Join, JoinSettings, LinkedAck, Network, Offered, Proxy, ProxySettings, Split, SplitSettings,
    Stage, Status, Weights,
};

use crate::errors::{BadInput, bad_input, words};

enum Kind {
    Join(Join),
    Split(Split),
    Proxy(Proxy),
}

/// A relay that runs; see `weir/_core.pyi`.
#[pyclass(frozen, module = "weir._core")]
struct Relay {
    kind: Mutex<Kind>,
    announced: Option<Announced>,
}

#[pymethods]
impl Relay {
    #[staticmethod]
    #[pyo3(signature = (
        listen, split, server, weights, congestion, told=false, held=None, announced=false,
        gone_after_s=None, heard_within_s=None, each_at_most=None, at_most=None,
        literal=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn join(
        listen: &str,
        split: &str,
        server: Option<&str>,
        weights: Vec<(String, u32)>,
        congestion: Option<String>,
        told: bool,
        held: Option<(i32, i32, u32, u32)>,
        announced: bool,
        gone_after_s: Option<u32>,
        heard_within_s: Option<u32>,
        each_at_most: Option<u16>,
        at_most: Option<u16>,
        literal: bool,
    ) -> PyResult<Self> {
        let announced = announced.then(Announced::default);
        let linked_ack = match held {
            Some((passing, kept, mark, releasing)) => {
                let filter = Filter { passing, kept, mark, releasing };
                if literal { LinkedAck::Literal(filter) } else { LinkedAck::Strict(filter) }
            }
            None if told => LinkedAck::Told,
            None => LinkedAck::Off,
        };
        let settings = JoinSettings {
            listen: address(listen)?,
            split: address(split)?,
            server: server.map(address).transpose()?,
            weights: weights_of(&weights)?,
            congestion,
            linked_ack,
            announced: announced.clone(),
            gone_after: seconds(gone_after_s, GONE_AFTER),
            each_at_most: each_at_most.map_or(EACH_AT_MOST, usize::from),
            at_most: at_most.map_or(FLOWS_MAX, usize::from),
            heard_within: seconds(heard_within_s, HEARD_WITHIN),
        };
        Ok(Self::of(Kind::Join(Join::start(settings).map_err(bad_input)?), announced))
    }

    #[staticmethod]
    #[pyo3(signature = (
        listen, origins, servers, as_client, congestion, announced=false, gone_after_s=None,
        heard_within_s=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn split(
        listen: &str,
        origins: Vec<String>,
        servers: Vec<(String, Option<u16>)>,
        as_client: bool,
        congestion: Option<String>,
        announced: bool,
        gone_after_s: Option<u32>,
        heard_within_s: Option<u32>,
    ) -> PyResult<Self> {
        let announced = announced.then(Announced::default);
        let allowed = |(text, port): &(String, Option<u16>)| -> PyResult<Allowed> {
            Ok(Allowed { network: network(text)?, port: *port })
        };
        let settings = SplitSettings {
            listen: address(listen)?,
            from: origins.iter().map(|text| network(text)).collect::<PyResult<_>>()?,
            servers: servers.iter().map(allowed).collect::<PyResult<_>>()?,
            as_client,
            congestion,
            announced: announced.clone(),
            gone_after: seconds(gone_after_s, GONE_AFTER),
            heard_within: seconds(heard_within_s, HEARD_WITHIN),
        };
        Ok(Self::of(Kind::Split(Split::start(settings).map_err(bad_input)?), announced))
    }

    #[staticmethod]
    #[pyo3(signature = (listen, server, as_client, congestion, gone_after_s=None))]
    fn proxy(
        listen: &str,
        server: Option<&str>,
        as_client: bool,
        congestion: Option<String>,
        gone_after_s: Option<u32>,
    ) -> PyResult<Self> {
        let settings = ProxySettings {
            listen: address(listen)?,
            server: server.map(address).transpose()?,
            as_client,
            congestion,
            gone_after: seconds(gone_after_s, GONE_AFTER),
        };
        Ok(Self::of(Kind::Proxy(Proxy::start(settings).map_err(bad_input)?), None))
    }

    fn address(&self) -> (String, u16) {
        let address = match &*self.lock() {
            Kind::Join(join) => join.address(),
            Kind::Split(split) => split.address(),
            Kind::Proxy(proxy) => proxy.address(),
        };
        (address.ip().to_string(), address.port())
    }

    /// One status for each aggregate, with where it is from; the relay's own first.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Option<String>, Bound<'py, PyDict>)>> {
        let all = py.detach(|| match &*self.lock() {
            Kind::Join(join) => vec![(None, join.status())],
            Kind::Proxy(proxy) => vec![(None, proxy.status())],
            Kind::Split(split) => {
                let (own, aggregates) = split.status();
                let of = aggregates.into_iter().map(|(from, one)| (Some(from.to_string()), one));
                std::iter::once((None, own)).chain(of).collect()
            }
        });
        all.into_iter().map(|(from, one)| Ok((from, told(py, one)?))).collect()
    }

    fn set_weights(&self, weights: Vec<(String, u32)>) -> PyResult<bool> {
        let weights = weights_of(&weights)?;
        let Kind::Join(join) = &*self.lock() else { return Ok(false) };
        join.set_weights(weights);
        Ok(true)
    }

    /// Announces clients: with their UID, their server, from where it is connected to, and what
    /// they have offered.
    fn announce(&self, clients: Vec<Announcing>) -> PyResult<bool> {
        let Some(announced) = &self.announced else { return Ok(false) };
        let one = |(client, uid, server, source, offered): Announcing| {
            let (mss, window_scale, has_sack, has_timestamps) = offered;
            let offered = Offered { mss, window_scale, has_sack, has_timestamps };
            let source = source.as_deref().map(address).transpose()?;
            let server = address(&server)?;
            Ok((address(&client)?, Announcement { uid, server, source, offered }))
        };
        let all = clients.into_iter().map(one).collect::<PyResult<Vec<_>>>()?;
        for (client, what) in all {
            announced.announce(client, what);
        }
        Ok(true)
    }

    /// Takes announcements back.
    fn forget(&self, clients: Vec<String>) -> PyResult<bool> {
        let Some(announced) = &self.announced else { return Ok(false) };
        for client in clients.iter().map(|text| address(text)).collect::<PyResult<Vec<_>>>()? {
            announced.forget(client);
        }
        Ok(true)
    }

    /// Who was announced, with `is_all`, or of these only who is not here: the client, its UID, its
    /// server, from where that is connected to, and "awaited", "here" or "over"; None where nobody
    /// has to be.
    fn announced(&self, is_all: bool) -> Option<Vec<Known>> {
        let one = |(client, what, stage): (SocketAddr, Announcement, Stage)| {
            let stage = match stage {
                Stage::Awaited => "awaited",
                Stage::Here => "here",
                Stage::Over => "over",
            };
            let source = what.source.map(|source| source.to_string());
            (client.to_string(), what.uid, what.server.to_string(), source, stage)
        };
        Some(self.announced.as_ref()?.all(is_all).into_iter().map(one).collect())
    }

    fn is_over(&self) -> bool {
        match &*self.lock() {
            Kind::Join(join) => join.is_over(),
            Kind::Split(split) => split.is_over(),
            Kind::Proxy(proxy) => proxy.is_over(),
        }
    }

    /// Why it had ended by itself, if it had.
    fn stop(&self, py: Python<'_>) -> Option<String> {
        let done = py.detach(|| match &mut *self.lock() {
            Kind::Join(join) => join.stop(),
            Kind::Split(split) => split.stop(),
            Kind::Proxy(proxy) => proxy.stop(),
        });
        done.err().map(words)
    }
}

/// A client as it is announced: see [`Announcement`].
type Announcing = (String, u16, String, Option<String>, (Option<u16>, Option<u8>, bool, bool));

/// A client that was announced: see [`Relay::announced`].
type Known = (String, u16, String, Option<String>, &'static str);

impl Relay {
    fn of(kind: Kind, announced: Option<Announced>) -> Self {
        Self { kind: Mutex::new(kind), announced }
    }

    fn lock(&self) -> MutexGuard<'_, Kind> {
        self.kind.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn told(py: Python<'_>, status: Status) -> PyResult<Bound<'_, PyDict>> {
    let flow = |flow: weir_relay::FlowStatus| -> PyResult<Bound<'_, PyDict>> {
        let told = PyDict::new(py);
        told.set_item("uid", flow.uid)?;
        told.set_item("client", flow.client.to_string())?;
        told.set_item("weight", flow.weight)?;
        told.set_item("bytes_sent", flow.bytes_sent)?;
        told.set_item("bytes_received", flow.bytes_received)?;
        told.set_item("bytes_waiting", flow.bytes_waiting)?;
        if let Some(bytes) = flow.bytes_acknowledged {
            told.set_item("bytes_acknowledged", bytes)?;
        }
        Ok(told)
    };
    let all = PyDict::new(py);
    all.set_item("is_connected", status.is_connected)?;
    all.set_item("ended", status.ended)?;
    all.set_item("broken", status.broken)?;
    all.set_item("reasons", status.reasons)?;
    all.set_item("bytes_sent", status.bytes_sent)?;
    all.set_item("bytes_received", status.bytes_received)?;
    let flows = status.flows.into_iter().map(flow).collect::<PyResult<Vec<_>>>()?;
    all.set_item("flows", flows)?;
    Ok(all)
}

fn address(text: &str) -> PyResult<SocketAddr> {
    text.parse().map_err(|_| BadInput::new_err(format!("{text:?}: wanted ADDRESS:PORT")))
}

fn seconds(told_s: Option<u32>, otherwise: Duration) -> Duration {
    told_s.map_or(otherwise, |seconds| Duration::from_secs(seconds.into()))
}

fn network(text: &str) -> PyResult<Network> {
    text.parse().map_err(BadInput::new_err)
}

fn weights_of(weights: &[(String, u32)]) -> PyResult<Weights> {
    let of = |(text, weight): &(String, u32)| Ok((network(text)?, *weight));
    Ok(Weights(weights.iter().map(of).collect::<PyResult<_>>()?))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Relay>()
}
