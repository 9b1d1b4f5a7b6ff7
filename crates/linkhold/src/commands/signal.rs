//! `linkhold signal`: tells the agent one event of the radio, from a shell.

use linkhold_core::time::Duration;
use linkhold_linux::agent::protocol::{Cause, Event, FREEZE_TOO_LONG, Message, Target};
use linkhold_linux::agent::{ClientError, client};

use crate::Failure;
use crate::cli::{SignalArgs, SignalEvent};
use crate::output::print;

/// Runs `linkhold signal`.
pub fn run(args: &SignalArgs) -> Result<(), Failure> {
    check(args).map_err(Failure::BadInput)?;
    let message = Message {
        source: Some(args.source.clone()),
        radio: args.radio.clone(),
        detected_ago_s: args.ago.map(Duration::as_secs_f64),
        effective_in_s: args.effective_in.map(Duration::as_secs_f64),
        event: Some(event(&args.event)),
        query: None,
    };
    let reply = client::send(&args.socket, &message).map_err(|error| refusal(args, error))?;
    if let Some(note) = &reply.note {
        tell!("note: {note}");
    }
    match &reply.radios[..] {
        [] | [_] => Ok(()),
        several => print(&format!("told to {}\n", several.join(" and "))),
    }
}

/// Refuses arguments that contradict each other.
fn check(args: &SignalArgs) -> Result<(), String> {
    if args.effective_in.is_some() && args.ago.is_some() {
        return Err("--in and --ago together: an event is yet to come or has been noticed; give one of them"
            .to_owned());
    }
    let waits = matches!(args.event, SignalEvent::Freeze { .. } | SignalEvent::Thaw { .. });
    if args.effective_in.is_some_and(|ahead| !ahead.is_zero()) && !waits {
        return Err("--in is for `freeze` and `thaw`, which may be announced; everything else takes effect when it is \
                    said: leave --in out, and say it at that time"
            .to_owned());
    }
    match &args.event {
        SignalEvent::Freeze { lasting: Some(Duration::ZERO), .. } => {
            Err("--for 0s is no silence; write the silence's length, or leave --for out and end the silence with `thaw`"
                .to_owned())
        }
        SignalEvent::Sensing { period: Duration::ZERO, .. } => Ok(()),
        SignalEvent::Sensing { duration: None, .. } => {
            Err("--duration is missing: write how long each quiet period lasts, as in --duration 25ms"
                .to_owned())
        }
        SignalEvent::Sensing { period, duration: Some(duration), .. } if duration >= period => Err(format!(
            "a quiet period of {duration} every {period} leaves no time to transmit; make --duration shorter \
             than --period"
        )),
        SignalEvent::Freeze { .. }
        | SignalEvent::Thaw { .. }
        | SignalEvent::Switch { .. }
        | SignalEvent::Snr { .. }
        | SignalEvent::Sensing { .. }
        | SignalEvent::Grant { .. }
        | SignalEvent::Room { .. } => Ok(()),
    }
}

/// The failure that `error` means to these arguments: what the agent says of its socket's keys is said of the
/// command's options.
fn refusal(args: &SignalArgs, error: ClientError) -> Failure {
    if let (ClientError::Refused(told), SignalEvent::Freeze { lasting: Some(lasting), .. }) =
        (&error, &args.event)
        && let Some((_, max)) = told.split_once(FREEZE_TOO_LONG)
    {
        return Failure::BadInput(format!(
            "--for {lasting} is longer than silence.max ({max}) of the agent's configuration; raise it there"
        ));
    }
    failure(error)
}

/// The failure that `error` means: a message that the agent refuses is bad input, an agent that does not
/// answer is not.
pub fn failure(error: ClientError) -> Failure {
    match error {
        ClientError::Refused(_) => Failure::BadInput(error.to_string()),
        ClientError::NoAgent { .. } | ClientError::NoRight { .. } | ClientError::NoAnswer { .. } => {
            Failure::Failed(error.to_string())
        }
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
            duration_s: duration.unwrap_or(Duration::ZERO).as_secs_f64(),
            next_in_s: next_in.as_secs_f64(),
        },
        SignalEvent::Grant { station, bytes, turn_in } => {
            Event::Grant { station: *station, in_s: turn_in.as_secs_f64(), bytes: bytes.0 }
        }
        SignalEvent::Room { packets, bytes } => Event::Room { packets: *packets, bytes: bytes.0 },
    }
}
