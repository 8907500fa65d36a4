//! Calendars in the fluid world, and the study that measures them: the code that answers the live
//! service, without a second implementation.

mod adapter;
mod planned;
mod policy;
mod study;

pub use adapter::Calendared;
pub use planned::Planned;
pub use policy::StudyPolicy;
pub use study::{CalendarStudy, Clock, Figures};
