//! The values that stand under a key: quantities with units, counts, names, and the few that are a choice
//! between a word and a quantity.

use std::fmt::{self, Debug};
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;

use linkhold_core::quantity::{self, ValueError};
use linkhold_core::settings::{self, Form, Format, Zero};
use linkhold_core::text::shorten;
use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Bytes, Fraction};
use linkhold_radio::ExtendedAddress;
use linkhold_tcp::DelayedAck;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

use crate::document::{Node, Table, Value};
use crate::read::{At, FromNode, Reader, Spot, parsed};

impl Value {
    /// The value as a setting takes it.
    #[must_use]
    pub fn scalar(&self) -> settings::Value<'_> {
        match self {
            Self::String(text) => settings::Value::Text(text.into()),
            Self::Integer(number) => settings::Value::Whole(*number),
            Self::Float(number) => settings::Value::Number(*number),
            Self::Boolean(truth) => settings::Value::Truth(*truth),
            Self::Datetime => settings::Value::Other("a date"),
            Self::Array(_) => settings::Value::Other("an array"),
            Self::Table(_) => settings::Value::Other("a table"),
        }
    }
}

/// Reports what is wrong with a value.
pub(crate) fn checked<T>(read: Result<T, ValueError>, spot: &Spot, reader: &Reader<'_>) -> Option<T> {
    read.map_err(|error| reader.report(spot, error.what, error.right)).ok()
}

/// The JSON Schema of a form.
pub(crate) fn form_schema(form: &Form) -> Schema {
    let schema = match form {
        Form::Quantity { kind, .. } => json_schema!({
            "type": "string", "pattern": kind.pattern(),
            "description": format!("Written as {}, for example {}.", kind.noun, kind.example),
        }),
        Form::Decibels => json_schema!({
            "type": "string", "pattern": quantity::DECIBEL_PATTERN,
            "description": "Written as a number of decibels, for example \"5dB\" or \"-3dB\".",
        }),
        Form::Fraction { .. } => json_schema!({ "type": "number", "minimum": 0, "maximum": 1 }),
        Form::Whole { least, most } => {
            json_schema!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Form::WholeOr { least, most, word: (word, doc) } => json_schema!({ "oneOf": [
            { "type": "integer", "minimum": least, "maximum": most },
            { "const": word, "description": doc },
        ] }),
        Form::Truth => json_schema!({ "type": "boolean" }),
        Form::Word(words) => {
            let words = words.iter().map(|(word, doc)| json!({ "const": word, "description": doc }));
            json_schema!({ "oneOf": words.collect::<Vec<_>>() })
        }
    };
    match form {
        Form::Quantity { above_zero: true, .. } | Form::Fraction { above_zero: true } => {
            crate::read::describe(schema, ABOVE_ZERO, None)
        }
        _ => schema,
    }
}

const ABOVE_ZERO: &str = "Above zero.";

/// Values that `linkhold-core` reads.
macro_rules! by_format {
    ($($ty:ty),*) => {$(
        impl FromNode for $ty {
            fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
                checked(<$ty as Format>::read(&node.value.scalar()), spot, reader)
            }

            fn schema(_: &mut SchemaGenerator) -> Schema {
                form_schema(&<$ty as Format>::FORM)
            }
        }
    )*};
}

by_format!(Duration, BitRate, Bytes, Fraction, bool);

/// A number of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packets(pub u32);

impl FromNode for Packets {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        let value = node.value.scalar();
        let read = settings::Packets::read(&value);
        // The reader of quantities rounds, which is right for what can be divided.
        let read = match &value {
            settings::Value::Text(text) if read.is_ok() && has_fraction(text) => {
                let what = format!("\"{}\" is no whole number of packets", shorten(text));
                Err(ValueError::new(what, "write a whole number such as \"100pkt\""))
            }
            _ => read,
        };
        checked(read, spot, reader).map(Self)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        form_schema(&settings::Packets::FORM)
    }
}

/// True if a digit other than 0 stands behind the point.
fn has_fraction(quantity: &str) -> bool {
    let fraction = quantity.split_once('.').map_or("", |(_, fraction)| fraction);
    fraction.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
}

impl Zero for Packets {
    fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

/// A value above zero.
#[derive(Clone, Copy, Debug)]
pub struct Positive<T>(
    /// The value.
    pub T,
);

impl<T> Deref for Positive<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: FromNode + Zero> FromNode for Positive<T> {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        let value = T::from_node(node, spot, reader)?;
        checked(settings::above_zero(value, &node.value.scalar()), spot, reader).map(Self)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        crate::read::describe(T::schema(generator), ABOVE_ZERO, None)
    }
}

macro_rules! whole {
    ($ty:ty, $range:expr) => {
        impl FromNode for $ty {
            fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
                let whole = settings::read_whole(&node.value.scalar(), &$range);
                checked(whole, spot, reader).and_then(|value| value.try_into().ok())
            }

            fn schema(_: &mut SchemaGenerator) -> Schema {
                form_schema(&Form::Whole { least: *$range.start(), most: *$range.end() })
            }
        }
    };
}

/// Counts and indices. The largest is far above what a run can hold.
pub(crate) const MAX_COUNT: u64 = 100_000;
/// Seeds: JSON readers such as jq take whole numbers below 2^53 exactly, and merge neighbours beyond. The
/// last of the 10,000 repetitions that a command can make still has a seed below that.
pub(crate) const MAX_SEED: u64 = (1 << 53) - 10_000;

whole!(u32, 0..=MAX_COUNT);
whole!(u8, 0..=u64::from(u8::MAX));
whole!(u16, 0..=u64::from(u16::MAX));
whole!(u64, 0..=MAX_SEED);

/// A bare number within a range.
macro_rules! number {
    ($(#[$meta:meta])* $name:ident, $range:expr, $noun:expr, $right:expr) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name(pub f64);

        impl $name {
            const RANGE: std::ops::RangeInclusive<f64> = $range;
        }

        impl FromNode for $name {
            fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
                let number = match &node.value {
                    Value::Integer(number) => Some(*number as f64),
                    Value::Float(number) => Some(*number),
                    _ => None,
                };
                let number = number.filter(|number| Self::RANGE.contains(number));
                if number.is_none() {
                    let what = format!(concat!("{} is no ", $noun), node.value.describe());
                    reader.report(spot, what, $right);
                }
                number.map(Self)
            }

            fn schema(_: &mut SchemaGenerator) -> Schema {
                let (least, most) = (Self::RANGE.start(), Self::RANGE.end());
                json_schema!({ "type": "number", "minimum": least, "maximum": most })
            }
        }
    };
}

number!(
    /// A path-loss exponent: from a corridor that guides waves to a building with many floors.
    Exponent, 1.0..=8.0, "path-loss exponent", "write a number from 1 to 8, such as 3.0"
);
number!(
    /// How much channels differ: the paper's M.
    Differentiation, 0.0..=1.99, "differentiation of channels", "write a number from 0 to below 2, such as 0.2"
);
number!(
    /// The standard deviation of a logarithm.
    Spread, 0.0..=5.0, "standard deviation of a logarithm", "write a number from 0 to 5, such as 1.37"
);
number!(
    /// A parameter of a Pareto law.
    Ratio, 0.01..=1000.0, "parameter of a Pareto law", "write a number from 0.01 to 1000, such as 1.1"
);

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

/// A value that a [`Format`] of `linkhold-core` reads.
pub struct By<F: Format>(
    /// The value.
    pub F::Value,
);

impl<F: Format<Value: Clone>> Clone for By<F> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<F: Format<Value: Debug>> Debug for By<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<F: Format> FromNode for By<F> {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        checked(F::read(&node.value.scalar()), spot, reader).map(Self)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        form_schema(&F::FORM)
    }
}

impl<T: FromNode> FromNode for Vec<At<T>> {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        let Value::Array(items) = &node.value else {
            let what = format!("expected a list, got {}", node.value.describe());
            reader.report(spot, what, "put it in [brackets]");
            return None;
        };
        let items = items.iter().enumerate().map(|(index, item)| {
            let spot = spot.item(index, item.origin);
            T::from_node(item, &spot, reader).map(|value| At { value, spot })
        });
        // Every item is read before the first wrong one counts, so that the problems of all are told.
        let items: Vec<Option<At<T>>> = items.collect();
        items.into_iter().collect()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": T::schema(generator) })
    }
}

impl FromNode for IpAddr {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        parsed(node, spot, reader, |text| {
            let what = || format!("{:?} is no IP address", shorten(text));
            text.parse()
                .map_err(|_| ValueError::new(what(), "write one such as \"192.168.7.20\" or \"fd00:7::20\""))
        })
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "anyOf": [{ "format": "ipv4" }, { "format": "ipv6" }] })
    }
}

impl FromNode for SocketAddr {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        parsed(node, spot, reader, |text| {
            let what = || format!("{:?} is no IP address with a port", shorten(text));
            text.parse().map_err(|_| {
                ValueError::new(what(), "write one such as \"127.0.0.1:9464\" or \"[::1]:9464\"")
            })
        })
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["127.0.0.1:9464", "[::1]:9464"] })
    }
}

/// Reads an extended address of IEEE 802.15.4: eight octets in hexadecimal digits, with colons between them.
fn extended_address(text: &str) -> Option<ExtendedAddress> {
    let mut parts = text.split(':');
    let mut octets = [0; 8];
    for octet in &mut octets {
        // `from_str_radix` would accept a leading sign.
        let is_octet = |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let part = parts.next().filter(is_octet)?;
        *octet = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(ExtendedAddress(octets))
}

impl FromNode for ExtendedAddress {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        let right = "write eight octets such as \"02:00:00:01:00:00:00:01\"";
        parsed(node, spot, reader, |text| match extended_address(text) {
            None => {
                let what = format!("{:?} is no extended address", shorten(text));
                Err(ValueError::new(what, right))
            }
            Some(address) if address.is_of_the_cell() => {
                let what = format!("{address} belongs to a radio of the cell: theirs begin with 02:00:00:00");
                Err(ValueError::new(what, right))
            }
            Some(address) => Ok(address),
        })
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^([0-9A-Fa-f]{2}:){7}[0-9A-Fa-f]{2}$" })
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
        let timer = |text: &str, make: fn(Duration) -> Self| match quantity::duration(text) {
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
            text => {
                if let Some(period) = text.strip_prefix("heartbeat-only ") {
                    timer(period, Self::HeartbeatOnly)
                } else if let Some(period) = text.strip_prefix("heartbeat ") {
                    timer(period, Self::Heartbeat)
                } else {
                    timer(text, Self::Timer)
                }
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": DELAYED_ACK, "examples": ["off", "40ms", "heartbeat 200ms", "heartbeat-only 200ms", "linux"] })
    }
}

const DELAYED_ACK: &str = "write \"off\", a timer such as \"40ms\", \"heartbeat 200ms\" (at every second segment too), \
                           \"heartbeat-only 200ms\" or \"linux\"";

/// How far a server is ahead of real time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ahead {
    Time(Duration),
    Bytes(Bytes),
}

impl FromNode for Ahead {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        let right = "write a time such as \"10s\", or an amount of the content such as \"1MB\"";
        let Value::String(text) = &node.value else {
            reader.report(spot, format!("{} has no unit", node.value.describe()), right);
            return None;
        };
        if let Ok(time) = quantity::duration(text) {
            return Some(Self::Time(time));
        }
        match quantity::bytes(text) {
            Ok(bytes) => Some(Self::Bytes(bytes)),
            Err(_) => {
                reader.report(spot, format!("{:?} is no time and no amount", shorten(text)), right);
                None
            }
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [Duration::schema(generator), Bytes::schema(generator)] })
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
        json_schema!({ "anyOf": [{ "const": "all" }, one, { "type": "array", "items": one, "minItems": 1, "uniqueItems": true }] })
    }
}

/// An end of a mesh's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeOrDrawn {
    Node(u32),
    Drawn,
}

impl FromNode for NodeOrDrawn {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::String(text) if text == "drawn" => Some(Self::Drawn),
            Value::Integer(_) => u32::from_node(node, spot, reader).map(Self::Node),
            other => {
                let right = "write an index from 0, or \"drawn\"";
                reader.report(spot, format!("{} is not a node", other.describe()), right);
                None
            }
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let one = u32::schema(generator);
        json_schema!({ "anyOf": [{ "const": "drawn" }, one] })
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
            Some(0.0) => reader.report(
                spot,
                format!("{:?} is never", shorten(text)),
                "write a rate above 0, or \"off\" where the key knows it",
            ),
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
