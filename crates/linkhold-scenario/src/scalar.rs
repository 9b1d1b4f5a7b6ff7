//! The values that stand under a key: quantities with units, counts, names, and the few that are a choice between
//! a word and a quantity.

use std::ops::Deref;

use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Bytes, Fraction};
use linkhold_tcp::DelayedAck;
use schemars::{Schema, SchemaGenerator, json_schema};

use crate::document::{Node, Table, Value, shorten};
use crate::read::{FromNode, Reader, Spot};
use crate::units::{self, Kind, QuantityError};

/// Reads a quantity; a bare number gets told about units.
fn quantity<T>(
    node: &Node,
    spot: &Spot,
    reader: &Reader<'_>,
    kind: &Kind,
    parse: impl Fn(&str) -> Result<T, QuantityError>,
) -> Option<T> {
    let right = || format!("write {} such as {}", kind.noun, kind.example);
    match &node.value {
        Value::String(text) => match parse(text) {
            Ok(value) => return Some(value),
            Err(error) => reader.report(spot, error.what, error.right),
        },
        Value::Integer(number) if *number < 0 => {
            reader.report(spot, format!("{number} is negative"), right())
        }
        Value::Float(number) if *number < 0.0 => {
            reader.report(spot, format!("{number} is negative"), right())
        }
        Value::Integer(number) => reader.report(spot, format!("{number} has no unit"), right()),
        Value::Float(number) => reader.report(spot, format!("{number} has no unit"), right()),
        other => reader.report(spot, format!("expected {}, got {}", kind.noun, other.describe()), right()),
    }
    None
}

fn quantity_schema(kind: &Kind) -> Schema {
    json_schema!({
        "type": "string", "pattern": kind.pattern(),
        "description": format!("Written as {}, for example {}.", kind.noun, kind.example),
    })
}

macro_rules! quantity {
    ($ty:ty, $kind:expr, $parse:expr) => {
        impl FromNode for $ty {
            fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
                quantity(node, spot, reader, &$kind, $parse)
            }

            fn schema(_: &mut SchemaGenerator) -> Schema {
                quantity_schema(&$kind)
            }
        }
    };
}

quantity!(Duration, units::DURATION, units::duration);
quantity!(BitRate, units::BIT_RATE, units::bit_rate);
quantity!(Bytes, units::BYTES, units::bytes);
quantity!(Packets, units::PACKETS, |text: &str| units::packets(text).map(Packets));

/// A number of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packets(pub u32);

/// A quantity above zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Positive<T>(pub T);

impl<T> Deref for Positive<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

pub(crate) trait Zero {
    fn is_zero(&self) -> bool;
}

macro_rules! zero {
    ($($ty:ty => $zero:expr),*) => {$(impl Zero for $ty { fn is_zero(&self) -> bool { $zero(self) } })*};
}

zero!(
    Duration => |value: &Duration| *value == Duration::ZERO,
    BitRate => |value: &BitRate| value.0 == 0,
    Bytes => |value: &Bytes| value.0 == 0,
    Packets => |value: &Packets| value.0 == 0,
    Fraction => |value: &Fraction| value.get() == 0.0,
    u8 => |value: &u8| *value == 0,
    u16 => |value: &u16| *value == 0,
    u32 => |value: &u32| *value == 0
);

impl<T: FromNode + Zero> FromNode for Positive<T> {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        let value = T::from_node(node, spot, reader)?;
        if value.is_zero() {
            reader.report(spot, format!("{} is zero", node.value.describe()), "it must be above zero");
            return None;
        }
        Some(Self(value))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        crate::read::describe(T::schema(generator), "Above zero.", None)
    }
}

impl FromNode for Fraction {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        let number = match &node.value {
            Value::Integer(number) => *number as f64,
            Value::Float(number) => *number,
            other => {
                reader.report(
                    spot,
                    format!("expected a number, got {}", other.describe()),
                    "write 0 to 1, as in 0.65",
                );
                return None;
            }
        };
        let fraction = Self::new(number);
        if fraction.is_err() {
            reader.report(spot, format!("{number} is not between 0 and 1"), "write a share such as 0.65");
        }
        fraction.ok()
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": 1 })
    }
}

/// A whole number in a range.
fn whole(node: &Node, spot: &Spot, reader: &Reader<'_>, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
    let right = format!("write a whole number from {} to {}", range.start(), range.end());
    match &node.value {
        Value::Integer(number) => {
            let value = u64::try_from(*number).ok().filter(|value| range.contains(value));
            if value.is_none() {
                let what = match *number {
                    number if number < 0 => format!("{number} is negative"),
                    i128::MAX => "the number is too large".to_owned(),
                    number => format!("{number} is out of range"),
                };
                reader.report(spot, what, right);
            }
            value
        }
        other => {
            reader.report(spot, format!("{} is not a whole number", other.describe()), right);
            None
        }
    }
}

macro_rules! whole {
    ($ty:ty, $range:expr) => {
        impl FromNode for $ty {
            fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
                whole(node, spot, reader, $range).and_then(|value| value.try_into().ok())
            }

            fn schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "integer", "minimum": $range.start(), "maximum": $range.end() })
            }
        }
    };
}

/// Counts and indices. The largest is far above what a run can hold.
pub(crate) const MAX_COUNT: u64 = 100_000;
/// Seeds: whole numbers that JSON readers take exactly (below 2^53).
pub(crate) const MAX_SEED: u64 = (1 << 53) - 1;

whole!(u32, 0..=MAX_COUNT);
whole!(u8, 0..=u64::from(u8::MAX));
whole!(u16, 0..=u64::from(u16::MAX));
whole!(u64, 0..=MAX_SEED);

impl FromNode for bool {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::Boolean(truth) => Some(*truth),
            other => {
                reader.report(spot, format!("expected true or false, got {}", other.describe()), "");
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "boolean" })
    }
}

impl FromNode for String {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::String(text) => Some(text.clone()),
            other => {
                reader.report(
                    spot,
                    format!("expected a text, got {}", other.describe()),
                    "put it in \"quotes\"",
                );
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// The version of the format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FormatVersion;

/// What `schema` must say.
pub const FORMAT: &str = "linkhold.scenario/1";

impl FromNode for FormatVersion {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::String(text) if text == FORMAT => Some(Self),
            other => {
                let what = format!("{} is not a format this linkhold reads", other.describe());
                reader.report(spot, what, format!("write schema = {FORMAT:?}"));
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "const": FORMAT })
    }
}

/// A name that is safe as a folder and in a file name.
#[derive(Clone, Debug)]
pub(crate) struct Name(pub String);

impl FromNode for Name {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        let text = String::from_node(node, spot, reader)?;
        let fits = (1..=64).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c));
        if !fits {
            let what = format!("{:?} cannot be a name", shorten(&text));
            reader.report(spot, what, "use up to 64 letters, digits and - _ . +, a letter or digit first");
        }
        fits.then_some(Self(text))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}$" })
    }
}

/// A table that is laid onto the document as it is.
#[derive(Clone, Debug)]
pub(crate) struct Overrides(pub Table);

impl FromNode for Overrides {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::Table(table) => Some(Self(table.clone())),
            other => {
                let right = "write set = { \"router.limit\" = \"1000pkt\" }";
                reader.report(spot, format!("expected a table, got {}", other.describe()), right);
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

/// A value, or `"off"`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OrOff<T> {
    Off,
    On(T),
}

impl<T: Copy> OrOff<T> {
    pub fn value(&self) -> Option<T> {
        match self {
            Self::Off => None,
            Self::On(value) => Some(*value),
        }
    }
}

impl<T: FromNode> FromNode for OrOff<T> {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::String(text) if text == "off" => Some(Self::Off),
            _ => T::from_node(node, spot, reader).map(Self::On),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": "off" }, T::schema(generator)] })
    }
}

impl FromNode for DelayedAck {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        let Value::String(text) = &node.value else {
            reader.report(spot, format!("{} has no unit", node.value.describe()), DELAYED_ACK);
            return None;
        };
        let timer = |text: &str, make: fn(Duration) -> Self| match units::duration(text) {
            Ok(Duration::ZERO) => {
                reader.report(spot, "the timer is zero", "write \"off\" for an ACK per segment");
                None
            }
            Ok(time) => Some(make(time)),
            Err(error) => {
                reader.report(spot, error.what, DELAYED_ACK);
                None
            }
        };
        match text.as_str() {
            "off" => Some(Self::Off),
            "linux" => Some(Self::Linux),
            text => match text.strip_prefix("heartbeat ") {
                Some(period) => timer(period, Self::Heartbeat),
                None => timer(text, Self::Timer),
            },
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": DELAYED_ACK, "examples": ["off", "40ms", "heartbeat 200ms", "linux"] })
    }
}

const DELAYED_ACK: &str = "write \"off\", a timer such as \"40ms\", \"heartbeat 200ms\" or \"linux\"";

/// What the application sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SourceValue {
    Bulk,
    Finite(Bytes),
    Paced { rate: BitRate, chunk: Option<Bytes> },
}

impl FromNode for SourceValue {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::String(text) if text == "bulk" => Some(Self::Bulk),
            Value::Table(_) => {
                let paced = crate::file::PacedSource::from_node(node, spot, reader)?;
                Some(Self::Paced { rate: paced.rate.0, chunk: paced.chunk.map(|chunk| chunk.value.0) })
            }
            Value::String(_) => {
                Positive::<Bytes>::from_node(node, spot, reader).map(|bytes| Self::Finite(bytes.0))
            }
            other => {
                let right = "write \"bulk\", an amount such as \"100kB\", or { rate = \"2Mbit/s\" }";
                reader.report(spot, format!("{} is not a source", other.describe()), right);
                None
            }
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let paced = crate::file::PacedSource::schema(generator);
        json_schema!({ "anyOf": [{ "const": "bulk" }, quantity_schema(&units::BYTES), paced] })
    }
}

/// Which stations.
#[derive(Clone, Debug)]
pub(crate) enum Stations {
    All,
    Some(Vec<u32>),
}

impl FromNode for Stations {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::String(text) if text == "all" => Some(Self::All),
            Value::Array(items) if !items.is_empty() => {
                let all: Option<Vec<u32>> =
                    items.iter().map(|item| u32::from_node(item, spot, reader)).collect();
                all.map(Self::Some)
            }
            Value::Integer(_) => u32::from_node(node, spot, reader).map(|one| Self::Some(vec![one])),
            other => {
                let right = "write an index from 0, a list of them, or \"all\"";
                reader.report(spot, format!("{} is not a station", other.describe()), right);
                None
            }
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let one = u32::schema(generator);
        json_schema!({ "anyOf": [{ "const": "all" }, one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}

/// How often something happens: `2/s`, `30/min`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frequency {
    pub per_second: f64,
}

impl FromNode for Frequency {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        let right = "write how often, such as \"2/s\" or \"30/min\"";
        let Value::String(text) = &node.value else {
            reader.report(spot, format!("{} has no unit", node.value.describe()), right);
            return None;
        };
        let per_second = text.split_once('/').and_then(|(count, unit)| {
            let count: f64 = count.trim().parse().ok()?;
            match unit.trim() {
                "s" => Some(count),
                "min" => Some(count / 60.0),
                "h" => Some(count / 3600.0),
                _ => None,
            }
        });
        match per_second {
            Some(per_second) if (1e-6..=1e5).contains(&per_second) => return Some(Self { per_second }),
            Some(per_second) if per_second < 0.0 => {
                reader.report(spot, format!("{text:?} is negative"), right)
            }
            Some(_) => reader.report(
                spot,
                format!("{:?} is out of range", shorten(text)),
                "at most 100000/s, above 0",
            ),
            None => reader.report(spot, format!("{:?} is not how often", shorten(text)), right),
        }
        None
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9.]+ ?/ ?(s|min|h)$" })
    }
}
