//! The exceptions of `weir.errors`, and what an error of the crates says as one of them.

use std::fmt::Display;

use pyo3::prelude::*;

pyo3::import_exception!(weir.errors, BadInput);
pyo3::import_exception!(weir.errors, Refused);
pyo3::import_exception!(weir.errors, TransferFailed);
pyo3::import_exception!(weir.errors, Unavailable);
pyo3::import_exception!(weir.errors, Unsupported);
pyo3::import_exception!(weir.errors, WeirError);

const NUMBER: &str = " (os error ";

/// A message without the system's number of an error, which Rust puts behind its words and nobody
/// can use.
pub(crate) fn words(error: impl Display) -> String {
    let mut text = error.to_string();
    while let Some(begin) = text.find(NUMBER) {
        let digits = text[begin + NUMBER.len()..].find(')');
        let end = digits.map_or(text.len(), |digits| begin + NUMBER.len() + digits + 1);
        text.replace_range(begin..end, "");
    }
    text
}

/// What was asked for cannot be.
pub(crate) fn bad_input(error: impl Display) -> PyErr {
    BadInput::new_err(words(error))
}
