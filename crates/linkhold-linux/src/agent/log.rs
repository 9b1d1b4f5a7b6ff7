//! The daemon's log on standard error, written so that no packet waits for whoever reads it.
//!
//! One thread handles packets and writes the log. A reader that has stopped would hold every packet back as
//! soon as the pipe is full, and a disk that is full would be a failure to tell of, again on standard error.
//! So a line is written only where the system says that there is room, and is lost otherwise; how many were
//! lost is told as soon as there is room again. What fails is not told to anybody.
//!
//! A pipe that is ready takes PIPE_BUF bytes without waiting (poll(2), pipe(7)), so a line is no longer than
//! that. A file is always ready.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// What a pipe takes at once (Linux, include/uapi/linux/limits.h).
const PIPE_BUF: usize = 4096;

/// How many lines were lost since the last that was written.
static LOST: Mutex<u64> = Mutex::new(0);

/// Writes a line on standard error, or loses it.
#[derive(Debug)]
pub struct Line;

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let stderr = io::stderr();
        // Who has the lock does not wait for anything.
        let mut lost = LOST.lock().unwrap_or_else(PoisonError::into_inner);
        write_or_lose(stderr.as_fd(), line, &mut lost);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_or_lose(to: BorrowedFd<'_>, line: &[u8], lost: &mut u64) {
    if *lost > 0 {
        let words = format!("{lost} lines of this log were lost, because nobody read it\n");
        if !is_ready(to) || nix::unistd::write(to, words.as_bytes()).is_err() {
            *lost += 1;
            return;
        }
        *lost = 0;
    }
    let short = line.get(..PIPE_BUF - 1).map(|start| [start, b"\n"].concat());
    if !is_ready(to) || nix::unistd::write(to, short.as_deref().unwrap_or(line)).is_err() {
        *lost += 1;
    }
}

fn is_ready(to: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::new(to, PollFlags::POLLOUT)];
    poll(&mut polled, PollTimeout::ZERO).is_ok()
        && polled.iter().all(|one| one.revents().is_some_and(|is| is.contains(PollFlags::POLLOUT)))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::OwnedFd;

    use nix::unistd::pipe;

    use super::*;

    fn read(from: OwnedFd) -> String {
        let mut text = String::new();
        File::from(from).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_reader_that_has_stopped_costs_lines_and_nothing_else() {
        let (reader, writer) = pipe().unwrap();
        let line = [&[b'x'; 99][..], b"\n"].concat();
        let (mut lost, mut written) = (0, 0);
        // A pipe holds 64 KiB.
        while lost == 0 {
            write_or_lose(writer.as_fd(), &line, &mut lost);
            written += 1;
            assert!(written < 10_000, "the pipe is never full");
        }
        for _ in 0..9 {
            write_or_lose(writer.as_fd(), &line, &mut lost);
        }
        assert_eq!(lost, 10);
        let mut reader = File::from(reader);
        let mut start = vec![0; 40_000];
        reader.read_exact(&mut start).unwrap();
        write_or_lose(writer.as_fd(), b"again\n", &mut lost);
        drop(writer);
        assert_eq!(lost, 0);
        let rest = read(reader.into());
        assert!(rest.ends_with("x\n10 lines of this log were lost, because nobody read it\nagain\n"));
    }

    #[test]
    fn a_full_disk_and_a_reader_that_is_gone_are_nobodys_failure() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        for to in [full.as_fd(), writer.as_fd()] {
            let mut lost = 0;
            write_or_lose(to, b"one\n", &mut lost);
            write_or_lose(to, b"two\n", &mut lost);
            assert_eq!(lost, 2);
        }
    }

    #[test]
    fn a_line_is_no_longer_than_a_pipe_takes_at_once() {
        let (reader, writer) = pipe().unwrap();
        let mut lost = 0;
        write_or_lose(writer.as_fd(), &[b'x'; 10_000], &mut lost);
        drop(writer);
        let text = read(reader);
        assert_eq!((lost, text.len(), text.ends_with("x\n")), (0, PIPE_BUF, true));
    }
}
