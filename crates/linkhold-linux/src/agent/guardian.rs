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
//! The child does nothing but close descriptors, `read`, `send` and `_exit`, so it may be forked from a
//! process that has threads. Signals that end the agent do not end the guardian: it goes when the agent has
//! gone.

use core::ffi::CStr;
use core::ops::Range;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::fcntl::OFlag;
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe2, write};

use super::error::AgentError;
use crate::datapath::nfqueue::accept_everything;

/// Where the kernel lists a process's open descriptors.
const DESCRIPTORS: &CStr = c"/proc/self/fd";
/// Most descriptors that are tried where nothing lists the open ones: a fraction of a second.
const MOST_TRIED: RawFd = 1 << 20;

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
            ForkResult::Child => stand_by(keep, write_end.as_raw_fd(), &last_will),
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
fn stand_by(keep: [RawFd; 2], agents_end: RawFd, last_will: &[u8]) -> ! {
    // No signal from a terminal or a service manager's TERM: they mean the agent.
    let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None);
    // First and by itself: as long as this process has it, the pipe never closes.
    close(agents_end);
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

fn close(descriptor: RawFd) {
    // SAFETY: takes a number only; nothing in the child uses the descriptor afterwards.
    unsafe { libc::close(descriptor) };
}

/// Closes inherited descriptors. The control socket must not stay open in this process, and a reader of the
/// agent's output must see the output end.
fn close_all_but(keep: [RawFd; 2]) {
    let (low, high) = (keep[0].min(keep[1]), keep[0].max(keep[1]));
    let ranges = [(0, low - 1), (low + 1, high - 1), (high + 1, RawFd::MAX)];
    let closed = ranges.into_iter().filter(|(first, last)| first <= last).all(|(first, last)| {
        // SAFETY: close_range takes numbers only; nothing in this process uses the descriptors afterwards.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) == 0 }
    });
    // A kernel before 5.9 has no such call, and a filter of calls may not know it.
    if closed || close_listed_but(keep) {
        return;
    }
    for descriptor in (0..most_descriptors()).filter(|descriptor| !keep.contains(descriptor)) {
        close(descriptor);
    }
}

/// Closes those that the kernel lists; false if it lists none. Only bare system calls: readdir(3) allocates,
/// and the lock of a thread that is not here any more may be on the heap.
fn close_listed_but(keep: [RawFd; 2]) -> bool {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    // SAFETY: the path is a constant with its end marked.
    let list = unsafe { libc::open(DESCRIPTORS.as_ptr(), flags) };
    if list < 0 {
        return false;
    }
    let mut entries = [0u8; 1024];
    let mut any = false;
    loop {
        let (start, room) = (entries.as_mut_ptr(), entries.len());
        // SAFETY: the kernel writes into this stack frame's array, as many bytes as it has at most.
        let length = unsafe { libc::syscall(libc::SYS_getdents64, list, start, room) };
        let Some(mut rest) = usize::try_from(length).ok().and_then(|length| entries.get(..length)) else {
            break;
        };
        if rest.is_empty() {
            break;
        }
        while let Some((descriptor, behind)) = first_entry(rest) {
            any = true;
            rest = behind;
            if let Some(descriptor) = descriptor.filter(|one| *one != list && !keep.contains(one)) {
                close(descriptor);
            }
        }
    }
    close(list);
    any
}

/// The first entry of what getdents64(2) tells, as a descriptor if its name is a number, and the rest.
fn first_entry(entries: &[u8]) -> Option<(Option<RawFd>, &[u8])> {
    // struct linux_dirent64: inode, offset, length of the entry, type, name with a zero behind it.
    const LENGTH: Range<usize> = 16..18;
    const NAME: usize = 19;
    let length = u16::from_ne_bytes(entries.get(LENGTH)?.try_into().ok()?).into();
    let name = entries.get(NAME..length)?.split(|byte| *byte == 0).next()?;
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| RawFd::from(*byte - b'0'));
    let number = name.iter().try_fold(0, |sum: RawFd, byte| sum.checked_mul(10)?.checked_add(digit(byte)?));
    Some((number.filter(|_| !name.is_empty()), entries.get(length..)?))
}

/// One more than the highest descriptor that may be open, as far as the limit of today tells.
fn most_descriptors() -> RawFd {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes into this stack frame.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    let most = RawFd::try_from(limit.rlim_cur).unwrap_or(MOST_TRIED);
    if known { most.min(MOST_TRIED) } else { MOST_TRIED }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    /// Makes a system call fail with ENOSYS in this thread, and in what it forks.
    fn refuse_here(call: libc::c_long) {
        let part = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
        let load = part((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0);
        let is_it = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        let is_it = libc::sock_filter { code: is_it, jt: 0, jf: 1, k: call as u32 };
        let answer = (libc::BPF_RET | libc::BPF_K) as u16;
        let refuse = part(answer, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
        let mut filter = [load, is_it, refuse, part(answer, libc::SECCOMP_RET_ALLOW)];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: both take numbers and a program that lives until they return.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
        }
    }

    /// What the guardian leaves open, and what it does when the agent is gone, without these system calls.
    fn acts_without(refused: &'static [libc::c_long]) {
        let (mut reader, queue) = UnixStream::pair().unwrap();
        let (mut inherited, other_end) = UnixStream::pair().unwrap();
        for socket in [&reader, &inherited] {
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        }
        let guardian = std::thread::spawn(move || {
            for &call in refused {
                refuse_here(call);
            }
            let guardian = Guardian::start(queue.as_raw_fd(), 3..4).unwrap();
            drop(other_end);
            guardian
        });
        let guardian = guardian.join().unwrap();
        let child = guardian.child;
        let left_open = inherited.read(&mut [0]);
        // Beside this thread: it waits for the child.
        let ended = std::thread::spawn(move || drop(guardian));
        let will = accept_everything(3..4);
        let mut told = vec![0; will.len()];
        let read = reader.read_exact(&mut told);
        if read.is_err() {
            nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL).unwrap();
        }
        ended.join().unwrap();
        assert!(read.is_ok() && told == will, "the agent is gone, and the guardian does nothing: {read:?}");
        assert!(matches!(left_open, Ok(0)), "the guardian has what is not its own: {left_open:?}");
    }

    #[test]
    fn a_guardian_closes_what_is_not_its_own_and_acts_when_the_agent_is_gone() {
        acts_without(&[]);
    }

    #[test]
    fn it_does_so_without_close_range() {
        acts_without(&[libc::SYS_close_range]);
    }

    #[test]
    fn it_does_so_where_nothing_lists_what_is_open() {
        acts_without(&[libc::SYS_close_range, libc::SYS_getdents64]);
    }
}
