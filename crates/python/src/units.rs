//! `Time`, `Rate` and `Bytes` as Python sees them: built from text or from another one, ordered,
//! hashable, and printed as they are written.

use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::basic::CompareOp;
use pyo3::prelude::*;

use crate::errors::{BadInput, bad_input};

macro_rules! quantity {
    (
        $name:ident, $doc:literal, $base:ident, $from:ident, $from_doc:literal,
        $of:expr, $to:expr
    ) => {
        #[doc = $doc]
        #[pyclass(frozen, from_py_object, module = "weir")]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(pub(crate) weir_units::$name);

        #[pymethods]
        impl $name {
            #[new]
            fn new(text: &Bound<'_, PyAny>) -> PyResult<Self> {
                if let Ok(same) = text.cast::<Self>() {
                    return Ok(*same.get());
                }
                let Ok(text) = text.extract::<&str>() else {
                    return Err(BadInput::new_err(format!(
                        "{} is not a {}: write it as text with a unit",
                        text.repr()?,
                        stringify!($name).to_lowercase(),
                    )));
                };
                let parsed: Result<weir_units::$name, _> = text.parse();
                parsed.map(Self).map_err(bad_input)
            }

            #[doc = $from_doc]
            #[staticmethod]
            fn $from(value: u64) -> Self {
                Self($of(value))
            }

            #[getter]
            fn $base(&self) -> u64 {
                $to(self.0)
            }

            fn __str__(&self) -> String {
                self.0.to_string()
            }

            fn __repr__(&self) -> String {
                format!("{}(\"{}\")", stringify!($name), self.0)
            }

            fn __hash__(&self) -> u64 {
                let mut hasher = DefaultHasher::new();
                self.hash(&mut hasher);
                hasher.finish()
            }

            fn __richcmp__(&self, other: &Self, op: CompareOp) -> bool {
                op.matches(self.cmp(other))
            }

            fn __bool__(&self) -> bool {
                $to(self.0) != 0
            }

            fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (u64,))> {
                let rebuild = py.get_type::<Self>().getattr(stringify!($from))?;
                Ok((rebuild.unbind(), ($to(self.0),)))
            }
        }
    };
}

quantity!(
    Time,
    "An instant or a span, in whole nanoseconds: `Time(\"65 ms\")`.",
    ns,
    from_ns,
    "A time of `value` nanoseconds.",
    weir_units::Time::from_ns,
    weir_units::Time::as_ns
);
quantity!(
    Rate,
    "A data rate, in whole bits per second: `Rate(\"500 Mbit/s\")`.",
    bit_per_s,
    from_bit_per_s,
    "A rate of `value` bits per second.",
    weir_units::Rate::from_bit_per_s,
    weir_units::Rate::as_bit_per_s
);
quantity!(
    Bytes,
    "An amount of data, in whole bytes: `Bytes(\"14 GB\")`.",
    count,
    from_count,
    "An amount of `value` bytes.",
    weir_units::Bytes::new,
    weir_units::Bytes::count
);

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Time>()?;
    module.add_class::<Rate>()?;
    module.add_class::<Bytes>()
}
