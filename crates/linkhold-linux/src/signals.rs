//! The signals that end a program in order.

use nix::sys::signal::{SigSet, Signal};

use crate::rights;

/// SIGTERM, and SIGINT and SIGHUP where the process was not started with them ignored.
///
/// Whoever waits for signals has to block them, and Linux keeps a signal that is blocked even where it is
/// ignored (signal(7)). So `nohup`, which has SIGHUP ignored, and a script's `&`, which has SIGINT ignored,
/// would protect nobody who waits for those.
#[must_use]
pub fn ending() -> SigSet {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    for signal in [Signal::SIGINT, Signal::SIGHUP] {
        if !is_ignored(signal, &status) {
            signals.add(signal);
        }
    }
    signals
}

/// True if the process was started with this signal ignored. `status` is `/proc/self/status` (proc(5),
/// `SigIgn`).
fn is_ignored(signal: Signal, status: &str) -> bool {
    rights::mask(status, "SigIgn:").unwrap_or(0) >> (signal as i32 - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_the_process_was_started_without_is_known() {
        let status = |mask: &str| format!("Name:\tlinkhold\nSigBlk:\t0000000000000001\nSigIgn:\t{mask}\n");
        for (mask, hangup, interrupt) in [
            ("0000000000000001", true, false),
            ("0000000000000002", false, true),
            ("0000000000001000", false, false),
            ("ffffffffffffffff", true, true),
            ("", false, false),
        ] {
            let ignored = [Signal::SIGHUP, Signal::SIGINT].map(|signal| is_ignored(signal, &status(mask)));
            assert_eq!(ignored, [hangup, interrupt], "{mask}");
        }
        assert!(!is_ignored(Signal::SIGHUP, ""));
    }
}
