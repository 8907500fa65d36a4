//! `Echo` and `Prober`: echo requests and the samples that they make; nothing here holds the GIL
//! while it waits.

use std::num::{NonZeroU32, NonZeroU64};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use weir_probe::{Framing, Period, Plan, Sample};
use weir_units::Time;

use crate::errors::BadInput;

/// How long signals wait at most.
const SLICE: Duration = Duration::from_millis(100);

/// Numbered requests through a socket and their replies; see `weir/_core.pyi`.
#[pyclass(frozen, module = "weir._core")]
struct Echo(Arc<Mutex<weir_probe::Echo>>);

#[pymethods]
impl Echo {
    #[new]
    fn new(descriptor: RawFd, framing: &str) -> PyResult<Self> {
        let framing: Framing = framing
            .parse()
            .map_err(|_| BadInput::new_err(format!("framing {framing}: none of an echo")))?;
        Ok(Self(Arc::new(Mutex::new(weir_probe::Echo::new(descriptor, framing)?))))
    }

    fn send(&self, key: u64) {
        self.lock().send(key);
    }

    /// Key, round-trip time in ns, and whether the kernel stamped both ways.
    fn replies(&self) -> Vec<(u64, u64, bool)> {
        let mut replies = Vec::new();
        self.lock().replies(&mut replies);
        replies.iter().map(|reply| (reply.key, reply.rtt.as_ns(), reply.is_stamped)).collect()
    }

    fn refused(&self) -> &'static str {
        self.lock().refusal().unwrap_or_default()
    }

    fn stamped(&self) -> u64 {
        self.lock().stamped()
    }
}

impl Echo {
    fn lock(&self) -> MutexGuard<'_, weir_probe::Echo> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A probing that runs; see `weir/_core.pyi`.
#[pyclass(frozen, module = "weir._core")]
struct Prober(weir_probe::Prober);

type Row<'py> = (u64, u64, u64, Bound<'py, PyTuple>, Option<f64>, Option<Bound<'py, PyBytes>>);

#[pymethods]
impl Prober {
    #[new]
    #[pyo3(signature = (echo, *, period_ns, requests, samples, timeout_ns, begin_ns, connection))]
    fn new(
        echo: &Echo,
        period_ns: (u64, NonZeroU64),
        requests: NonZeroU32,
        samples: Option<u64>,
        timeout_ns: u64,
        begin_ns: u64,
        connection: Option<RawFd>,
    ) -> PyResult<Self> {
        let (numerator, denominator) = period_ns;
        let plan = Plan {
            period: Period { numerator: Time::from_ns(numerator), denominator },
            requests,
            samples,
            timeout: Time::from_ns(timeout_ns),
        };
        let (echo, begin) = (Arc::clone(&echo.0), Time::from_ns(begin_ns));
        Ok(Self(weir_probe::Prober::start(echo, plan, begin, connection)?))
    }

    /// Samples as they are completed; none if there was none for a while, `None` at the end.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Vec<Row<'py>>>> {
        let Some(samples) = py.detach(|| self.0.take(SLICE))? else { return Ok(None) };
        samples.into_iter().map(|sample| row(py, sample)).collect::<PyResult<_>>().map(Some)
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn is_realtime(&self) -> bool {
        self.0.is_realtime()
    }
}

fn row(py: Python<'_>, sample: Sample) -> PyResult<Row<'_>> {
    let rtts = PyTuple::new(py, sample.rtts.iter().map(|rtt| rtt.map(Time::as_ns)))?;
    let tcp = sample.tcp.map(|told| PyBytes::new(py, &told));
    let (at_ns, late_ns) = (sample.at.as_ns(), sample.late.as_ns());
    Ok((sample.index, at_ns, late_ns, rtts, sample.held_ns, tcp))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Echo>()?;
    module.add_class::<Prober>()
}
