//! Bounds on time, which a machine with other work may miss through no fault of the tree.

use linkhold_linux::testbed::host_load::HostLoad;

use crate::{Outcome, Unfinished, skipped};

/// How often a test is made at most whose times this machine's other work may have spoilt.
const ATTEMPTS: u16 = 5;

/// What an attempt measured. Whatever does not depend on time it has asserted itself, each time.
pub struct Timed {
    /// What was beyond its bound.
    pub late: Option<String>,
    /// What this machine did besides, meanwhile.
    pub host: HostLoad,
}

/// Makes attempts, numbered from 0, until one is in time. One that is late fails the test if the machine had
/// nothing else to do. If each of them was late and the machine busy, the test is skipped.
pub fn in_time(mut attempt: impl FnMut(u16) -> Result<Timed, Unfinished>) -> Outcome {
    let mut last = String::new();
    for number in 0..ATTEMPTS {
        let Timed { late, host } = attempt(number)?;
        let Some(late) = late else { return Ok(()) };
        last = format!("{late}; {host}");
        assert!(host.is_much(), "{last}");
        println!("attempt {number}: {last}");
    }
    skipped(format!("whether it is in time is undecided after {ATTEMPTS} attempts: {last}"))
}
