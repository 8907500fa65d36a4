//! Every look at queues and connections, as Parquet: what pandas, polars and DuckDB read.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::PacketError;

/// Rows that are written together: some megabytes of memory.
const GROUP: usize = 1 << 16;

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
}

impl Files {
    /// Tables for queues and connections; messages call their place `place`.
    pub(crate) fn new(
        queues: Box<dyn Write + Send>,
        connections: Box<dyn Write + Send>,
        place: &str,
    ) -> Result<Self, PacketError> {
        let queue = ["link", "way"].map(Column::text);
        let counts = ["queue_packets", "queue_bytes"].map(Column::count);
        let queue = [Column::count("time_ns")].into_iter().chain(queue).chain(counts);
        let states = ["window_bytes", "in_flight_bytes", "srtt_ns", "delivered_bytes"];
        let connection =
            [Column::count("time_ns"), Column::text("traffic"), Column::count("stream")];
        let connection = connection.into_iter().chain(states.map(Column::count));
        Ok(Self {
            queues: Table::new(queues, queue.collect(), format!("{place}/queues.parquet"))?,
            connections: Table::new(
                connections,
                connection.collect(),
                format!("{place}/connections.parquet"),
            )?,
        })
    }

    pub(crate) fn queue(&mut self, look: &QueueLook<'_>) {
        let QueueLook { time_ns, link, way, queue_packets, queue_bytes } = *look;
        self.queues.row(&[link, way], &[time_ns, queue_packets, queue_bytes]);
    }

    pub(crate) fn connection(&mut self, look: &ConnectionLook<'_>) {
        let counts = [
            look.time_ns,
            look.stream,
            look.window_bytes,
            look.in_flight_bytes,
            look.srtt_ns,
            look.delivered_bytes,
        ];
        self.connections.row(&[look.traffic], &counts);
    }

    /// Writes what is left; the first error of all.
    pub(crate) fn finish(self) -> Result<(), PacketError> {
        self.queues.finish()?;
        self.connections.finish()
    }
}

/// Values of the rows that are not yet written.
struct Column {
    name: &'static str,
    values: Values,
}

enum Values {
    Texts(Vec<ByteArray>),
    Counts(Vec<i64>),
}

impl Column {
    fn text(name: &'static str) -> Self {
        Self { name, values: Values::Texts(Vec::new()) }
    }

    fn count(name: &'static str) -> Self {
        Self { name, values: Values::Counts(Vec::new()) }
    }

    fn schema(&self) -> Result<Type, ParquetError> {
        let required = |physical| {
            Type::primitive_type_builder(self.name, physical).with_repetition(Repetition::REQUIRED)
        };
        match self.values {
            Values::Counts(_) => required(Physical::INT64).build(),
            Values::Texts(_) => required(Physical::BYTE_ARRAY)
                .with_logical_type(Some(LogicalType::String))
                .with_converted_type(ConvertedType::UTF8)
                .build(),
        }
    }
}

/// One file, written a group of rows at a time.
struct Table {
    file: SerializedFileWriter<Box<dyn Write + Send>>,
    columns: Vec<Column>,
    rows: usize,
    place: String,
    /// The first error; nothing is written after it.
    failed: Option<ParquetError>,
}

impl Table {
    fn new(
        out: Box<dyn Write + Send>,
        columns: Vec<Column>,
        place: String,
    ) -> Result<Self, PacketError> {
        let open = || {
            let fields: Result<Vec<_>, _> =
                columns.iter().map(|column| column.schema().map(Arc::new)).collect();
            let schema = Type::group_type_builder("look").with_fields(fields?).build()?;
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
            SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build()))
        };
        match open() {
            Ok(file) => Ok(Self { file, columns, rows: 0, place, failed: None }),
            Err(error) => Err(write_error(place, error)),
        }
    }

    /// A row: its texts and its counts, each in the order of their columns.
    fn row(&mut self, texts: &[&str], counts: &[u64]) {
        let (mut texts, mut counts) = (texts.iter(), counts.iter());
        for column in &mut self.columns {
            match &mut column.values {
                Values::Texts(values) => values.extend(texts.next().map(|text| (*text).into())),
                Values::Counts(values) => values.extend(counts.next().map(|&count| count as i64)),
            }
        }
        self.rows += 1;
        if self.rows == GROUP {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.write_group().err();
        }
        self.rows = 0;
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for column in &mut self.columns {
            let Some(mut writer) = group.next_column()? else { break };
            match &mut column.values {
                Values::Texts(values) => {
                    writer.typed::<ByteArrayType>().write_batch(values, None, None)?;
                    values.clear();
                }
                Values::Counts(values) => {
                    writer.typed::<Int64Type>().write_batch(values, None, None)?;
                    values.clear();
                }
            }
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }

    fn finish(mut self) -> Result<(), PacketError> {
        if self.rows > 0 {
            self.flush();
        }
        let error = match self.failed.take() {
            Some(error) => Some(error),
            None => self.file.close().err(),
        };
        error.map_or(Ok(()), |error| Err(write_error(self.place, error)))
    }
}

fn write_error(place: String, error: ParquetError) -> PacketError {
    let source = match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(source) => *source,
            Err(source) => std::io::Error::other(source),
        },
        error => std::io::Error::other(error),
    };
    PacketError::Write { place, source }
}
