//! `flows.source`: what the application sends.

use linkhold_core::units::{BitRate, Bytes};
use schemars::{Schema, SchemaGenerator, json_schema};

use crate::document::{Node, Value};
use crate::read::{FromNode, Reader, Spot, file_table};
use crate::scalar::Positive;

file_table! {
    /// A paced source.
    PacedSource {
        /// Mean rate of the application.
        required rate: Positive<BitRate>;
        /// Bytes per write. Default: the payload of one full segment or datagram.
        optional chunk: Positive<Bytes>;
    }
}

/// What the application sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SourceValue {
    Bulk,
    Finite(Bytes),
    Paced { rate: BitRate, chunk: Option<Bytes> },
    Media,
    Web,
}

impl FromNode for SourceValue {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::String(text) if text == "bulk" => Some(Self::Bulk),
            Value::String(text) if text == "media" => Some(Self::Media),
            Value::String(text) if text == "web" => Some(Self::Web),
            Value::Table(_) => {
                let paced = PacedSource::from_node(node, spot, reader)?;
                Some(Self::Paced { rate: paced.rate.0, chunk: paced.chunk.map(|chunk| chunk.value.0) })
            }
            Value::String(_) => {
                Positive::<Bytes>::from_node(node, spot, reader).map(|bytes| Self::Finite(bytes.0))
            }
            other => {
                let right = "write \"bulk\", an amount such as \"100kB\", { rate = \"2Mbit/s\" }, \"media\" or \"web\"";
                reader.report(spot, format!("{} is not a source", other.describe()), right);
                None
            }
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let paced = PacedSource::schema(generator);
        json_schema!({ "anyOf": [{ "enum": ["bulk", "media", "web"] }, Bytes::schema(generator), paced] })
    }
}
