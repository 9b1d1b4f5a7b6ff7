//! The guardian: a child process that outlives a killed agent by a moment and lets the held packets go.
//!
//! When the process that reads an NFQUEUE dies, the kernel drops everything in the queue, so a SIGKILL in a
//! silence would lose every sender's flight and leave the senders waiting for a backed-off timeout. The
//! guardian shares the queue's socket, so the queue lives on. It waits for the agent's end of a pipe to
//! close, tells the kernel to accept everything that waits, and ends. From then on the rules' bypass carries
//! the traffic. What the receivers then acknowledge reopens the senders' windows.
//!
//! Waiting → (pipe closed) → accept everything → gone; waiting → (dismissed) → gone.
//!
//! The child does nothing but `read`, `send` and `_exit`, so it may be forked from a process that has
//! threads. Signals that end the agent do not end the guardian: it goes when the agent has gone.

use core::ops::Range;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::fcntl::OFlag;
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe2, write};

use super::error::AgentError;
use crate::datapath::nfqueue::accept_everything;

/// The byte that the agent writes when it ends in order.
const DISMISSED: u8 = b'.';

/// The agent's handle on its guardian. Dropping it without [`dismiss`](Self::dismiss) means that the agent
/// has failed.
#[derive(Debug)]
pub struct Guardian {
    pipe: OwnedFd,
    child: Pid,
}

impl Guardian {
    /// Starts the child for these queues on this netlink socket.
    ///
    /// # Errors
    /// [`AgentError::Guardian`] if there can be no pipe or no process.
    pub fn start(netlink: RawFd, queues: Range<u16>) -> Result<Self, AgentError> {
        let failed = |errno: nix::errno::Errno| AgentError::Guardian(io::Error::from(errno));
        let (read_end, write_end) = pipe2(OFlag::O_CLOEXEC).map_err(failed)?;
        let last_will = accept_everything(queues);
        let keep = [read_end.as_raw_fd(), netlink];
        // SAFETY: the child calls only async-signal-safe functions, on memory that was made before the fork.
        match unsafe { fork() }.map_err(failed)? {
            ForkResult::Child => stand_by(keep, &last_will),
            ForkResult::Parent { child } => Ok(Self { pipe: write_end, child }),
        }
    }

    /// The agent's end of the pipe, which shows an error (POLLERR) when the child is gone.
    pub fn pipe(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// The agent ends in order: the child has nothing to do.
    pub fn dismiss(self) {
        if let Err(errno) = write(&self.pipe, &[DISMISSED]) {
            tracing::warn!(%errno, "the guardian was gone before the agent");
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // The child ends when the pipe closes, which happens after this: close it first, then take its
        // status.
        if let Ok(null) = std::fs::File::open("/dev/null") {
            self.pipe = null.into();
            let _ = waitpid(self.child, None);
        }
    }
}

/// The child's whole life.
fn stand_by(keep: [RawFd; 2], last_will: &[u8]) -> ! {
    // No signal from a terminal or a service manager's TERM: they mean the agent.
    let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None);
    close_all_but(keep);
    let [pipe, netlink] = keep;
    let mut byte = [0u8; 1];
    let dismissed = loop {
        // SAFETY: one byte of this stack frame is read into; both descriptors were inherited and are open.
        let length = unsafe { libc::read(pipe, byte.as_mut_ptr().cast(), 1) };
        match length {
            1 => break byte[0] == DISMISSED,
            0 => break false,
            _ if nix::errno::Errno::last() == nix::errno::Errno::EINTR => {}
            _ => break false,
        }
    };
    if !dismissed {
        // SAFETY: the message was built before the fork and lives as long as the process.
        unsafe { libc::send(netlink, last_will.as_ptr().cast(), last_will.len(), 0) };
    }
    // SAFETY: ends the process without running the parent's exit handlers.
    unsafe { libc::_exit(0) }
}

/// Closes inherited descriptors. The control socket must not stay open in this process, and a reader of the
/// agent's output must see the output end.
fn close_all_but(keep: [RawFd; 2]) {
    let (low, high) = (keep[0].min(keep[1]), keep[0].max(keep[1]));
    for (first, last) in [(0, low - 1), (low + 1, high - 1), (high + 1, RawFd::MAX)] {
        if first <= last {
            // SAFETY: close_range takes numbers only; nothing in this process uses the descriptors
            // afterwards.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}
