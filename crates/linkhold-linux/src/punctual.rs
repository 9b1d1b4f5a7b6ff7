//! What a thread that has to be on time asks of the kernel.

/// Nice value of the testbed's senders and receivers. It is below zero because separate hosts would not wait
/// for this machine's other work.
pub(crate) const HOSTS_NICE: i32 = -10;

/// Real-time priority of the testbed's air.
pub(crate) const AIRS_PRIORITY: i32 = 10;

/// This thread comes before every one that has no real-time priority (`SCHED_FIFO` in sched(7)).
///
/// # Errors
/// Without the privilege; nothing changes then.
#[allow(unsafe_code, reason = "nix does not wrap it")]
pub(crate) fn be_in_real_time(priority: i32) -> std::io::Result<()> {
    let priority = libc::sched_param { sched_priority: priority };
    // SAFETY: the call only reads its arguments and concerns the calling thread.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) };
    if set == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Timers of this thread are as fine as the kernel's: a wait of 50 µs more than asked for (the default slack)
/// would be late.
#[allow(unsafe_code, reason = "nix does not wrap it")]
pub(crate) fn finest_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes a number and changes the calling thread only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
}

/// Gives this thread a nice value; false, and nothing changes, without the privilege.
#[allow(unsafe_code, reason = "nix does not wrap it")]
pub(crate) fn be_nice(value: i32) -> bool {
    // SAFETY: the call reads numbers only, and 0 names the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) == 0 }
}
