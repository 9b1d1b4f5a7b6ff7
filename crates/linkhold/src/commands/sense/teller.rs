//! Tells the agent, or a host, of freezes and thaws while samples are sensed, and thaws whatever is open at
//! the end.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use linkhold_core::link_event;
use linkhold_linux::agent::protocol::{Cause, Event, Message, Target};
use linkhold_linux::agent::{ClientError, client};

use super::SenseArgs;

/// A freeze under way is told again so often, so that it outlives the agent's `silence.max` and a restart of
/// the agent. If this program is killed, `silence.max` ends it.
const AGAIN: Duration = Duration::from_secs(1);

/// Speaks to a control socket.
#[derive(Debug)]
pub struct Teller {
    socket: PathBuf,
    source: String,
    radio: Option<String>,
    /// When the open freeze was told last; `None` if there is none.
    frozen: Option<Instant>,
    /// Freezes and thaws that were taken note of, the repeated ones not counted.
    pub told: u64,
    /// Messages that nobody answered.
    pub failed: u64,
}

impl Teller {
    /// A teller for `--signal`, if it is given and somebody listens.
    pub fn connect(args: &SenseArgs) -> Result<Option<Self>, ClientError> {
        let Some(socket) = &args.signal else { return Ok(None) };
        UnixStream::connect(socket)
            .map_err(|source| ClientError::NoAgent { path: socket.clone(), source })?;
        Ok(Some(Self {
            socket: socket.clone(),
            source: args.source.clone(),
            radio: args.radio.clone(),
            frozen: None,
            told: 0,
            failed: 0,
        }))
    }

    /// The primary user was detected `ago`.
    pub fn freeze(&mut self, ago: Duration) -> Result<(), ClientError> {
        self.frozen = Some(Instant::now());
        self.told += u64::from(self.send(freeze(), ago)?);
        Ok(())
    }

    /// Tells an open freeze again if it is time to.
    pub fn keep_frozen(&mut self) -> Result<(), ClientError> {
        match self.frozen {
            Some(told) if told.elapsed() >= AGAIN => {
                self.frozen = Some(Instant::now());
                self.send(freeze(), Duration::ZERO).map(drop)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Ends an open freeze; returns whether there was one and its end was taken note of.
    pub fn thaw(&mut self, ago: Duration) -> Result<bool, ClientError> {
        if self.frozen.take().is_none() {
            return Ok(false);
        }
        let told = self.send(Event::Thaw { scope: Target::Network, cause: cause() }, ago)?;
        self.told += u64::from(told);
        Ok(told)
    }

    /// Returns whether the message was taken note of. A refusal is an error, as it will be refused again. If
    /// nobody answers, the agent may be starting anew: that is said and counted.
    fn send(&mut self, event: Event, ago: Duration) -> Result<bool, ClientError> {
        let message = Message {
            source: Some(self.source.clone()),
            radio: self.radio.clone(),
            detected_ago_s: Some(ago.as_secs_f64()),
            effective_in_s: None,
            event: Some(event),
            query: None,
        };
        match client::send(&self.socket, &message) {
            Ok(_) => Ok(true),
            Err(error @ ClientError::Refused(_)) => {
                self.frozen = None;
                Err(error)
            }
            Err(error @ (ClientError::NoAgent { .. } | ClientError::NoAnswer { .. })) => {
                self.failed += 1;
                eprintln!("not told: {error}");
                Ok(false)
            }
        }
    }
}

fn cause() -> Cause {
    Cause(link_event::Cause::PrimaryUser)
}

fn freeze() -> Event {
    Event::Freeze { scope: Target::Network, cause: cause(), expected_s: None, for_s: None }
}
