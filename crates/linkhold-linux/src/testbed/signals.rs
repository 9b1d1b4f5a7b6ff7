//! Ctrl-C and SIGTERM while cells run: the first ends them in order, the second (or a cell that does not end)
//! removes the namespaces and ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::netns::{NetNsError, remove_all};
use crate::signals;

/// How long cells get to end in order.
const GRACE: Duration = Duration::from_secs(10);

/// Answers a flag that the first signal sets. To be called on the main thread before any other thread starts:
/// threads inherit the blocked signals, and the one that waits for them is made here. `at_end` is what the
/// caller has to clean up if the process is ended at once.
///
/// # Errors
/// [`NetNsError::System`] if signals cannot be blocked or no thread can be made.
pub fn stop_on_signals(at_end: fn()) -> Result<Arc<AtomicBool>, NetNsError> {
    let system = |what: &str, source: std::io::Error| NetNsError::System { what: what.to_owned(), source };
    let signals = signals::ending();
    signals.thread_block().map_err(|errno| system("block signals", errno.into()))?;
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let wait = move || {
        let Ok(first) = signals.wait() else { return };
        flag.store(true, Ordering::Relaxed);
        let patience = std::thread::Builder::new().name("grace".to_owned()).spawn(move || {
            std::thread::sleep(GRACE);
            end(first, at_end);
        });
        let second = signals.wait().unwrap_or(first);
        drop(patience);
        end(second, at_end);
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)
        .map_err(|error| system("start the signal thread", error))?;
    Ok(stop)
}

/// Leaves nothing behind and exits as the shell expects of a process ended by `signal`.
fn end(signal: Signal, at_end: fn()) {
    remove_all();
    at_end();
    std::process::exit(128 + signal as i32);
}
