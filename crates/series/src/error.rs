/// Why series cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum SeriesError {
    /// They do not divide into windows.
    #[error("{values} values are not a whole number of windows of {length}")]
    Length {
        /// How many values there are.
        values: usize,
        /// Length of a window.
        length: usize,
    },
    /// A value with which no distance can be computed.
    #[error("window {window}: value {place} is {value}")]
    NotFinite {
        /// Which window, from 0.
        window: usize,
        /// Which of its values, from 0.
        place: usize,
        /// It.
        value: f64,
    },
    /// A series of another length than the windows'.
    #[error("the series has {found} values, and the windows have {length}")]
    Query {
        /// Its length.
        found: usize,
        /// Theirs.
        length: usize,
    },
    /// A cost that has no name here.
    #[error("{0:?} is not a cost; use absolute or squared")]
    Cost(String),
}
