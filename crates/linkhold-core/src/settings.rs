//! The settings of a mechanism: keys with their meaning and form, each declared once by [`settings!`] in the
//! mechanism's own folder.
//!
//! Scenario files, the agent's configuration, the JSON Schema and the testbed all read and write settings
//! through these declarations. A value arrives as a [`Value`], so this crate needs no file format.

use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::ops::RangeInclusive;

use serde::{Serialize, Serializer};

use crate::mechanism::{Mechanism, Place};
use crate::quantity::{self, Kind, ValueError};
use crate::text::{did_you_mean, shorten};
use crate::time::Duration;
use crate::units::{BitRate, Bytes, Fraction};

/// A value as a file holds it, before its key says what it means.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// A whole number. One that does not fit is given as the nearest that does.
    Whole(i128),
    /// A number with a fraction.
    Number(f64),
    /// True or false.
    Truth(bool),
    /// What no setting takes, in words: "a table".
    Other(&'static str),
}

impl Value<'_> {
    /// The value in words, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Text(text) => format!("{:?}", shorten(text)),
            Self::Whole(number) => format!("the number {number}"),
            Self::Number(number) => format!("the number {number}"),
            Self::Truth(truth) => truth.to_string(),
            Self::Other(what) => (*what).to_owned(),
        }
    }

    /// The same value, owning its text.
    #[must_use]
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Self::Whole(number) => Value::Whole(number),
            Self::Number(number) => Value::Number(number),
            Self::Truth(truth) => Value::Truth(truth),
            Self::Other(what) => Value::Other(what),
        }
    }
}

impl fmt::Display for Value<'_> {
    /// The value alone: a text without quotes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Truth(truth) => write!(f, "{truth}"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Whole(number) => match i64::try_from(*number) {
                Ok(number) => serializer.serialize_i64(number),
                Err(_) => serializer.serialize_i128(*number),
            },
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Truth(truth) => serializer.serialize_bool(*truth),
            Self::Other(what) => serializer.serialize_str(what),
        }
    }
}

/// How the values of a key are written: what a schema or a help text says of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// A number with its unit.
    Quantity {
        /// Its units.
        kind: &'static Kind,
        /// Zero is refused.
        above_zero: bool,
    },
    /// A number from 0 to 1.
    Fraction {
        /// Zero is refused.
        above_zero: bool,
    },
    /// A ratio in decibels, which may be negative.
    Decibels,
    /// A whole number.
    Whole {
        /// The smallest.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// A whole number, or a word instead of one.
    WholeOr {
        /// The smallest.
        least: u64,
        /// The largest.
        most: u64,
        /// The word, with its meaning.
        word: (&'static str, &'static str),
    },
    /// `true` or `false`.
    Truth,
    /// One of a few words, each with its meaning.
    Word(&'static [(&'static str, &'static str)]),
}

impl Form {
    /// The form without zero.
    #[must_use]
    pub const fn above_zero(self) -> Self {
        match self {
            Self::Quantity { kind, .. } => Self::Quantity { kind, above_zero: true },
            Self::Fraction { .. } => Self::Fraction { above_zero: true },
            Self::Whole { least: 0, most } => Self::Whole { least: 1, most },
            Self::Decibels | Self::Whole { .. } | Self::WholeOr { .. } | Self::Truth | Self::Word(_) => self,
        }
    }
}

/// How one kind of value is written: the only place that reads and writes it.
pub trait Format {
    /// The value's type.
    type Value;
    /// For schema and help.
    const FORM: Form;

    /// Reads a value.
    ///
    /// # Errors
    /// [`ValueError`] with what is wrong and what would be right.
    fn read(value: &Value<'_>) -> Result<Self::Value, ValueError>;

    /// Writes a value so that [`read`](Self::read) gives it back.
    fn write(value: &Self::Value) -> Value<'static>;
}

/// Reads a quantity; a bare number is told about units.
fn read_quantity<T>(
    value: &Value<'_>,
    kind: &Kind,
    parse: impl Fn(&str) -> Result<T, ValueError>,
) -> Result<T, ValueError> {
    let what = match value {
        Value::Text(text) => return parse(text),
        Value::Whole(number) if *number < 0 => format!("{number} is negative"),
        Value::Number(number) if *number < 0.0 => format!("{number} is negative"),
        Value::Whole(number) => format!("{number} has no unit"),
        Value::Number(number) => format!("{number} has no unit"),
        Value::Truth(_) | Value::Other(_) => format!("expected {}, got {}", kind.noun, value.describe()),
    };
    Err(ValueError::new(what, format!("write {} such as {}", kind.noun, kind.example)))
}

macro_rules! quantity_format {
    ($($ty:ty: $value:ty, $kind:expr, $parse:expr, $base:expr;)*) => {$(
        impl Format for $ty {
            type Value = $value;
            const FORM: Form = Form::Quantity { kind: &$kind, above_zero: false };

            fn read(value: &Value<'_>) -> Result<$value, ValueError> {
                read_quantity(value, &$kind, $parse)
            }

            fn write(value: &$value) -> Value<'static> {
                let base: fn(&$value) -> u64 = $base;
                Value::Text($kind.write(base(value)).into())
            }
        }
    )*};
}

/// The format of a number of packets.
#[derive(Debug)]
pub enum Packets {}

/// The format of a distance, mm.
#[derive(Debug)]
pub enum Distance {}
/// The format of a speed, mm/s.
#[derive(Debug)]
pub enum Speed {}
/// The format of a frequency, mHz.
#[derive(Debug)]
pub enum Frequency {}
/// The format of a power, uW.
#[derive(Debug)]
pub enum Power {}

quantity_format! {
    Distance: u64, quantity::DISTANCE, |text| quantity::DISTANCE.parse(text), |millimetres| *millimetres;
    Speed: u64, quantity::SPEED, |text| quantity::SPEED.parse(text), |speed| *speed;
    Frequency: u64, quantity::FREQUENCY, |text| quantity::FREQUENCY.parse(text), |frequency| *frequency;
    Power: u64, quantity::POWER, |text| quantity::POWER.parse(text), |power| *power;
    Duration: Duration, quantity::DURATION, quantity::duration, |time| time.as_nanos();
    BitRate: BitRate, quantity::BIT_RATE, quantity::bit_rate, |rate| rate.0;
    Bytes: Bytes, quantity::BYTES, quantity::bytes, |bytes| bytes.0;
    Packets: u32, quantity::PACKETS, quantity::packets, |count| u64::from(*count);
}

/// The format of a ratio in decibels.
#[derive(Debug)]
pub enum Decibels {}

impl Format for Decibels {
    type Value = f64;
    const FORM: Form = Form::Decibels;

    fn read(value: &Value<'_>) -> Result<f64, ValueError> {
        let what = match value {
            Value::Text(text) => return quantity::decibels(text),
            Value::Whole(number) => format!("{number} has no unit"),
            Value::Number(number) => format!("{number} has no unit"),
            Value::Truth(_) | Value::Other(_) => format!("expected decibels, got {}", value.describe()),
        };
        Err(ValueError::new(what, "write a number of decibels such as \"5dB\" or \"-3dB\""))
    }

    fn write(value: &f64) -> Value<'static> {
        Value::Text(quantity::write_decibels(*value).into())
    }
}

impl Format for Fraction {
    type Value = Self;
    const FORM: Form = Form::Fraction { above_zero: false };

    fn read(value: &Value<'_>) -> Result<Self, ValueError> {
        let number = match value {
            Value::Whole(number) => *number as f64,
            Value::Number(number) => *number,
            Value::Text(_) | Value::Truth(_) | Value::Other(_) => {
                let what = format!("expected a number, got {}", value.describe());
                return Err(ValueError::new(what, "write 0 to 1, as in 0.65"));
            }
        };
        Self::new(number).map_err(|error| ValueError::new(error.to_string(), "write a share such as 0.65"))
    }

    fn write(value: &Self) -> Value<'static> {
        Value::Number(value.get())
    }
}

impl Format for bool {
    type Value = Self;
    const FORM: Form = Form::Truth;

    fn read(value: &Value<'_>) -> Result<Self, ValueError> {
        match value {
            Value::Truth(truth) => Ok(*truth),
            other => Err(ValueError::new(format!("expected true or false, got {}", other.describe()), "")),
        }
    }

    fn write(value: &Self) -> Value<'static> {
        Value::Truth(*value)
    }
}

/// Reads a whole number in `range`.
///
/// # Errors
/// [`ValueError`] for anything else.
pub fn read_whole(value: &Value<'_>, range: &RangeInclusive<u64>) -> Result<u64, ValueError> {
    let right = format!("write a whole number from {} to {}", range.start(), range.end());
    let what = match value {
        Value::Whole(number) => match u64::try_from(*number) {
            Ok(whole) if range.contains(&whole) => return Ok(whole),
            _ if *number < 0 => format!("{number} is negative"),
            _ if *number == i128::MAX => "the number is too large".to_owned(),
            _ => format!("{number} is out of range"),
        },
        other => format!("{} is not a whole number", other.describe()),
    };
    Err(ValueError::new(what, right))
}

/// The format of a whole number from `LEAST` to `MOST`, both of which `T` can hold.
#[derive(Debug)]
pub struct Whole<T, const LEAST: u64, const MOST: u64>(std::marker::PhantomData<T>);

impl<T: TryFrom<u64> + Into<u64> + Copy, const LEAST: u64, const MOST: u64> Format for Whole<T, LEAST, MOST> {
    type Value = T;
    const FORM: Form = Form::Whole { least: LEAST, most: MOST };

    fn read(value: &Value<'_>) -> Result<T, ValueError> {
        let whole = read_whole(value, &(LEAST..=MOST))?;
        T::try_from(whole).map_err(|_| ValueError::new(format!("{whole} is out of range"), ""))
    }

    fn write(value: &T) -> Value<'static> {
        Value::Whole(i128::from((*value).into()))
    }
}

/// A value that may be zero where that makes no sense.
pub trait Zero {
    /// True for zero.
    fn is_zero(&self) -> bool;
}

macro_rules! zero {
    ($($ty:ty => $zero:expr),*) => {$(
        impl Zero for $ty {
            fn is_zero(&self) -> bool {
                let zero: fn(&$ty) -> bool = $zero;
                zero(self)
            }
        }
    )*};
}

zero!(
    Duration => |value| *value == Duration::ZERO,
    BitRate => |value| value.0 == 0,
    Bytes => |value| value.0 == 0,
    Fraction => |value| value.get() == 0.0,
    u8 => |value| *value == 0,
    u16 => |value| *value == 0,
    u32 => |value| *value == 0
);

/// Refuses zero.
///
/// # Errors
/// [`ValueError`] for zero.
pub fn above_zero<T: Zero>(read: T, written: &Value<'_>) -> Result<T, ValueError> {
    if read.is_zero() {
        return Err(ValueError::new(format!("{} is zero", written.describe()), "it must be above zero"));
    }
    Ok(read)
}

/// The format of a value above zero.
#[derive(Debug)]
pub struct Positive<F>(std::marker::PhantomData<F>);

impl<F: Format<Value: Zero>> Format for Positive<F> {
    type Value = F::Value;
    const FORM: Form = F::FORM.above_zero();

    fn read(value: &Value<'_>) -> Result<F::Value, ValueError> {
        above_zero(F::read(value)?, value)
    }

    fn write(value: &F::Value) -> Value<'static> {
        F::write(value)
    }
}

/// What is said of a value that is none of the known words.
#[must_use]
pub fn unknown_word<'a>(value: &Value<'_>, known: impl Iterator<Item = &'a str> + Clone) -> ValueError {
    let near = match value {
        Value::Text(text) => did_you_mean(text, known.clone()),
        Value::Whole(_) | Value::Number(_) | Value::Truth(_) | Value::Other(_) => None,
    };
    let right = match near {
        Some(near) => format!("did you mean {near:?}?"),
        None => {
            let words: Vec<String> = known.map(|word| format!("{word:?}")).collect();
            format!("write one of {}", words.join(", "))
        }
    };
    ValueError::new(format!("{} is not known here", value.describe()), right)
}

/// Says how the variants of an enum are written: `Type { "word" => variant, "what it means"; … }`.
macro_rules! words {
    ($ty:ty { $($word:literal => $variant:ident, $doc:literal;)+ }) => {
        impl $crate::settings::Format for $ty {
            type Value = Self;
            const FORM: $crate::settings::Form = $crate::settings::Form::Word(&[$(($word, $doc)),+]);

            fn read(
                value: &$crate::settings::Value<'_>,
            ) -> Result<Self, $crate::quantity::ValueError> {
                match value {
                    $($crate::settings::Value::Text(text) if text == $word => Ok(Self::$variant),)+
                    other => Err($crate::settings::unknown_word(other, [$($word),+].into_iter())),
                }
            }

            fn write(value: &Self) -> $crate::settings::Value<'static> {
                $crate::settings::Value::Text(match value { $(Self::$variant => $word.into()),+ })
            }
        }
    };
}

/// A key and what may stand there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Its name in files.
    pub name: &'static str,
    /// What it sets, with its default where that is not the preset's.
    pub doc: &'static str,
    /// How its values are written.
    pub form: Form,
}

/// A key of the settings `C`: how a value is read into them and written out of them.
#[derive(Debug)]
pub struct Setting<C> {
    /// The key.
    pub key: Key,
    /// Its value in some settings.
    pub get: fn(&C) -> Value<'static>,
    /// Reads a value into some settings.
    pub set: fn(&mut C, &Value<'_>) -> Result<(), ValueError>,
}

/// Declares the settings of a configuration type, a key a line: `/// meaning`, then
/// `key: Format => config.field;`. A key whose reading does more than fill its field says so:
/// `key: Format => config.field, |config, value| …;`.
///
/// Keys are applied in the order of their declaration, whatever their order in a file.
macro_rules! settings {
    (@set $config:ty, $format:ty, $($field:ident).+, $set:expr) => { $set };
    (@set $config:ty, $format:ty, $($field:ident).+) => { |config, value| config.$($field).+ = value };

    ($config:ty { $($(#[doc = $doc:literal])+ $key:ident: $format:ty => $($field:ident).+ $(, $set:expr)?;)+ }) => {
        &[$($crate::settings::Setting {
            key: $crate::settings::Key {
                name: stringify!($key),
                doc: concat!($($doc),+),
                form: <$format as $crate::settings::Format>::FORM,
            },
            get: |config: &$config| <$format as $crate::settings::Format>::write(&config.$($field).+),
            set: |config: &mut $config, value| {
                let set: fn(&mut $config, <$format as $crate::settings::Format>::Value) =
                    settings!(@set $config, $format, $($field).+ $(, $set)?);
                set(config, <$format as $crate::settings::Format>::read(value)?);
                Ok(())
            },
        }),+]
    };
}

pub(crate) use {settings, words};

/// The settings of a mechanism, with all that the rest of linkhold asks of it.
pub trait Registered: Clone + PartialEq + Debug + Send + Sync + Sized + 'static {
    /// Its name in files and results: lower case, words joined by hyphens.
    const NAME: &'static str;
    /// What it does, in a sentence.
    const SUMMARY: &'static str;
    /// Where it can stand; its natural place first.
    const PLACES: &'static [Place];
    /// At a station, what its host sends is to the mechanism what a base station sends down.
    const TURNED_AT_STATIONS: bool = false;
    /// It only watches: every packet goes on unchanged, and its only actions are
    /// [`RequestUplink`](crate::action::Action::RequestUplink). So it can stand in a station's radio, below a
    /// kernel whose packets and senders it could not command.
    const ONLY_WATCHES: bool = false;
    /// It freezes and thaws the senders of its own host
    /// ([`SenderCommand::Freeze`](crate::action::SenderCommand::Freeze)), which a kernel's can only be by its
    /// congestion control or its windows.
    const FREEZES_SENDERS: bool = false;
    /// The setting, a duration, after which it takes a silence that nobody ended to be over, if it has one. A
    /// driver that ends silences itself keeps its own limit no longer than this.
    const SILENCE_LIMIT: Option<&'static str> = None;
    /// Where settings start from; what is recommended first.
    const PRESETS: &'static [Preset<Self>];
    /// Its settings, in the order in which they are applied.
    const SETTINGS: &'static [Setting<Self>];

    /// Checks what no setting can check alone.
    ///
    /// # Errors
    /// The first [`SettingsError`] found.
    fn validate(&self) -> Result<(), SettingsError>;

    /// Makes the mechanism. `seed` is for the hash of its tables: secret and random on a router, fixed in a
    /// simulation.
    ///
    /// # Errors
    /// What [`validate`](Self::validate) finds.
    fn build(&self, seed: u64) -> Result<Box<dyn Mechanism>, SettingsError>;

    /// What it needs of a router. Default: nothing.
    fn needs(&self) -> RouterNeeds {
        RouterNeeds::default()
    }

    /// What of these settings is valid in `around`, and still probably not meant. Default: nothing.
    fn hint(&self, around: &Surroundings<'_>) -> Option<Hint> {
        let _ = around;
        None
    }
}

/// What a mechanism is to run in, as far as that can make settings pointless.
#[derive(Clone, Copy, Debug)]
pub enum Surroundings<'a> {
    /// A case of a scenario.
    Case {
        /// The case's name.
        name: &'a str,
        /// The names of all its mechanisms.
        mechanisms: &'a [&'static str],
        /// The highest SNR that the radio can tell, dB: infinite if nothing bounds it, `None` if it tells
        /// none.
        highest_snr: Option<f64>,
        /// How often the radio tells its SNR.
        snr_every: Duration,
    },
    /// A host whose own kernel sends.
    Host {
        /// How often its SNR is asked for; `None` if it comes from a file's lines or the control socket.
        snr_every: Option<Duration>,
    },
}

/// What is valid, and still probably not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The key concerned, if one is.
    pub key: Option<&'static str>,
    /// What is pointless.
    pub what: String,
    /// What would be better, or what will happen.
    pub instead: String,
}

/// Settings to start from.
#[derive(Debug)]
pub struct Preset<C> {
    /// Its name in files.
    pub name: &'static str,
    /// What it is for, in a sentence.
    pub doc: &'static str,
    /// Makes the settings.
    pub make: fn() -> C,
}

/// What a mechanism needs of the router it runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterNeeds {
    /// Most packets that it holds at once.
    pub held_packets: u32,
    /// Most that it leaves in the router's transmit queue, as time at the channel's rate; zero: no matter how
    /// much.
    pub transmit_queue: Duration,
    /// Most bytes of copies that the driver keeps for it; zero: it keeps none.
    pub kept_bytes: Bytes,
    /// It does nothing but with reports between it and a mechanism at the other end of the radio, which only
    /// the simulator brings.
    pub reports: bool,
    /// It has something to do with datagrams: UDP is to come past it.
    pub datagrams: bool,
}

impl RouterNeeds {
    /// What two mechanisms on one router need together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let queues = [self.transmit_queue, other.transmit_queue].into_iter().filter(|queue| !queue.is_zero());
        Self {
            held_packets: self.held_packets.saturating_add(other.held_packets),
            transmit_queue: queues.min().unwrap_or(Duration::ZERO),
            kept_bytes: Bytes(self.kept_bytes.0.saturating_add(other.kept_bytes.0)),
            reports: self.reports || other.reports,
            datagrams: self.datagrams || other.datagrams,
        }
    }
}

/// Why settings do not fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// The keys concerned, the one to change first in front.
    pub keys: Vec<&'static str>,
    /// What is wrong, and what would be right.
    pub error: ValueError,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl std::error::Error for SettingsError {}
