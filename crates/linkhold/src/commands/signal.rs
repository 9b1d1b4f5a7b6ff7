//! `linkhold signal`: tells the agent one event of the radio, from a shell.

use linkhold_core::time::Duration;
use linkhold_linux::agent::protocol::{Cause, Event, Message, Target};
use linkhold_linux::agent::{ClientError, client};

use crate::Failure;
use crate::cli::{SignalArgs, SignalEvent};
use crate::output::print;

/// Runs `linkhold signal`.
pub fn run(args: &SignalArgs) -> Result<(), Failure> {
    let message = Message {
        source: Some(args.source.clone()),
        radio: args.radio.clone(),
        detected_ago_s: args.ago.map(Duration::as_secs_f64),
        effective_in_s: args.effective_in.map(Duration::as_secs_f64),
        event: Some(event(&args.event)),
        query: None,
    };
    let reply = client::send(&args.socket, &message).map_err(failure)?;
    if let Some(note) = &reply.note {
        eprintln!("note: {note}");
    }
    match &reply.radios[..] {
        [] | [_] => Ok(()),
        several => print(&format!("told to {}\n", several.join(" and "))),
    }
}

/// The failure that `error` means: a message that the agent refuses is bad input, an agent that does not
/// answer is not.
pub fn failure(error: ClientError) -> Failure {
    match error {
        ClientError::Refused(_) => Failure::BadInput(error.to_string()),
        ClientError::NoAgent { .. } | ClientError::NoAnswer { .. } => Failure::Failed(error.to_string()),
    }
}

fn event(event: &SignalEvent) -> Event {
    let scope = |station: Option<std::net::IpAddr>| station.map_or(Target::Network, Target::Station);
    match event {
        SignalEvent::Freeze { lasting, expected, silence } => Event::Freeze {
            scope: scope(silence.station),
            cause: Cause(silence.cause.0),
            expected_s: expected.map(Duration::as_secs_f64),
            for_s: lasting.map(Duration::as_secs_f64),
        },
        SignalEvent::Thaw { silence } => {
            Event::Thaw { scope: scope(silence.station), cause: Cause(silence.cause.0) }
        }
        SignalEvent::Switch { capacity, efficiency } => {
            Event::Switch { capacity_bps: capacity.0, efficiency: efficiency.get() }
        }
        SignalEvent::Snr { station, db } => Event::Snr { station: *station, db: *db },
        SignalEvent::Sensing { period, duration, next_in, station } => Event::Sensing {
            scope: scope(*station),
            period_s: period.as_secs_f64(),
            duration_s: duration.as_secs_f64(),
            next_in_s: next_in.as_secs_f64(),
        },
        SignalEvent::Grant { station, bytes, turn_in } => {
            Event::Grant { station: *station, in_s: turn_in.as_secs_f64(), bytes: bytes.0 }
        }
        SignalEvent::Room { packets, bytes } => Event::Room { packets: *packets, bytes: bytes.0 },
    }
}
