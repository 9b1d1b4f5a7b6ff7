//! What is said on the control socket: one JSON object a line, one JSON object back for each.
//!
//! `linkhold agent schema` prints [`schema`]. Times are relative, in seconds, so that a radio driver needs no
//! common clock with the agent.

use std::net::IpAddr;

use linkhold_core::link_event::{self, LinkEventKind, Scope};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Fraction};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stations::SHARED;
use crate::json;

/// Longest line, bytes; a client that sends a longer one is cut off.
pub const MAX_LINE: usize = 4096;
/// Longest source name, characters.
pub const MAX_SOURCE: usize = 32;
/// No time in a message may be longer than a day, seconds.
const MAX_SECONDS: f64 = 86_400.0;
/// No radio is heard further above or below its noise than this, dB; what users write has the same limit
/// ([`decibels`](linkhold_core::quantity::decibels)).
pub const MAX_DECIBELS: f32 = 200.0;
/// How the agent's answer to a `freeze` begins that is longer than its configuration allows; the longest
/// silence follows. With several radios the name of one stands before it.
pub const FREEZE_TOO_LONG: &str = "`for_s` is longer than `silence.max` of the configuration, ";

/// One line to the agent: an event of the radio, or a question.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Who says it: letters, digits, `.`, `_` and `-`, at most 32; counted apart in the status. Default:
    /// `socket`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The radio that it concerns: an interface under `radio` of the configuration. Default: the only radio;
    /// of several, the one that knows the station, or, for what concerns no station, every radio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub radio: Option<String>,
    /// How long ago the source noticed it, seconds. Default: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detected_ago_s: Option<f64>,
    /// When it takes effect on the air, seconds from now; negative: it has already. Only freeze and thaw wait
    /// for it; what else is said ahead takes effect at once. Default: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_in_s: Option<f64>,
    /// What happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
    /// A question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<Query>,
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Query {
    /// The agent's status.
    Status,
}

/// What happened on the radio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Event {
    /// The radio falls silent.
    Freeze {
        /// Who is silent.
        #[serde(default)]
        scope: Target,
        /// Why.
        #[serde(default)]
        cause: Cause,
        /// Expected length of the silence, seconds, a hint only: the silence ends with a `thaw`, or at the
        /// configuration's `silence.max`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_s: Option<f64>,
        /// How long it lasts, seconds, above 0 and at most the configuration's `silence.max`: the agent ends
        /// it by itself. A `thaw` may come earlier.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        for_s: Option<f64>,
    },
    /// The silence of this scope and cause is over. If the agent ended it by the clock before, the event does
    /// nothing. If there was none, it calls off the next one that is announced.
    Thaw {
        /// Who may send again.
        #[serde(default)]
        scope: Target,
        /// The cause that ended.
        #[serde(default)]
        cause: Cause,
    },
    /// The cell works on another channel, or its capacity changed.
    Switch {
        /// Raw physical-layer rate, bits per second.
        capacity_bps: u64,
        /// Share of it that the MAC leaves for IP packets.
        #[serde(default = "one")]
        efficiency: f64,
    },
    /// A signal-to-noise sample.
    Snr {
        /// The station heard.
        station: IpAddr,
        /// The ratio, dB, from -200 to 200.
        db: f32,
    },
    /// Quiet periods are announced; period 0 withdraws them.
    Sensing {
        /// Who senses.
        #[serde(default)]
        scope: Target,
        /// From one quiet period's start to the next, seconds.
        period_s: f64,
        /// Length of a quiet period, seconds; less than the period.
        duration_s: f64,
        /// Start of the next one, seconds from now.
        #[serde(default)]
        next_in_s: f64,
    },
    /// An uplink grant.
    Grant {
        /// The station that may send.
        station: IpAddr,
        /// When its turn begins, seconds from now.
        #[serde(default)]
        in_s: f64,
        /// How much it may send.
        bytes: u64,
    },
    /// Room in the radio's transmit queue; told once, it must be told again whenever it grows while packets
    /// are held.
    Room {
        /// Packets that fit.
        packets: u32,
        /// Bytes that fit.
        bytes: u64,
    },
}

fn one() -> f64 {
    1.0
}

/// Whom an event concerns: `"network"`, or a station's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Target {
    /// Every station.
    #[default]
    Network,
    /// The station that has this address.
    Station(IpAddr),
}

impl TryFrom<String> for Target {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        if text == "network" {
            return Ok(Self::Network);
        }
        text.parse()
            .map(Self::Station)
            .map_err(|_| format!("\"{}\" is neither \"network\" nor an IP address", shorten(&text)))
    }
}

impl Target {
    /// The scope that it means where no station has a number: what a mechanism listens to does not depend on
    /// which station it is.
    #[must_use]
    pub const fn of_nobody(self) -> Scope {
        match self {
            Self::Network => Scope::Network,
            Self::Station(_) => Scope::Station(SHARED),
        }
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        match target {
            Target::Network => "network".to_owned(),
            Target::Station(addr) => addr.to_string(),
        }
    }
}

/// Why the radio falls silent: `sensing`, `primary-user`, `channel-switch`, `fade` or `grant`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Cause(pub link_event::Cause);

impl Cause {
    /// Its name on the socket.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            link_event::Cause::Sensing => "sensing",
            link_event::Cause::PrimaryUser => "primary-user",
            link_event::Cause::ChannelSwitch => "channel-switch",
            link_event::Cause::Fade => "fade",
            link_event::Cause::Grant => "grant",
        }
    }
}

impl Default for Cause {
    /// What a silence of unknown cause is most like: it comes unannounced, and nobody knows how long it
    /// lasts.
    fn default() -> Self {
        Self(link_event::Cause::PrimaryUser)
    }
}

impl TryFrom<String> for Cause {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        link_event::Cause::ALL.map(Self).into_iter().find(|cause| cause.name() == text).ok_or_else(|| {
            let names = link_event::Cause::ALL.map(|cause| Self(cause).name());
            format!("\"{}\" is no cause; write one of {}", shorten(&text), names.join(", "))
        })
    }
}

impl From<Cause> for String {
    fn from(cause: Cause) -> Self {
        cause.name().to_owned()
    }
}

/// What the agent answers to a line.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Reply {
    /// True if it was understood and done.
    pub ok: bool,
    /// What is wrong, and what would be right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The radios that an event was told to; none where no mechanism listens to such events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub radios: Vec<String>,
    /// Why an event did nothing, if it did: no mechanism listens to it, or a `thaw` ended no silence. Or that
    /// a `thaw` called off a silence that was announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The answer to `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Box<super::status::Status>>,
}

impl Reply {
    /// The reply to an event that was told to these radios.
    #[must_use]
    pub const fn told(radios: Vec<String>, note: Option<String>) -> Self {
        Self { ok: true, error: None, radios, note, status: None }
    }

    /// The reply to a question for the status.
    #[must_use]
    pub fn status(status: super::status::Status) -> Self {
        Self { ok: true, error: None, radios: Vec::new(), note: None, status: Some(Box::new(status)) }
    }

    /// The reply to a line that was not carried out, with the reason.
    #[must_use]
    pub fn refused(error: impl Into<String>) -> Self {
        Self { ok: false, error: Some(error.into()), radios: Vec::new(), note: None, status: None }
    }
}

impl Event {
    /// The station that it concerns, if it is one.
    #[must_use]
    pub const fn station(&self) -> Option<IpAddr> {
        match self {
            Self::Freeze { scope, .. } | Self::Thaw { scope, .. } | Self::Sensing { scope, .. } => {
                match scope {
                    Target::Network => None,
                    Target::Station(addr) => Some(*addr),
                }
            }
            Self::Snr { station, .. } | Self::Grant { station, .. } => Some(*station),
            Self::Switch { .. } | Self::Room { .. } => None,
        }
    }

    /// The event in the core's terms: of whom `scope` means, at `now`.
    #[must_use]
    pub fn kind(&self, scope: Scope, now: Instant) -> LinkEventKind {
        let seconds = Duration::from_secs_f64;
        let station = match scope {
            Scope::Station(station) => station,
            Scope::Network => SHARED,
        };
        match *self {
            Self::Freeze { scope: _, cause, expected_s, for_s } => {
                let expected = for_s.or(expected_s).map(seconds);
                LinkEventKind::FreezeStarted { scope, cause: cause.0, expected }
            }
            Self::Thaw { scope: _, cause } => LinkEventKind::FreezeEnded { scope, cause: cause.0 },
            Self::Switch { capacity_bps, efficiency } => LinkEventKind::ChannelSwitched {
                capacity: BitRate(capacity_bps),
                efficiency: Fraction::clamped(efficiency),
            },
            Self::Snr { station: _, db } => LinkEventKind::Snr { station, db },
            Self::Sensing { scope: _, period_s, duration_s, next_in_s } => LinkEventKind::SensingSchedule {
                scope,
                period: seconds(period_s),
                duration: seconds(duration_s),
                next: now + seconds(next_in_s),
            },
            Self::Grant { station: _, in_s, bytes } => {
                LinkEventKind::Grant { station, at: now + seconds(in_s), bytes: Bytes(bytes) }
            }
            Self::Room { packets, bytes } => LinkEventKind::TransmitRoom { packets, bytes: Bytes(bytes) },
        }
    }

    /// What it is, in words that follow "does not listen to".
    #[must_use]
    pub fn describe(&self) -> String {
        let silence = |scope: &Target, cause: &Cause| {
            let whose = match scope {
                Target::Network => "",
                Target::Station(_) => " of one station",
            };
            format!("silences of cause {}{whose}", cause.name())
        };
        match self {
            Self::Freeze { scope, cause, expected_s, for_s } => {
                let lasting = for_s.or(*expected_s).map(Duration::from_secs_f64);
                let length = lasting.map(|lasting| format!(" that last {lasting}")).unwrap_or_default();
                silence(scope, cause) + &length
            }
            Self::Thaw { scope, cause } => silence(scope, cause),
            Self::Switch { .. } => "the radio's rate".to_owned(),
            Self::Snr { .. } => "signal-to-noise samples".to_owned(),
            Self::Sensing { .. } => "announced sensing".to_owned(),
            Self::Grant { .. } => "uplink grants".to_owned(),
            Self::Room { .. } => "room in the transmit queue".to_owned(),
        }
    }
}

/// A client's text, fit for our messages: short, and without control characters.
pub(super) fn shorten(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    short.escape_debug().to_string()
}

/// Reads one line (without its end).
///
/// # Errors
/// What is wrong, in words for the client.
pub fn parse_line(line: &[u8]) -> Result<Message, String> {
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err(
            "not a message of linkhold: write one JSON object a line, as `linkhold agent schema` says"
                .to_owned(),
        );
    }
    let message: Message = json::read(line).map_err(|error| error.to_string())?;
    match (&message.event, &message.query) {
        (None, None) => return Err("neither `event` nor `query`".to_owned()),
        (Some(_), Some(_)) => return Err("`event` and `query` in one line".to_owned()),
        (Some(_), None) | (None, Some(_)) => {}
    }
    if let Some(source) = &message.source {
        let fine = (1..=MAX_SOURCE).contains(&source.len())
            && source.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if !fine {
            return Err(format!("`source` must be 1 to {MAX_SOURCE} letters, digits, '.', '_' or '-'"));
        }
    }
    check_times(&message)?;
    Ok(message)
}

fn check_times(message: &Message) -> Result<(), String> {
    let mut non_negative: Vec<(&str, Option<f64>)> = vec![("detected_ago_s", message.detected_ago_s)];
    match &message.event {
        Some(Event::Freeze { for_s: Some(0.0), .. }) => {
            return Err(
                "`for_s` is 0, which is no silence; leave `for_s` out where a `thaw` ends the silence"
                    .to_owned(),
            );
        }
        Some(Event::Freeze { expected_s, for_s, .. }) => {
            non_negative.extend([("expected_s", *expected_s), ("for_s", *for_s)]);
        }
        Some(Event::Sensing { period_s, duration_s, next_in_s, .. }) => {
            if *period_s > 0.0 && *duration_s >= *period_s {
                return Err(format!(
                    "a quiet period of {duration_s} s every {period_s} s leaves no time to transmit; make \
                     `duration_s` shorter than `period_s`"
                ));
            }
            non_negative.extend([
                ("period_s", Some(*period_s)),
                ("duration_s", Some(*duration_s)),
                ("next_in_s", Some(*next_in_s)),
            ]);
        }
        Some(Event::Grant { in_s, .. }) => non_negative.push(("in_s", Some(*in_s))),
        Some(Event::Switch { capacity_bps, efficiency }) => {
            if *capacity_bps == 0 || !(*efficiency > 0.0 && *efficiency <= 1.0) {
                return Err("`capacity_bps` must be above 0, `efficiency` above 0 and at most 1".to_owned());
            }
        }
        Some(Event::Snr { db, .. }) => {
            if !(-MAX_DECIBELS..=MAX_DECIBELS).contains(db) {
                return Err(format!("`db` must be between -{MAX_DECIBELS} and {MAX_DECIBELS}"));
            }
        }
        Some(Event::Thaw { .. } | Event::Room { .. }) | None => {}
    }
    for (name, seconds) in non_negative {
        if seconds.is_some_and(|seconds| !(0.0..=MAX_SECONDS).contains(&seconds)) {
            return Err(format!("`{name}` must be between 0 and {MAX_SECONDS} seconds"));
        }
    }
    if message.effective_in_s.is_some_and(|seconds| !(-MAX_SECONDS..=MAX_SECONDS).contains(&seconds)) {
        return Err(format!("`effective_in_s` must be between -{MAX_SECONDS} and {MAX_SECONDS} seconds"));
    }
    Ok(())
}

/// The JSON Schema of a line to the agent and of its answer.
#[must_use]
pub fn schema() -> serde_json::Value {
    serde_json::json!({
        "title": "linkhold.agent/1",
        "description": "One JSON object a line on the agent's Unix socket; each is answered by one line.",
        "request": schemars::schema_for!(Message),
        "reply": schemars::schema_for!(Reply),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_read_as_documented() {
        let message =
            parse_line(br#"{"event":{"freeze":{"for_s":0.5,"scope":"10.0.0.5"}},"source":"hostapd"}"#);
        let message = message.unwrap();
        let expected = Event::Freeze {
            scope: Target::Station([10, 0, 0, 5].into()),
            cause: Cause(link_event::Cause::PrimaryUser),
            expected_s: None,
            for_s: Some(0.5),
        };
        assert_eq!(message.event, Some(expected));
        assert!(parse_line(br#"{"query":"status"}"#).is_ok());
        assert!(parse_line(br#"{"event":{"sensing":{"period_s":0,"duration_s":0}}}"#).is_ok());
        assert!(parse_line(br#"{"event":{"snr":{"station":"10.0.0.5","db":-5.5}}}"#).is_ok());
        assert!(
            parse_line(br#"{"event":{"room":{"packets":5,"bytes":7500}},"effective_in_s":-0.5}"#).is_ok()
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, expected) in [
            (&b"{}"[..], "neither `event` nor `query`"),
            (br#"{"event":{"thaw":{}},"query":"status"}"#, "in one line"),
            (br#"{"event":{"freeze":{"for_s":-1}}}"#, "`for_s` must be between"),
            (br#"{"event":{"freeze":{"for_s":0}}}"#, "`for_s` is 0, which is no silence"),
            (
                br#"{"event":{"sensing":{"period_s":1,"duration_s":2}}}"#,
                "a quiet period of 2 s every 1 s leaves no time to transmit; make `duration_s` shorter",
            ),
            (br#"{"event":{"sensing":{"period_s":1,"duration_s":1}}}"#, "leaves no time to transmit"),
            (br#"{"event":{"snr":{"station":"10.0.0.5","db":500}}}"#, "`db` must be between -200 and 200"),
            (
                br#"{"event":{"freeze":{"until":3}}}"#,
                "event.freeze.until: unknown key `until`; there are: scope, cause, expected_s, for_s",
            ),
            (
                br#"{"event":{"freeze":{"for_s":"5ms"}}}"#,
                "event.freeze.for_s: \"5ms\" is no number; write seconds, such as 0.005",
            ),
            (br#"{"event":{"frieze":{}}}"#, "event: unknown name `frieze`; did you mean `freeze`?"),
            (
                br#"{"event":"freeze"}"#,
                "event.freeze: expected an object, got its name alone; write one in braces",
            ),
            (br#"{"event":7}"#, "event: expected an object with one key, the name of what is meant"),
            (br#"{"event":"#, "this is not JSON: EOF while parsing"),
            (
                br#"{"event":{"freeze":{"cause":"boredom"}}}"#,
                "event.freeze.cause: \"boredom\" is no cause; write one of sensing",
            ),
            (br#"{"event":{"thaw":{"scope":"everybody"}}}"#, "neither \"network\" nor an IP address"),
            (br#"{"event":{"switch":{"capacity_bps":0}}}"#, "must be above 0"),
            (br#"{"event":{"thaw":{}},"source":"a b"}"#, "`source` must be"),
            (br#"{"event":{"thaw":{}},"effective_in_s":1e300}"#, "`effective_in_s` must be"),
            (b"\xff\xfe", "not a message"),
            (b"[[[[[[", "not a message"),
        ] {
            let error = parse_line(line).unwrap_err();
            assert!(error.contains(expected), "{}: {error}", String::from_utf8_lossy(line));
        }
    }

    /// `linkhold signal` knows the refusal by these words.
    #[test]
    fn a_freeze_that_is_too_long_is_refused_with_the_words_that_the_command_knows() {
        assert_eq!(FREEZE_TOO_LONG, "`for_s` is longer than `silence.max` of the configuration, ");
        assert!(include_str!("event_loop.rs").contains("{FREEZE_TOO_LONG}"));
    }

    #[test]
    fn the_schema_names_every_event() {
        let text = schema().to_string();
        for event in ["freeze", "thaw", "switch", "snr", "sensing", "grant", "room"] {
            assert!(text.contains(&format!("\"{event}\"")), "{event}");
        }
    }

    proptest! {
        #[test]
        fn no_line_makes_the_reader_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_line(&line);
        }
    }
}
