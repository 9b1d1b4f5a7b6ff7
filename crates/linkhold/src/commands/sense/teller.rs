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
/// What nobody answered is told again after this time: the agent may be starting anew.
const RETRY: Duration = Duration::from_millis(200);

/// What there is to tell again.
#[derive(Clone, Copy, Debug)]
enum Open {
    /// No freeze is under way, and every thaw was taken note of.
    Nothing,
    /// A freeze is under way; when to tell it again.
    Freeze(Instant),
    /// Nobody answered the last thaw; when to tell it again.
    Thaw(Instant),
}

/// Speaks to a control socket.
#[derive(Debug)]
pub struct Teller {
    socket: PathBuf,
    source: String,
    radio: Option<String>,
    open: Open,
    /// Whether the last message went unanswered.
    unheard: bool,
    /// Freezes and thaws that were taken note of, the repeated ones not counted.
    pub told: u64,
    /// Messages that nobody answered.
    pub failed: u64,
}

impl Teller {
    /// A teller for `--signal`, if it is given and somebody listens.
    pub fn connect(args: &SenseArgs) -> Result<Option<Self>, ClientError> {
        let Some(socket) = &args.signal else { return Ok(None) };
        UnixStream::connect(socket).map_err(|source| client::no_connection(socket, source))?;
        Ok(Some(Self {
            socket: socket.clone(),
            source: args.source.clone(),
            radio: args.radio.clone(),
            open: Open::Nothing,
            unheard: false,
            told: 0,
            failed: 0,
        }))
    }

    /// The primary user was detected `ago`.
    pub fn freeze(&mut self, ago: Duration) -> Result<(), ClientError> {
        self.told += u64::from(self.send_freeze(ago)?);
        Ok(())
    }

    /// Tells what is open again if it is time to.
    pub fn tell_again(&mut self) -> Result<(), ClientError> {
        match self.open {
            Open::Freeze(due) if Instant::now() >= due => self.send_freeze(Duration::ZERO).map(drop),
            Open::Thaw(due) if Instant::now() >= due => self.send_thaw(Duration::ZERO).map(drop),
            Open::Nothing | Open::Freeze(_) | Open::Thaw(_) => Ok(()),
        }
    }

    /// Ends an open freeze; returns whether there was one and its end was taken note of.
    pub fn thaw(&mut self, ago: Duration) -> Result<bool, ClientError> {
        match self.open {
            Open::Nothing => Ok(false),
            Open::Freeze(_) | Open::Thaw(_) => self.send_thaw(ago),
        }
    }

    fn send_freeze(&mut self, ago: Duration) -> Result<bool, ClientError> {
        let told = self.send(freeze(), ago)?;
        self.open = Open::Freeze(Instant::now() + if told { AGAIN } else { RETRY });
        Ok(told)
    }

    fn send_thaw(&mut self, ago: Duration) -> Result<bool, ClientError> {
        let told = self.send(Event::Thaw { scope: Target::Network, cause: cause() }, ago)?;
        self.open = if told { Open::Nothing } else { Open::Thaw(Instant::now() + RETRY) };
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
            Ok(_) => {
                self.unheard = false;
                Ok(true)
            }
            Err(error @ ClientError::Refused(_)) => {
                self.open = Open::Nothing;
                Err(error)
            }
            Err(
                error @ (ClientError::NoAgent { .. }
                | ClientError::NoRight { .. }
                | ClientError::NoAnswer { .. }),
            ) => {
                self.failed += 1;
                // Once until somebody answers again: it is tried often.
                if !std::mem::replace(&mut self.unheard, true) {
                    tell!("not told: {error}");
                }
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
