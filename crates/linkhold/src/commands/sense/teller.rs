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
/// The agent takes no greater age.
const LONGEST_AGO: Duration = Duration::from_secs(86_400);
/// What nobody answered is told again after this time: the agent may be starting anew.
const RETRY: Duration = Duration::from_millis(200);

/// What there is to tell again.
#[derive(Clone, Copy, Debug)]
enum Open {
    /// No freeze is under way, and every thaw was taken note of.
    Nothing,
    /// A freeze is under way.
    Freeze(Freeze),
    /// Nobody answered the last thaw.
    Thaw {
        /// When the primary user was found to be gone.
        detected: Instant,
        /// When to tell it again.
        due: Instant,
    },
}

/// A freeze under way.
#[derive(Clone, Copy, Debug)]
struct Freeze {
    /// When the primary user was detected.
    detected: Instant,
    /// Whether anybody has taken note.
    heard: bool,
    /// When to tell it again.
    due: Instant,
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

    /// The primary user was detected at `detected`.
    pub fn freeze(&mut self, detected: Instant) -> Result<(), ClientError> {
        self.send_freeze(Freeze { detected, heard: false, due: detected })
    }

    /// Tells what is open again if it is time to.
    pub fn tell_again(&mut self) -> Result<(), ClientError> {
        let now = Instant::now();
        match self.open {
            Open::Freeze(freeze) if now >= freeze.due => self.send_freeze(freeze),
            Open::Thaw { detected, due } if now >= due => self.send_thaw(detected).map(drop),
            Open::Nothing | Open::Freeze(_) | Open::Thaw { .. } => Ok(()),
        }
    }

    /// Ends an open freeze, whose end was detected at `detected`; returns whether there was one and its end
    /// was taken note of.
    pub fn thaw(&mut self, detected: Instant) -> Result<bool, ClientError> {
        match self.open {
            Open::Nothing => Ok(false),
            Open::Freeze(_) => self.send_thaw(detected),
            Open::Thaw { detected, .. } => self.send_thaw(detected),
        }
    }

    /// Counts the freeze when it is first taken note of. One that is told again for it to last is not news:
    /// only until then its age is that of the detection.
    fn send_freeze(&mut self, freeze: Freeze) -> Result<(), ClientError> {
        let ago = if freeze.heard { Duration::ZERO } else { freeze.detected.elapsed() };
        // One that the agent hears so late begins now for it, or its longest silence would be over already.
        let from_now = (ago > AGAIN).then_some(0.0);
        let told = self.send(freeze_event(), ago.min(LONGEST_AGO), from_now)?;
        self.told += u64::from(told && !freeze.heard);
        let due = Instant::now() + if told { AGAIN } else { RETRY };
        self.open = Open::Freeze(Freeze { heard: freeze.heard || told, due, ..freeze });
        Ok(())
    }

    fn send_thaw(&mut self, detected: Instant) -> Result<bool, ClientError> {
        let thaw = Event::Thaw { scope: Target::Network, cause: cause() };
        let told = self.send(thaw, detected.elapsed().min(LONGEST_AGO), None)?;
        self.open = if told { Open::Nothing } else { Open::Thaw { detected, due: Instant::now() + RETRY } };
        self.told += u64::from(told);
        Ok(told)
    }

    /// Returns whether the message was taken note of. A refusal is an error, as it will be refused again. If
    /// nobody answers, the agent may be starting anew: that is said and counted.
    fn send(&mut self, event: Event, ago: Duration, from: Option<f64>) -> Result<bool, ClientError> {
        let message = Message {
            source: Some(self.source.clone()),
            radio: self.radio.clone(),
            detected_ago_s: Some(ago.as_secs_f64()),
            effective_in_s: from,
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

fn freeze_event() -> Event {
    Event::Freeze { scope: Target::Network, cause: cause(), expected_s: None, for_s: None }
}
