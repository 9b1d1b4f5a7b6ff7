//! The way from the testbed's radio to the agent: one JSON object a line on its control socket.
//!
//! The engine must never wait for the agent, so a separate thread writes the events and reads the answers.
//! Events that the agent does not take in time are counted, not waited for.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkhold_core::link_event::{LinkEvent, LinkEventKind, Scope};

use super::ports::LinkSink;
use super::topology::{Family, station_address};
use crate::agent::protocol::{Cause, Event, Message, Reply, Target};

/// Events on their way to the agent; a second's worth of the fastest radio.
const BACKLOG: usize = 4096;
/// How long an agent may take to open its socket.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long an agent may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// A sink that tells an agent. Dropped, it waits until the agent has answered everything.
pub struct AgentLink {
    events: Option<SyncSender<LinkEvent>>,
    thread: Option<JoinHandle<()>>,
    faults: Arc<AtomicU64>,
    family: Family,
}

impl AgentLink {
    /// Connects to the agent's socket, waiting for it to appear. Stations are named by their address of
    /// `family`.
    ///
    /// # Errors
    /// The system's, if there is no agent after five seconds.
    pub fn connect(socket: &Path, family: Family) -> std::io::Result<Self> {
        let began = Instant::now();
        let stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(error) if began.elapsed() > CONNECT_LIMIT => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        let (events, receiver) = sync_channel(BACKLOG);
        let faults = Arc::new(AtomicU64::new(0));
        let counter = faults.clone();
        let thread = std::thread::Builder::new()
            .name("agent-link".to_owned())
            .spawn(move || talk(stream, &receiver, family, &counter))?;
        Ok(Self { events: Some(events), thread: Some(thread), faults, family })
    }

    /// Events that the agent did not get or did not take.
    #[must_use]
    pub fn faults(&self) -> Arc<AtomicU64> {
        self.faults.clone()
    }

    /// The family that names stations.
    #[must_use]
    pub const fn family(&self) -> Family {
        self.family
    }
}

impl Drop for AgentLink {
    fn drop(&mut self) {
        drop(self.events.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl LinkSink for AgentLink {
    fn link_event(&mut self, event: &LinkEvent) {
        match self.events.as_ref().map(|events| events.try_send(*event)) {
            Some(Ok(())) => {}
            None | Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) => {
                self.faults.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn talk(stream: UnixStream, events: &Receiver<LinkEvent>, family: Family, faults: &AtomicU64) {
    let fault = || {
        faults.fetch_add(1, Ordering::Relaxed);
    };
    let Ok(mut writer) = stream.try_clone() else { return fault() };
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while let Ok(event) = events.recv() {
        let Some(message) = message(&event, family) else { continue };
        let Ok(mut text) = serde_json::to_string(&message) else { return fault() };
        text.push('\n');
        if writer.write_all(text.as_bytes()).is_err() {
            return fault();
        }
        line.clear();
        match reader.read_line(&mut line).map(|_| serde_json::from_str::<Reply>(&line)) {
            Ok(Ok(reply)) if reply.ok => {}
            Ok(Ok(_) | Err(_)) | Err(_) => fault(),
        }
    }
}

/// An event in the words of the control socket; times become relative.
fn message(event: &LinkEvent, family: Family) -> Option<Message> {
    let target = |scope| match scope {
        Scope::Network => Target::Network,
        Scope::Station(station) => Target::Station(station_address(family, station.0)),
    };
    let seconds_from_detection = |at: linkhold_core::time::Instant| at.since(event.detected_at).as_secs_f64();
    let said = match event.kind {
        LinkEventKind::FreezeStarted { scope, cause, expected } => Event::Freeze {
            scope: target(scope),
            cause: Cause(cause),
            expected_s: expected.map(|length| length.as_secs_f64()),
            for_s: None,
        },
        LinkEventKind::FreezeEnded { scope, cause } => {
            Event::Thaw { scope: target(scope), cause: Cause(cause) }
        }
        LinkEventKind::ChannelSwitched { capacity, efficiency } => {
            Event::Switch { capacity_bps: capacity.as_bps(), efficiency: efficiency.get() }
        }
        LinkEventKind::SensingSchedule { scope, period, duration, next } => Event::Sensing {
            scope: target(scope),
            period_s: period.as_secs_f64(),
            duration_s: duration.as_secs_f64(),
            next_in_s: seconds_from_detection(next),
        },
        LinkEventKind::Snr { station, db } => Event::Snr { station: station_address(family, station.0), db },
        LinkEventKind::Grant { station, at, bytes } => Event::Grant {
            station: station_address(family, station.0),
            in_s: seconds_from_detection(at),
            bytes: bytes.0,
        },
        // A router's kernel does not tell what its driver's queue holds, and neither does the testbed's
        // radio.
        LinkEventKind::TransmitRoom { .. } => return None,
        // The agent numbers stations by itself, and the testbed's never leave.
        LinkEventKind::StationLeft { .. } => return None,
        // What becomes of grants concerns a station's own medium access.
        LinkEventKind::GrantUnused { .. } | LinkEventKind::GrantFrames { .. } => return None,
    };
    let effective_in_s = event.effective_at.map(|at| {
        let ahead = at.since(event.detected_at).as_secs_f64();
        if ahead > 0.0 { ahead } else { -event.detected_at.since(at).as_secs_f64() }
    });
    Some(Message {
        source: Some("testbed".to_owned()),
        radio: None,
        detected_ago_s: None,
        effective_in_s,
        event: Some(said),
        query: None,
    })
}

#[cfg(test)]
mod tests {
    use linkhold_core::packet::StationId;
    use linkhold_core::time::{Duration, Instant};

    use super::*;

    #[test]
    fn events_are_told_in_the_agents_words_with_relative_times() {
        let kind = LinkEventKind::FreezeStarted {
            scope: Scope::Station(StationId(3)),
            cause: linkhold_core::link_event::Cause::Sensing,
            expected: Some(Duration::from_millis(25)),
        };
        let event = LinkEvent {
            detected_at: Instant::from_millis(1500),
            effective_at: Some(Instant::from_millis(1490)),
            kind,
        };
        let text = serde_json::to_string(&message(&event, Family::V4).unwrap()).unwrap();
        let back = crate::agent::protocol::parse_line(text.as_bytes()).unwrap();
        assert!((back.effective_in_s.unwrap() + 0.01).abs() < 1e-9);
        let Some(Event::Freeze { scope, expected_s, .. }) = back.event else { panic!("{text}") };
        assert_eq!(scope, Target::Station("10.66.0.5".parse().unwrap()));
        assert_eq!(expected_s, Some(0.025));
    }
}
