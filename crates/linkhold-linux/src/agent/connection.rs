//! A client of the control socket or of the metrics port: non-blocking, and bounded in the memory that it can
//! take.

use std::io::{self, Read, Write};

use nix::poll::PollFlags;

/// Most bytes of answers that wait for a client to read them; a client that lets more wait is cut off.
const MAX_OUTPUT: usize = 256 * 1024;
/// Most lines handled for one client before the other clients and the packets have their turn.
const LINES_PER_TURN: usize = 16;

/// What became of a client's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The client stays.
    Stays,
    /// The client is gone or must go.
    Ends,
}

/// One client.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    input: Vec<u8>,
    output: Vec<u8>,
    max_line: usize,
    /// The client has closed its side: nothing more comes.
    closed: bool,
    end_when_written: bool,
}

impl<S: Read + Write> Connection<S> {
    /// A client on a non-blocking stream; a line is at most `max_line` bytes long.
    pub fn new(stream: S, max_line: usize) -> Self {
        Self {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            max_line,
            closed: false,
            end_when_written: false,
        }
    }

    /// The stream.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// True if it has something to write.
    pub fn wants_to_write(&self) -> bool {
        !self.output.is_empty()
    }

    /// True if what it says is still heard.
    pub fn wants_to_read(&self) -> bool {
        !self.closed && !self.end_when_written
    }

    /// What to poll its stream for.
    pub fn waits_for(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::POLLIN, self.wants_to_read());
        flags.set(PollFlags::POLLOUT, self.wants_to_write());
        flags
    }

    /// True if a whole line waits that was read, but had no turn yet.
    pub fn has_line(&self) -> bool {
        self.input.contains(&b'\n')
    }

    /// Reads what is there and answers each whole line. `answer` writes its reply to the buffer, and returns
    /// false if the connection ends with that reply.
    pub fn take_turn(&mut self, mut answer: impl FnMut(&[u8], &mut Vec<u8>) -> bool) -> Turn {
        if self.wants_to_read() {
            match self.read() {
                Ok(closed) => self.closed = closed,
                Err(_) => return Turn::Ends,
            }
        }
        let mut start = 0;
        for _ in 0..LINES_PER_TURN {
            if self.end_when_written {
                break;
            }
            let Some(length) = self.input[start..].iter().position(|byte| *byte == b'\n') else { break };
            if length > self.max_line {
                break;
            }
            let line = self.input[start..start + length].trim_ascii_end();
            if !answer(line, &mut self.output) {
                self.end_when_written = true;
            }
            start += length + 1;
        }
        self.input.drain(..start);
        let first_line = self.input.iter().position(|byte| *byte == b'\n').unwrap_or(self.input.len());
        if first_line > self.max_line && !self.end_when_written {
            self.output.extend_from_slice(b"{\"ok\":false,\"error\":\"the line is too long\"}\n");
            self.end_when_written = true;
        }
        if self.end_when_written {
            // What it still said is not answered any more.
            self.input.clear();
        }
        match self.write() {
            Ok(()) if self.output.len() > MAX_OUTPUT => Turn::Ends,
            Ok(()) if self.output.is_empty() && self.end_when_written => Turn::Ends,
            Ok(()) if self.output.is_empty() && self.closed && !self.has_line() => Turn::Ends,
            Ok(()) => Turn::Stays,
            Err(_) => Turn::Ends,
        }
    }

    /// Reads up to what one turn needs; true if the client has closed its side.
    fn read(&mut self) -> io::Result<bool> {
        let limit = 2 * (self.max_line + 1);
        let mut chunk = [0; 4096];
        while self.input.len() < limit {
            let room = chunk.len().min(limit - self.input.len());
            match self.stream.read(&mut chunk[..room]) {
                Ok(0) => return Ok(true),
                Ok(length) => self.input.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn write(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => {
                    self.output.drain(..length);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pair() -> (UnixStream, Connection<UnixStream>) {
        let (client, server) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        client.set_nonblocking(true).unwrap();
        (client, Connection::new(server, 16))
    }

    fn echo(line: &[u8], out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(line);
        out.push(b';');
        true
    }

    fn said(client: &mut UnixStream) -> String {
        let mut bytes = [0; 8192];
        let length = client.read(&mut bytes).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn whole_lines_are_answered_and_the_rest_waits() {
        let (mut client, mut connection) = pair();
        client.write_all(b"one\r\ntwo\nthr").unwrap();
        assert_eq!(connection.take_turn(echo), Turn::Stays);
        assert_eq!(said(&mut client), "one;two;");
        client.write_all(b"ee\n").unwrap();
        assert_eq!(connection.take_turn(echo), Turn::Stays);
        assert_eq!(said(&mut client), "three;");
    }

    #[test]
    fn a_line_that_does_not_end_is_cut_off() {
        let (mut client, mut connection) = pair();
        client.write_all(&[b'x'; 17]).unwrap();
        assert_eq!(connection.take_turn(echo), Turn::Ends);
        assert!(said(&mut client).contains("too long"));
    }

    #[test]
    fn a_line_that_ends_too_late_is_cut_off_as_well() {
        let (mut client, mut connection) = pair();
        client.write_all(b"short\n").unwrap();
        client.write_all(&[b'x'; 20]).unwrap();
        client.write_all(b"\n").unwrap();
        assert_eq!(connection.take_turn(echo), Turn::Ends);
        let text = said(&mut client);
        assert!(text.starts_with("short;") && text.contains("too long"), "{text}");
    }

    #[test]
    fn a_flood_of_lines_is_taken_in_turns() {
        let (mut client, mut connection) = pair();
        client.write_all(&b"a\n".repeat(100)).unwrap();
        assert_eq!(connection.take_turn(echo), Turn::Stays);
        assert_eq!(said(&mut client).len(), 2 * LINES_PER_TURN);
        assert!(connection.input.len() <= 2 * 17);
    }

    #[test]
    fn a_client_that_does_not_read_is_cut_off() {
        let (mut client, mut connection) = pair();
        let answer = |_: &[u8], out: &mut Vec<u8>| {
            out.resize(out.len() + MAX_OUTPUT, 0);
            true
        };
        client.write_all(b"a\n".repeat(8).as_slice()).unwrap();
        assert_eq!(connection.take_turn(answer), Turn::Ends);
    }

    /// A client that is slow to read gets all of its answers, though it has said its last word, or a wrong
    /// one; meanwhile only room for them is waited for.
    #[test]
    fn answers_wait_for_a_slow_reader_and_nothing_else_is_waited_for() {
        for last in [&b""[..], &[b'x'; 40], b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\na\n"] {
            let (mut client, mut connection) = pair();
            let answer = |_: &[u8], out: &mut Vec<u8>| {
                out.resize(out.len() + MAX_OUTPUT / 4, b'.');
                true
            };
            // More than the socket takes.
            let mut waits = 0;
            for _ in 0..4 {
                client.write_all(b"a\n").unwrap();
                assert_eq!(connection.take_turn(answer), Turn::Stays);
                waits += 1;
                if connection.wants_to_write() {
                    break;
                }
            }
            assert!(connection.wants_to_write(), "{waits} answers");
            client.write_all(last).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(connection.take_turn(answer), Turn::Stays);
            assert!(!connection.wants_to_read() && !connection.has_line(), "{last:?}");
            let mut got = 0;
            while got < waits * MAX_OUTPUT / 4 {
                got += said(&mut client).len();
                let turn = connection.take_turn(answer);
                assert!(turn == Turn::Stays || !connection.wants_to_write(), "{got} bytes");
            }
        }
    }

    #[test]
    fn a_client_that_hangs_up_gets_its_answers_first() {
        let (mut client, mut connection) = pair();
        client.write_all(b"last\n").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(connection.take_turn(echo), Turn::Ends);
        assert_eq!(said(&mut client), "last;");
    }
}
