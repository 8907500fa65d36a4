//! Every look at queues and connections, as Parquet: what pandas, polars and DuckDB read.

use std::io::Write;

use weir_table::{Column, Table};

use crate::PacketError;

const QUEUES: &str = "queues.parquet";
const CONNECTIONS: &str = "connections.parquet";

/// What one look found in one direction of a link.
pub(crate) struct QueueLook<'a> {
    pub(crate) time_ns: u64,
    pub(crate) link: &'a str,
    pub(crate) way: &'a str,
    pub(crate) queue_packets: u64,
    pub(crate) queue_bytes: u64,
}

/// What one look found of one bulk connection.
pub(crate) struct ConnectionLook<'a> {
    pub(crate) time_ns: u64,
    pub(crate) traffic: &'a str,
    pub(crate) stream: u64,
    pub(crate) window_bytes: u64,
    pub(crate) in_flight_bytes: u64,
    pub(crate) srtt_ns: u64,
    pub(crate) delivered_bytes: u64,
}

/// The two files.
pub(crate) struct Files {
    queues: Table,
    connections: Table,
    place: String,
}

impl Files {
    /// Tables for queues and connections; messages call their place `place`.
    pub(crate) fn new(
        queues: Box<dyn Write + Send>,
        connections: Box<dyn Write + Send>,
        place: &str,
    ) -> Result<Self, PacketError> {
        let queue = [
            Column::counts("time_ns"),
            Column::texts("link"),
            Column::texts("way"),
            Column::counts("queue_packets"),
            Column::counts("queue_bytes"),
        ];
        let connection = [
            Column::counts("time_ns"),
            Column::texts("traffic"),
            Column::counts("stream"),
            Column::counts("window_bytes"),
            Column::counts("in_flight_bytes"),
            Column::counts("srtt_ns"),
            Column::counts("delivered_bytes"),
        ];
        Ok(Self {
            queues: Table::new(queues, "look", queue.into())
                .map_err(|source| write_error(place, QUEUES, source))?,
            connections: Table::new(connections, "look", connection.into())
                .map_err(|source| write_error(place, CONNECTIONS, source))?,
            place: place.to_owned(),
        })
    }

    pub(crate) fn queue(&mut self, look: &QueueLook<'_>) {
        let QueueLook { time_ns, link, way, queue_packets, queue_bytes } = *look;
        row(&mut self.queues, |columns| {
            let [time, name, direction, packets, bytes] = columns else { return };
            time.push_count(time_ns as i64);
            name.push_text(link);
            direction.push_text(way);
            packets.push_count(queue_packets as i64);
            bytes.push_count(queue_bytes as i64);
        });
    }

    pub(crate) fn connection(&mut self, look: &ConnectionLook<'_>) {
        let counts = [
            look.stream,
            look.window_bytes,
            look.in_flight_bytes,
            look.srtt_ns,
            look.delivered_bytes,
        ];
        row(&mut self.connections, |columns| {
            let [time, traffic, rest @ ..] = columns else { return };
            time.push_count(look.time_ns as i64);
            traffic.push_text(look.traffic);
            for (column, count) in rest.iter_mut().zip(counts) {
                column.push_count(count as i64);
            }
        });
    }

    /// Writes what is left; the first error of all.
    pub(crate) fn finish(self) -> Result<(), PacketError> {
        let Self { queues, connections, place } = self;
        queues.finish().map_err(|source| write_error(&place, QUEUES, source))?;
        connections.finish().map_err(|source| write_error(&place, CONNECTIONS, source))
    }
}

fn row(table: &mut Table, fill: impl FnOnce(&mut [Column])) {
    fill(table.columns());
    table.end_row();
}

fn write_error(place: &str, file: &str, source: std::io::Error) -> PacketError {
    PacketError::Write { place: format!("{place}/{file}"), source }
}
