//! Tables as Parquet files, written a group of rows at a time: what pandas, polars and DuckDB read.
//!
//! Make the [`Column`]s, give them to [`Table::new`], then for every row push one value into each
//! of [`Table::columns`] and call [`Table::end_row`]; [`Table::finish`] makes the file whole.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

/// Rows that are written together: some megabytes of memory.
const GROUP: usize = 1 << 16;

/// A column: its name, and its values of the rows that are not yet written.
///
/// What is pushed must be of the column's kind; a value of another is dropped, and the row
/// that lacks it makes [`Table::finish`] fail.
pub struct Column {
    name: String,
    values: Values,
    /// For an optional column: 1 for every value that is there, 0 for one that is not.
    present: Option<Vec<i16>>,
}

enum Values {
    Texts(Vec<ByteArray>),
    Counts(Vec<i64>),
    Reals(Vec<f64>),
}

impl Column {
    /// A column of UTF-8 texts.
    pub fn texts(name: impl Into<String>) -> Self {
        Self::new(name.into(), Values::Texts(Vec::new()))
    }

    /// A column of whole numbers.
    pub fn counts(name: impl Into<String>) -> Self {
        Self::new(name.into(), Values::Counts(Vec::new()))
    }

    /// A column of real numbers.
    pub fn reals(name: impl Into<String>) -> Self {
        Self::new(name.into(), Values::Reals(Vec::new()))
    }

    fn new(name: String, values: Values) -> Self {
        Self { name, values, present: None }
    }

    /// The same column, but rows may lack its value.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.present = Some(Vec::new());
        self
    }

    /// A text of this row.
    pub fn push_text(&mut self, value: &str) {
        if let Values::Texts(values) = &mut self.values {
            values.push(value.into());
            self.note(1);
        }
    }

    /// A whole number of this row.
    pub fn push_count(&mut self, value: i64) {
        if let Values::Counts(values) = &mut self.values {
            values.push(value);
            self.note(1);
        }
    }

    /// A real number of this row.
    pub fn push_real(&mut self, value: f64) {
        if let Values::Reals(values) = &mut self.values {
            values.push(value);
            self.note(1);
        }
    }

    /// This row has no value here, which only an optional column allows.
    pub fn push_nothing(&mut self) {
        self.note(0);
    }

    fn note(&mut self, present: i16) {
        if let Some(levels) = &mut self.present {
            levels.push(present);
        }
    }

    fn schema(&self) -> Result<Type, ParquetError> {
        let physical = match self.values {
            Values::Texts(_) => Physical::BYTE_ARRAY,
            Values::Counts(_) => Physical::INT64,
            Values::Reals(_) => Physical::DOUBLE,
        };
        let repetition =
            if self.present.is_some() { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let field = Type::primitive_type_builder(&self.name, physical).with_repetition(repetition);
        match self.values {
            Values::Texts(_) => field
                .with_logical_type(Some(LogicalType::String))
                .with_converted_type(ConvertedType::UTF8)
                .build(),
            _ => field.build(),
        }
    }

    /// Writes the values into the next column of `group` and forgets them.
    fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        let Some(mut writer) = group.next_column()? else { return Ok(()) };
        let levels = self.present.as_deref();
        match &mut self.values {
            Values::Texts(values) => {
                writer.typed::<ByteArrayType>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Counts(values) => {
                writer.typed::<Int64Type>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Reals(values) => {
                writer.typed::<DoubleType>().write_batch(values, levels, None)?;
                values.clear();
            }
        }
        if let Some(levels) = &mut self.present {
            levels.clear();
        }
        writer.close()
    }
}

/// One file.
pub struct Table {
    file: SerializedFileWriter<Box<dyn Write + Send>>,
    columns: Vec<Column>,
    rows: usize,
    /// The first error; nothing is written after it.
    failed: Option<ParquetError>,
}

impl Table {
    /// A table of `columns`, whose rows are called `row_name`, written to `out`.
    ///
    /// # Errors
    ///
    /// What `out` says to the file's first bytes.
    pub fn new(
        out: Box<dyn Write + Send>,
        row_name: &str,
        columns: Vec<Column>,
    ) -> io::Result<Self> {
        let open = || {
            let fields: Result<Vec<_>, _> =
                columns.iter().map(|column| column.schema().map(Arc::new)).collect();
            let schema = Type::group_type_builder(row_name).with_fields(fields?).build()?;
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
            SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build()))
        };
        let file = open().map_err(io_error)?;
        Ok(Self { file, columns, rows: 0, failed: None })
    }

    /// The columns, in their order, to push the values of a row into.
    pub fn columns(&mut self) -> &mut [Column] {
        &mut self.columns
    }

    /// Every column has its value of this row.
    pub fn end_row(&mut self) {
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
            column.write(&mut group)?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes what is left and makes the file whole.
    ///
    /// # Errors
    ///
    /// The first error of all.
    pub fn finish(mut self) -> io::Result<()> {
        if self.rows > 0 {
            self.flush();
        }
        let error = match self.failed.take() {
            Some(error) => Some(error),
            None => self.file.close().err(),
        };
        error.map_or(Ok(()), |error| Err(io_error(error)))
    }
}

fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(source) => io::Error::other(source),
        },
        error => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::{Column, GROUP, Table};

    #[test]
    fn what_was_pushed_is_read_back_with_its_gaps() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let columns = vec![
            Column::counts("n"),
            Column::reals("x").optional(),
            Column::texts("word").optional(),
        ];
        let out = Box::new(file.reopen().unwrap());
        let mut table = Table::new(out, "row", columns).unwrap();
        let rows = GROUP + 2;
        for number in 0..rows {
            let [n, x, word] = table.columns() else { panic!("three columns") };
            n.push_count(number as i64);
            if number % 2 == 0 {
                x.push_real(number as f64 / 4.0)
            } else {
                x.push_nothing()
            }
            if number % 3 == 0 {
                word.push_text("three")
            } else {
                word.push_nothing()
            }
            table.end_row();
        }
        table.finish().unwrap();

        let reader = SerializedFileReader::new(File::open(file.path()).unwrap()).unwrap();
        let mut read = 0;
        for (number, row) in reader.get_row_iter(None).unwrap().enumerate() {
            let row = row.unwrap();
            assert_eq!(row.get_long(0).unwrap(), number as i64);
            let x = (number % 2 == 0).then_some(number as f64 / 4.0);
            assert_eq!(row.get_double(1).ok(), x);
            let word = (number % 3 == 0).then_some("three");
            assert_eq!(row.get_string(2).ok().map(String::as_str), word);
            read += 1;
        }
        assert_eq!(read, rows);
    }

    #[test]
    fn a_row_that_lacks_a_required_value_is_an_error() {
        let columns = vec![Column::counts("n"), Column::counts("m")];
        let mut table = Table::new(Box::new(Vec::new()), "row", columns).unwrap();
        table.columns()[0].push_count(1);
        table.end_row();
        assert!(table.finish().is_err());
    }
}
