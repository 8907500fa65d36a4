//! The JSON form of a problem and of a plan, which the Python package and tests speak.

use serde::{Deserialize, Serialize};
use weir_topology::Network;
use weir_units::{Bytes, Time};

use super::{Migration, MigrationError, Piece, Plan, Problem, VmRequest};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    step_ns: u64,
    #[serde(default)]
    half_duplex: Vec<(String, String)>,
    vms: Vec<VmEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VmEntry {
    name: String,
    source: String,
    destination: String,
    size_bytes: u64,
    cost: Vec<u64>,
    growth_bytes: Vec<u64>,
    #[serde(default)]
    path: Vec<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct MigrationEntry {
    path: Vec<String>,
    finish: u64,
    /// First step, last step, bytes a step.
    pieces: Vec<(u64, u64, u64)>,
}

impl Problem {
    /// Reads `{"step_ns", "half_duplex": [[LINK, LINK], …], "vms": [VM, …]}` over
    /// a network in the JSON form of `weir-topology`, a VM being `{"name", "source",
    /// "destination", "size_bytes", "cost": [n, …], "growth_bytes": [n, …], "path": [LINK, …]}`.
    /// Half-duplex pairs and paths may be left out.
    ///
    /// # Errors
    /// [`MigrationError::Json`] with the place, or what [`Problem::new`] refuses.
    pub fn from_json(network: &str, problem: &str) -> Result<Self, MigrationError> {
        let network = Network::from_json(network)?;
        let document: Document = read(problem)?;
        let request = |entry: VmEntry| VmRequest {
            name: entry.name,
            source: entry.source,
            destination: entry.destination,
            size: Bytes::new(entry.size_bytes),
            cost: entry.cost,
            growth: entry.growth_bytes,
            path: entry.path,
        };
        let requests = document.vms.into_iter().map(request).collect();
        let step = Time::from_ns(document.step_ns);
        Self::new(network, &document.half_duplex, step, requests)
    }
}

impl Plan {
    /// `[{"path": [LINK, …], "finish": step, "pieces": [[first step, last step, bytes], …]}, …]`
    /// in the problem's order.
    pub fn to_json(&self, problem: &Problem) -> String {
        let entry = |(migration, vm): (&Migration, &super::Vm)| {
            let links = vm.routes[migration.route].path.links().iter();
            let piece = |piece: &Piece| (piece.first, piece.last, piece.bytes);
            MigrationEntry {
                path: links.map(|link| problem.network().link(*link).name.clone()).collect(),
                finish: migration.finish,
                pieces: migration.pieces.iter().map(piece).collect(),
            }
        };
        let entries: Vec<_> = self.migrations.iter().zip(problem.vms()).map(entry).collect();
        serde_json::to_string(&entries).expect("texts and integers always have a JSON form")
    }

    /// Reads what [`Plan::to_json`] writes. Whether it holds is for [`Plan::check`] to say.
    ///
    /// # Errors
    /// [`MigrationError::Json`] with the place, also where a path is not one of the machine's
    /// routes.
    pub fn from_json(problem: &Problem, text: &str) -> Result<Self, MigrationError> {
        let entries: Vec<MigrationEntry> = read(text)?;
        if entries.len() != problem.vms().len() {
            let reason = format!("{} migrations for {} VMs", entries.len(), problem.vms().len());
            return Err(MigrationError::Json { place: "the plan".to_owned(), reason });
        }
        let migration = |(index, entry): (usize, MigrationEntry)| {
            let named = |route: &super::Route| {
                let links = route.path.links().iter();
                links.map(|link| &problem.network().link(*link).name).eq(entry.path.iter())
            };
            let vm = &problem.vms()[index];
            let route = vm.routes.iter().position(named).ok_or_else(|| MigrationError::Json {
                place: format!("[{index}].path"),
                reason: format!("not a route of VM \"{}\"", vm.name),
            })?;
            let piece = |(first, last, bytes)| Piece { first, last, bytes };
            let pieces = entry.pieces.into_iter().map(piece).collect();
            Ok(Migration { route, pieces, finish: entry.finish })
        };
        let migrations: Result<Vec<_>, MigrationError> =
            entries.into_iter().enumerate().map(migration).collect();
        Ok(Self { migrations: migrations? })
    }
}

fn read<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, MigrationError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let (place, reason) = (error.path().to_string(), error.inner().to_string());
        MigrationError::Json { place, reason }
    })?;
    reader.end().map_err(|error| MigrationError::Json {
        place: "after the end".to_owned(),
        reason: error.to_string(),
    })?;
    Ok(value)
}
