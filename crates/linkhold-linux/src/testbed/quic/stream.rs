//! The applications at the ends of a QUIC flow's stream: one sends the pattern of bytes, the other checks it.

use std::time::Duration;

use linkhold_core::time::Instant;
use quinn_proto::{Connection, Dir, ReadError, StreamId};

use super::super::clock::instant;
use super::super::pattern::{PERIOD, is_pattern, pattern};
use super::flow::Read;

/// Bytes that an application hands over at a time.
const HAND_OVER: usize = 64 * PERIOD as usize;
/// Most bytes read at a time.
const READ: usize = 1 << 16;
/// The byte with which a client asks for data.
const REQUEST: &[u8] = b"?";

/// Which side of the stream an application is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It opens the stream.
    Opens,
    /// It takes the stream that the other opens.
    Takes,
}

/// What an application does.
#[derive(Debug)]
pub enum Role {
    /// Sends.
    Sends(Sending),
    /// Receives.
    Receives(Receiving),
}

/// The sending application.
#[derive(Debug)]
pub struct Sending {
    /// How much there is to send; `None`: as much as QUIC takes.
    pub bytes: Option<u64>,
    /// When it stops, after the start of the run.
    pub stop: Option<Duration>,
    sent: u64,
    finished: bool,
    block: Vec<u8>,
}

impl Sending {
    /// One that has sent nothing.
    #[must_use]
    pub fn new(bytes: Option<u64>, stop: Option<Duration>) -> Self {
        // What is handed over begins anywhere in a period.
        let block = (0..HAND_OVER as u64 + PERIOD).map(pattern).collect();
        Self { bytes, stop, sent: 0, finished: false, block }
    }

    /// One that sends zeros in place of the pattern.
    #[cfg(test)]
    pub fn zeros(bytes: u64) -> Self {
        Self { block: vec![0; HAND_OVER + PERIOD as usize], ..Self::new(Some(bytes), None) }
    }

    /// Hands over as much as QUIC takes at `now` (after the start of the run).
    fn send(&mut self, now: Duration, connection: &mut Connection, id: StreamId) {
        let mut stream = connection.send_stream(id);
        let stopped = self.stop.is_some_and(|stop| now >= stop);
        while !self.finished {
            let left = if stopped { 0 } else { self.bytes.map_or(u64::MAX, |bytes| bytes - self.sent) };
            if left == 0 {
                // Only a stream that the other end has given up cannot be finished.
                let _ = stream.finish();
                self.finished = true;
                return;
            }
            let from = (self.sent % PERIOD) as usize;
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(HAND_OVER);
            let Some(bytes) = self.block.get(from..from + length) else { return };
            match stream.write(bytes) {
                Ok(taken) => self.sent += taken as u64,
                // It is asked again whenever something has arrived, also after an error.
                Err(_) => return,
            }
        }
    }
}

/// The receiving application.
#[derive(Debug)]
pub struct Receiving {
    /// How much there should be; `None`: no matter how much.
    pub bytes: Option<u64>,
    /// What it has read.
    pub reads: Vec<Read>,
    /// When it had read all that there should be.
    pub done: Option<Instant>,
    got: u64,
}

impl Receiving {
    /// One that has read nothing.
    #[must_use]
    pub const fn new(bytes: Option<u64>) -> Self {
        Self { bytes, reads: Vec::new(), done: None, got: 0 }
    }

    /// Reads what there is at `now`; true if that was the last of it.
    fn receive(&mut self, now: Duration, connection: &mut Connection, id: StreamId) -> Result<bool, String> {
        let before = self.got;
        let mut stream = connection.recv_stream(id);
        // A stream that is over is not there any more.
        let Ok(mut chunks) = stream.read(true) else { return Ok(false) };
        let ended = loop {
            match chunks.next(READ) {
                Ok(Some(chunk)) if is_pattern(&chunk.bytes, self.got) => self.got += chunk.bytes.len() as u64,
                Ok(Some(_)) => return Err(format!("wrong bytes after the first {}", self.got)),
                Ok(None) => break true,
                Err(ReadError::Blocked) => break false,
                Err(ReadError::Reset(code)) => return Err(format!("the sender gave up with code {code}")),
            }
        };
        // Windows that open are sent with what else is to be sent.
        let _ = chunks.finalize();
        if self.got > before {
            self.reads.push((instant(now), self.got));
        }
        if ended {
            if let Some(bytes) = self.bytes.filter(|&bytes| bytes != self.got) {
                return Err(format!("the stream ended after {} of {bytes} bytes", self.got));
            }
            self.done = Some(instant(now));
        }
        Ok(ended)
    }
}

/// An application at its stream.
#[derive(Debug)]
pub struct Application {
    /// What it does.
    pub role: Role,
    side: Side,
    id: Option<StreamId>,
}

impl Application {
    /// One that has no stream yet.
    #[must_use]
    pub const fn new(role: Role, side: Side) -> Self {
        Self { role, side, id: None }
    }

    /// Lets it do what it can at `now` (after the start of the run), once the connection is established; true
    /// if it has received all that there is.
    ///
    /// # Errors
    /// What is wrong with what has come, in words.
    pub fn go_on(&mut self, now: Duration, connection: &mut Connection) -> Result<bool, String> {
        let id = match (self.id, self.side) {
            (Some(id), _) => id,
            (None, Side::Opens) => {
                let Some(id) = connection.streams().open(Dir::Bi) else { return Ok(false) };
                if matches!(self.role, Role::Receives(_)) {
                    let mut stream = connection.send_stream(id);
                    // A new stream has room for a byte.
                    let _ = stream.write(REQUEST);
                    let _ = stream.finish();
                }
                id
            }
            (None, Side::Takes) => {
                // That a stream is there is all that a request says.
                let Some(id) = connection.streams().accept(Dir::Bi) else { return Ok(false) };
                id
            }
        };
        self.id = Some(id);
        match &mut self.role {
            Role::Sends(sending) => {
                sending.send(now, connection, id);
                Ok(false)
            }
            Role::Receives(receiving) => receiving.receive(now, connection, id),
        }
    }
}
