//! `ParquetTable`: a Parquet file that Python fills row by row.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use weir_table::{Column, Table};

use crate::errors::{BadInput, bad_input};

/// Which push a column takes.
#[derive(Clone, Copy)]
enum Kind {
    Count,
    Real,
    Text,
}

/// A table that is being written; see `weir/_core.pyi`.
#[pyclass(module = "weir")]
struct ParquetTable {
    /// In a lock for Python's sake alone: what the table writes to may not be shared by threads.
    table: Mutex<Option<Table>>,
    kinds: Vec<Kind>,
    path: PathBuf,
}

#[pymethods]
impl ParquetTable {
    #[new]
    fn new(path: PathBuf, columns: Vec<(String, String)>) -> PyResult<Self> {
        let (mut kinds, mut made) = (Vec::new(), Vec::new());
        for (name, kind) in columns {
            let (kind, column) = match kind.as_str() {
                "count" => (Kind::Count, Column::counts(name)),
                "real" => (Kind::Real, Column::reals(name)),
                "text" => (Kind::Text, Column::texts(name)),
                _ => {
                    let message =
                        format!("column {name}: {kind} is not a kind: count, real or text");
                    return Err(BadInput::new_err(message));
                }
            };
            kinds.push(kind);
            made.push(column.optional());
        }
        let file = File::create(&path).map_err(|error| refused(&path, &error))?;
        let table = Table::new(Box::new(BufWriter::new(file)), "row", made)
            .map_err(|error| refused(&path, &error))?;
        Ok(Self { table: Mutex::new(Some(table)), kinds, path })
    }

    /// Adds a row, a value for each column.
    fn append(&mut self, row: Vec<Option<Bound<'_, PyAny>>>) -> PyResult<()> {
        if row.len() != self.kinds.len() {
            let message = format!("{} values for {} columns", row.len(), self.kinds.len());
            return Err(BadInput::new_err(message));
        }
        // All values are converted before any is pushed: a row is in the table whole or not at all.
        let values = self.kinds.iter().zip(row).map(convert).collect::<PyResult<Vec<_>>>()?;
        let table = self.open().as_mut().ok_or_else(|| BadInput::new_err("the table is closed"))?;
        for (column, value) in table.columns().iter_mut().zip(values) {
            match value {
                Some(Value::Count(count)) => column.push_count(count),
                Some(Value::Real(real)) => column.push_real(real),
                Some(Value::Text(text)) => column.push_text(&text),
                None => column.push_nothing(),
            }
        }
        table.end_row();
        Ok(())
    }

    /// Writes what is left; does nothing the second time.
    fn close(&mut self) -> PyResult<()> {
        match self.open().take() {
            Some(table) => table.finish().map_err(|error| refused(&self.path, &error)),
            None => Ok(()),
        }
    }
}

impl ParquetTable {
    fn open(&mut self) -> &mut Option<Table> {
        self.table.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Value {
    Count(i64),
    Real(f64),
    Text(String),
}

fn convert((kind, value): (&Kind, Option<Bound<'_, PyAny>>)) -> PyResult<Option<Value>> {
    let Some(value) = value else { return Ok(None) };
    Ok(Some(match kind {
        Kind::Count => Value::Count(value.extract()?),
        Kind::Real => Value::Real(value.extract()?),
        Kind::Text => Value::Text(value.extract()?),
    }))
}

fn refused(path: &Path, error: &io::Error) -> PyErr {
    bad_input(format!("{}: {error}", path.display()))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ParquetTable>()
}
