//! Look-ahead as the registry knows it: its presets, its settings with their names in files, and how it is
//! built.

use super::{FramesAhead, Lock, LookAhead, LookAheadConfig};
use crate::mechanism::{Mechanism, Place};
use crate::quantity::ValueError;
use crate::settings::{
    Form, Format, Positive, Preset, Registered, Setting, SettingsError, Value, Whole, read_whole, settings,
    words,
};
use crate::time::Duration;
use crate::units::{Bytes, Fraction};

/// RFC 1122 section 4.2.3.2: an ACK is delayed by less than half a second.
const LONGEST_PERIOD: Duration = Duration::from_millis(500);
/// A packet of Ethernet's size. No ACK is longer.
const LONGEST_ACK: Bytes = Bytes(1500);
/// A frame of 2 ms fits this often into 200 ms.
const MOST_FRAMES: u64 = 100;

impl Registered for LookAheadConfig {
    const NAME: &'static str = "look-ahead";
    const SUMMARY: &'static str =
        "Look-ahead random access: asks for the uplink turn of its host's next ACK before the ACK comes.";
    const PLACES: &'static [Place] = &[Place::Stations];
    const ONLY_WATCHES: bool = true;

    const PRESETS: &'static [Preset<Self>] = &[
        Preset {
            name: "recommended",
            doc: "Learns each connection's ACKs and the access delay, and asks less if it is wrong too often.",
            make: Self::default,
        },
        Preset {
            name: "paper",
            doc: "The paper's: the 200 ms timer of the host's TCP alone, asked for 7 frames ahead of the burst.",
            make: Self::paper,
        },
    ];

    const SETTINGS: &'static [Setting<Self>] = settings!(LookAheadConfig {
        /// How the time of the next ACK is found.
        lock: Lock => lock;
        /// The paper's N_look_ahead: how many frames before an ACK its turn is asked for.
        n: FramesAhead => n;
        /// Period of the receiver's free-running timer.
        period: Positive<Duration> => period;
        /// How far from a beat of that timer an ACK is still taken for the timer's.
        tolerance: Positive<Duration> => tolerance;
        /// The paper's K: the timer is known once more than K ACKs in a row were on the beat.
        k: Whole<u32, 1, 100> => k;
        /// Length of a frame of the radio, until the radio tells it.
        frame: Positive<Duration> => frame;
        /// An ACK this soon after a segment is the segment's, and not a timer's.
        at_once: Duration => at_once;
        /// Length of an ACK, from the IP header on, until one has been seen.
        bytes: Positive<Bytes> => bytes;
        /// Share of requests for nothing above which a predictor asks no more until it is right again; 1: it
        /// always asks.
        worst: Fraction => worst;
        /// Most connections known.
        max_flows: Whole<u32, 1, 65_536> => max_flows;
    });

    fn validate(&self) -> Result<(), SettingsError> {
        let wrong = |keys, what: String, right: String| {
            Err(SettingsError { keys, error: ValueError::new(what, right) })
        };
        let Self { period, tolerance, frame, bytes, .. } = *self;
        if period >= LONGEST_PERIOD {
            let what = format!("a TCP that delays ACKs by {period} breaks RFC 1122 (4.2.3.2)");
            return wrong(vec!["period"], what, format!("write less than {LONGEST_PERIOD}"));
        }
        if tolerance * 4 > period {
            let what = format!("with a tolerance of {tolerance} half of all times are on a beat of {period}");
            let most = Duration::from_nanos(period.as_nanos() / 4);
            return wrong(vec!["tolerance", "period"], what, format!("write {most} or less"));
        }
        if frame > period {
            let what = format!("a frame of {frame} is longer than the period of {period}");
            return wrong(vec!["frame", "period"], what, format!("write {period} or less"));
        }
        if let FramesAhead::Fixed(n) = self.n
            && frame * n > period
        {
            let what = format!("n = {n} frames of {frame} are {}, beyond the period of {period}", frame * n);
            let most = period.as_nanos() / frame.as_nanos().max(1);
            return wrong(vec!["n", "frame", "period"], what, format!("write n = {most} or less"));
        }
        if bytes > LONGEST_ACK {
            let what = format!("an ACK has no {bytes}");
            return wrong(vec!["bytes"], what, format!("write {LONGEST_ACK} or less"));
        }
        Ok(())
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Mechanism>, SettingsError> {
        self.validate()?;
        Ok(Box::new(LookAhead::new(&Self { flow_seed: seed, ..*self })))
    }
}

words!(Lock {
    "printed" => Printed, "The paper's words: an ACK that is not a period after the last starts the count anew.";
    "beats" => Beats, "The paper's intention: ACKs that a timer sent, against the nearest beat.";
    "learned" => Learned, "Beats, and what each connection's ACKs teach: its delay, and a steady stream.";
});

impl Format for FramesAhead {
    type Value = Self;
    const FORM: Form = Form::WholeOr {
        least: 1,
        most: MOST_FRAMES,
        word: ("measured", "As many as the measured access delays make best."),
    };

    fn read(value: &Value<'_>) -> Result<Self, ValueError> {
        match value {
            Value::Text(text) if text == "measured" => Ok(Self::Measured),
            Value::Whole(_) => {
                // The range fits 32 bits.
                read_whole(value, &(1..=MOST_FRAMES)).map(|n| Self::Fixed(u32::try_from(n).unwrap_or(1)))
            }
            Value::Text(_) | Value::Number(_) | Value::Truth(_) | Value::Other(_) => Err(ValueError::new(
                format!("{} is not known here", value.describe()),
                format!("write \"measured\" or a whole number from 1 to {MOST_FRAMES}"),
            )),
        }
    }

    fn write(value: &Self) -> Value<'static> {
        match value {
            Self::Measured => Value::Text("measured".into()),
            Self::Fixed(n) => Value::Whole(i128::from(*n)),
        }
    }
}
