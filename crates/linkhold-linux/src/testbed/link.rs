//! The way from the testbed's radio to a daemon: one JSON object a line on its control socket.
//!
//! The engine must never wait for a daemon, so a separate thread writes the events and reads the answers.
//! Events that the daemon does not take in time are counted, not waited for. A daemon far from the radio
//! hears of them late ([`Hearing`]).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkhold_core::link_event::{LinkEvent, LinkEventKind, Scope};
use linkhold_core::packet::StationId;

use super::ports::LinkSink;
use super::topology::{Family, station_address};
use crate::agent::protocol::{Cause, Event, Message, Reply, Target};

/// Events on their way to a daemon; a second's worth of the fastest radio.
const BACKLOG: usize = 4096;
/// How long a daemon may take to open its socket.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long a daemon may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// The family by whose addresses stations are named. The agent's configuration knows both of each.
const FAMILY: Family = Family::V4;

/// Which events of the radio a daemon hears, and how late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hearing {
    /// Only those of the network and of this station; `None`: all.
    pub station: Option<StationId>,
    /// From the radio to the daemon.
    pub delay: linkhold_core::time::Duration,
}

impl Hearing {
    /// As at the base station: every event, at once.
    pub const EVERYTHING: Self = Self { station: None, delay: linkhold_core::time::Duration::ZERO };

    fn hears(self, event: &LinkEvent) -> bool {
        self.station.is_none_or(|station| event.kind.scope().covers(station))
    }
}

/// A sink that tells a daemon. Dropped, it waits until the daemon has answered everything.
pub struct DaemonLink {
    events: Option<SyncSender<(Instant, LinkEvent)>>,
    thread: Option<JoinHandle<()>>,
    faults: Arc<AtomicU64>,
    hearing: Hearing,
}

impl DaemonLink {
    /// Connects to the daemon's socket, waiting for it to appear.
    ///
    /// # Errors
    /// The system's, if there is no daemon after five seconds.
    pub fn connect(socket: &Path, hearing: Hearing) -> std::io::Result<Self> {
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
            .name("daemon-link".to_owned())
            .spawn(move || talk(stream, &receiver, hearing.delay, &counter))?;
        Ok(Self { events: Some(events), thread: Some(thread), faults, hearing })
    }

    /// Events that the daemon did not get or did not take.
    #[must_use]
    pub fn faults(&self) -> Arc<AtomicU64> {
        self.faults.clone()
    }
}

impl Drop for DaemonLink {
    fn drop(&mut self) {
        drop(self.events.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl LinkSink for Vec<DaemonLink> {
    fn link_event(&mut self, event: &LinkEvent) {
        for link in self {
            link.link_event(event);
        }
    }
}

impl LinkSink for DaemonLink {
    fn link_event(&mut self, event: &LinkEvent) {
        if !self.hearing.hears(event) {
            return;
        }
        match self.events.as_ref().map(|events| events.try_send((Instant::now(), *event))) {
            Some(Ok(())) => {}
            None | Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) => {
                self.faults.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn talk(
    stream: UnixStream,
    events: &Receiver<(Instant, LinkEvent)>,
    delay: linkhold_core::time::Duration,
    faults: &AtomicU64,
) {
    let fault = || {
        faults.fetch_add(1, Ordering::Relaxed);
    };
    let Ok(mut writer) = stream.try_clone() else { return fault() };
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    let on_the_way = Duration::from_nanos(delay.as_nanos());
    while let Ok((reported, event)) = events.recv() {
        let Some(message) = message(&event, delay) else { continue };
        std::thread::sleep(on_the_way.saturating_sub(reported.elapsed()));
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

/// An event in the words of the control socket, to be said `delay` after the radio noticed it; times become
/// relative.
fn message(event: &LinkEvent, delay: linkhold_core::time::Duration) -> Option<Message> {
    let address = |station: StationId| station_address(FAMILY, station.0);
    let target = |scope| match scope {
        Scope::Network => Target::Network,
        Scope::Station(station) => Target::Station(address(station)),
    };
    let said_at = event.detected_at + delay;
    let seconds_from_now = |at: linkhold_core::time::Instant| at.since(said_at).as_secs_f64();
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
            next_in_s: seconds_from_now(next),
        },
        LinkEventKind::Snr { station, db } => Event::Snr { station: address(station), db },
        LinkEventKind::Grant { station, at, bytes } => {
            Event::Grant { station: address(station), in_s: seconds_from_now(at), bytes: bytes.0 }
        }
        // A router's kernel does not tell what its driver's queue holds, and neither does the testbed's
        // radio.
        LinkEventKind::TransmitRoom { .. } => return None,
        // The agent numbers stations by itself, and the testbed's never leave.
        LinkEventKind::StationLeft { .. } => return None,
        // What becomes of grants concerns a station's own medium access.
        LinkEventKind::GrantUnused { .. } | LinkEventKind::GrantFrames { .. } => return None,
    };
    let effective_in_s = event.effective_at.map(|at| {
        let ahead = seconds_from_now(at);
        if ahead > 0.0 { ahead } else { -said_at.since(at).as_secs_f64() }
    });
    Some(Message {
        source: Some("testbed".to_owned()),
        radio: None,
        detected_ago_s: (!delay.is_zero()).then_some(delay.as_secs_f64()),
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
        let said = |delay| {
            let text = serde_json::to_string(&message(&event, delay).unwrap()).unwrap();
            crate::agent::protocol::parse_line(text.as_bytes()).unwrap()
        };
        let back = said(Duration::ZERO);
        assert!((back.effective_in_s.unwrap() + 0.01).abs() < 1e-9 && back.detected_ago_s.is_none());
        let Some(Event::Freeze { scope, expected_s, .. }) = back.event else { panic!("{back:?}") };
        assert_eq!(scope, Target::Station("10.66.0.5".parse().unwrap()));
        assert_eq!(expected_s, Some(0.025));
        // Beyond the wire it is older when it is said.
        let late = said(Duration::from_millis(50));
        assert!((late.effective_in_s.unwrap() + 0.06).abs() < 1e-9);
        assert_eq!(late.detected_ago_s, Some(0.05));
    }

    #[test]
    fn a_daemon_beyond_the_wire_hears_no_sooner_than_the_wire_lets_it_know() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("control.sock");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let daemon = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut line, mut heard) = (String::new(), Vec::new());
            while reader.read_line(&mut line).unwrap() > 0 {
                heard.push((
                    std::time::Instant::now(),
                    crate::agent::protocol::parse_line(line.as_bytes()).unwrap(),
                ));
                stream.write_all(b"{\"ok\":true}\n").unwrap();
                line.clear();
            }
            heard
        });
        let delay = Duration::from_millis(30);
        let mut links = vec![DaemonLink::connect(&socket, Hearing { station: None, delay }).unwrap()];
        let faults = links[0].faults();
        let kind = |station| LinkEventKind::Snr { station: StationId(station), db: 7.0 };
        let telling = [0, 1].map(|station| {
            let telling = std::time::Instant::now();
            links.link_event(&LinkEvent::at(Instant::ZERO, kind(station)));
            telling
        });
        drop(links);
        let heard = daemon.join().unwrap();
        assert_eq!((heard.len(), faults.load(Ordering::Relaxed)), (2, 0));
        for ((at, message), telling) in heard.iter().zip(telling) {
            assert!(at.duration_since(telling) >= std::time::Duration::from_millis(30), "{message:?}");
            assert_eq!(message.detected_ago_s, Some(0.03));
        }
    }

    #[test]
    fn a_station_hears_its_own_events_and_the_networks() {
        let at = |station| LinkEvent::at(Instant::ZERO, LinkEventKind::Snr { station, db: 7.0 });
        let network = LinkEvent::at(
            Instant::ZERO,
            LinkEventKind::FreezeEnded {
                scope: Scope::Network,
                cause: linkhold_core::link_event::Cause::Sensing,
            },
        );
        let own = Hearing { station: Some(StationId(1)), ..Hearing::EVERYTHING };
        assert!(own.hears(&at(StationId(1))) && own.hears(&network) && !own.hears(&at(StationId(0))));
        assert!(Hearing::EVERYTHING.hears(&at(StationId(0))));
    }
}
