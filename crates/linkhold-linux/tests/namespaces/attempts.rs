//! Bounds on time, which a machine with other work may miss through no fault of the tree.

use std::time::Duration;

use linkhold_linux::testbed::host_load::HostLoad;

use crate::{Outcome, Unfinished, skipped};

/// How often a test is made at most whose times this machine's other work may have spoilt.
const ATTEMPTS: u16 = 5;

/// What an attempt measured. Whatever does not depend on time it has asserted itself, each time.
pub struct Timed {
    /// What was beyond its bound.
    pub late: Option<Late>,
    /// What this machine did besides, meanwhile.
    pub host: HostLoad,
}

/// Something beyond its bound.
pub struct Late {
    /// What, for a reader.
    pub what: String,
    /// How long this machine has to have stood still for that.
    pub by: By,
}

/// What a machine that stands still brings about.
pub enum By {
    /// One thing came so much later.
    Delay(Duration),
    /// So much time was lost, in however many pauses of any one processor: a packet crosses all of them.
    Loss(Duration),
}

impl Late {
    /// If `took` is not below its bound.
    pub fn if_beyond(took: Duration, bound: Duration, what: impl FnOnce() -> String) -> Option<Self> {
        (took >= bound).then(|| Self { what: what(), by: By::Delay(took - bound) })
    }
}

/// Makes attempts, numbered from 0, until one is in time. One that is late fails the test if the machine had
/// nothing else to do, and did not stand still for as long. If each of them was late and the machine busy,
/// the test is skipped.
pub fn in_time(mut attempt: impl FnMut(u16) -> Result<Timed, Unfinished>) -> Outcome {
    let mut last = String::new();
    for number in 0..ATTEMPTS {
        let Timed { late, host } = attempt(number)?;
        let Some(Late { what, by }) = late else { return Ok(()) };
        last = format!("{what}; {host}");
        let is_explained = match by {
            By::Delay(time) => host.explains_delay(time),
            By::Loss(time) => host.explains_loss(time),
        };
        assert!(is_explained, "{last}");
        println!("attempt {number}: {last}");
    }
    skipped(format!("whether it is in time is undecided after {ATTEMPTS} attempts: {last}"))
}
