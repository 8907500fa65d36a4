//! Studies as JSON: what is wrong is named with its place.

use serde::de::DeserializeOwned;

use crate::FluidError;

/// A document and nothing after it.
///
/// # Errors
/// [`FluidError::Parameter`] with the place in the document.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, FluidError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let document = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let (place, reason) = (error.path().to_string(), error.inner().to_string());
        FluidError::Parameter { place, reason }
    })?;
    reader.end().map_err(|error| FluidError::Parameter {
        place: "after the study".to_owned(),
        reason: error.to_string(),
    })?;
    Ok(document)
}
