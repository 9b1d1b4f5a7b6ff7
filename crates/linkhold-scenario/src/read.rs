//! From an untyped document to the tables of the file format: one macro declares a table's keys, defaults and
//! documentation, and both the reader and the JSON Schema follow from it.
//!
//! Reading goes on after a problem, so that one check of a file tells everything that is wrong with it.

use std::cell::RefCell;
use std::ops::Deref;

use schemars::{Schema, SchemaGenerator};

use crate::document::{Entry, Node, Origin, Sources, Table, Value};
use crate::problem::{Problem, did_you_mean};

/// Where a value stands and under which key.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub origin: Origin,
    pub key: String,
    /// False where the file's value was reported as wrong and a default stands in: nothing that follows from it
    /// is worth a second report.
    pub valid: bool,
}

impl Spot {
    /// True if the user wrote it.
    pub fn is_explicit(&self) -> bool {
        self.origin != Origin::Default
    }

    fn child(&self, key: &str, origin: Origin) -> Self {
        let key = if self.key.is_empty() { key.to_owned() } else { format!("{}.{key}", self.key) };
        Self { origin, key, valid: true }
    }
}

/// A value with its spot.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub value: T,
    pub spot: Spot,
}

impl<T> Deref for At<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// Collects the problems of one reading.
pub(crate) struct Reader<'a> {
    sources: &'a Sources,
    problems: RefCell<Vec<Problem>>,
}

/// What the file can say under a key.
pub(crate) trait FromNode: Sized {
    /// True for tables, which `"none"` takes away.
    const TABLE: bool = false;

    /// Reads a value; `None` after reporting what is wrong.
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self>;

    /// Its JSON Schema.
    fn schema(generator: &mut SchemaGenerator) -> Schema;
}

impl<'a> Reader<'a> {
    pub fn new(sources: &'a Sources) -> Self {
        Self { sources, problems: RefCell::new(Vec::new()) }
    }

    /// Reports a problem.
    pub fn report(&self, spot: &Spot, what: impl Into<String>, right: impl Into<String>) {
        self.problems.borrow_mut().push(self.sources.problem(spot.origin, &spot.key, what, right));
    }

    /// Reports a problem between values, unless one of them has been reported already.
    pub fn report_between(&self, spots: &[&Spot], what: impl Into<String>, right: impl Into<String>) {
        if spots.iter().all(|spot| spot.valid) {
            // Point at what the user wrote, if it is only one of them.
            if let Some(spot) = spots.iter().find(|spot| spot.is_explicit()).or(spots.first()) {
                self.report(spot, what, right);
            }
        }
    }

    /// True if a problem of this key has been reported.
    pub fn has_reported(&self, key: &str) -> bool {
        self.problems.borrow().iter().any(|problem| problem.key == key)
    }

    pub fn add(&self, problems: Vec<Problem>) {
        self.problems.borrow_mut().extend(problems);
    }

    pub fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }

    /// The node as a table whose keys are all known; unknown keys are reported with the nearest known one.
    pub fn table<'n>(&self, node: &'n Node, spot: &Spot, known: &[&'static str]) -> Option<&'n Table> {
        let Value::Table(table) = &node.value else {
            self.report(spot, format!("expected a table, got {}", node.value.describe()), known_keys(known));
            return None;
        };
        for entry in &table.entries {
            if !known.contains(&entry.key.as_str()) {
                let right = match did_you_mean(&entry.key, known.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => known_keys(known),
                };
                let shown = crate::document::shorten(&entry.key);
                self.report(&spot.child(&shown, entry.key_origin), "unknown key", right);
            }
        }
        Some(table)
    }

    fn read<T: FromNode>(&self, entry: &Entry, spot: &Spot) -> Result<Option<At<T>>, ()> {
        let spot = spot.child(&entry.key, entry.node.origin);
        if T::TABLE && matches!(&entry.node.value, Value::String(text) if text == "none") {
            return Ok(None);
        }
        T::from_node(&entry.node, &spot, self).map(|value| Some(At { value, spot })).ok_or(())
    }

    pub fn optional<T: FromNode>(&self, table: &Table, spot: &Spot, key: &'static str) -> Option<At<T>> {
        self.read(table.get(key)?, spot).ok().flatten()
    }

    pub fn required<T: FromNode>(
        &self,
        table: &Table,
        spot: &Spot,
        key: &'static str,
        doc: &str,
    ) -> Option<At<T>> {
        match table.get(key) {
            Some(entry) => self.read(entry, spot).ok().flatten(),
            None => {
                let what = format!("the key `{key}` is missing");
                self.report(spot, what, format!("{key}: {}", first_sentence(doc)));
                None
            }
        }
    }

    pub fn defaulted<T: FromNode>(
        &self,
        table: &Table,
        spot: &Spot,
        key: &'static str,
        default: Value,
    ) -> At<T> {
        let read = table.get(key).map(|entry| self.read(entry, spot));
        if let Some(Ok(Some(at))) = read {
            return at;
        }
        let mut spot = spot.child(key, Origin::Default);
        let node = Node { value: default, origin: Origin::Default };
        let value = T::from_node(&node, &spot, self).expect("a table's own default is valid (tested)");
        spot.valid = read.is_none();
        At { value, spot }
    }

    /// A table that stands there even if the file does not mention it.
    pub fn section<T: FromNode>(&self, table: &Table, spot: &Spot, key: &'static str) -> Option<At<T>> {
        match table.get(key).map(|entry| self.read(entry, spot)) {
            Some(Ok(Some(at))) => Some(at),
            Some(Err(())) => None,
            Some(Ok(None)) | None => {
                let spot = spot.child(key, Origin::Default);
                let node = Node { value: Value::Table(Table::default()), origin: Origin::Default };
                T::from_node(&node, &spot, self).map(|value| At { value, spot })
            }
        }
    }

    pub fn list<T: FromNode>(&self, table: &Table, spot: &Spot, key: &'static str) -> Option<Vec<At<T>>> {
        let Some(entry) = table.get(key) else { return Some(Vec::new()) };
        let spot = spot.child(key, entry.key_origin);
        let Value::Array(items) = &entry.node.value else {
            let what = format!("expected a list, got {}", entry.node.value.describe());
            self.report(&spot, what, format!("write [[{key}]] instead of [{key}]"));
            return None;
        };
        let mut all = Vec::new();
        let mut complete = true;
        for (index, item) in items.iter().enumerate() {
            let key = format!("{}[{index}]", spot.key);
            let spot = Spot { origin: item.origin, key, valid: true };
            match T::from_node(item, &spot, self) {
                Some(value) => all.push(At { value, spot }),
                None => complete = false,
            }
        }
        complete.then_some(all)
    }
}

fn known_keys(known: &[&str]) -> String {
    format!("the keys here are {}", known.join(", "))
}

pub(crate) fn first_sentence(doc: &str) -> &str {
    let doc = doc.trim();
    doc.find(". ").map_or(doc.trim_end_matches('.'), |end| &doc[..end])
}

/// Adds `description` (and `default`) to a key's schema.
pub(crate) fn describe(mut schema: Schema, doc: &str, default: Option<serde_json::Value>) -> Schema {
    let doc = doc.trim();
    let description = match schema.get("description").and_then(|old| old.as_str()) {
        Some(old) => format!("{doc} {old}"),
        None => doc.to_owned(),
    };
    schema.insert("description".to_owned(), description.into());
    if let Some(default) = default {
        schema.insert("default".to_owned(), default);
    }
    schema
}

/// Defaults as written in [`file_table!`].
pub(crate) trait IntoDefault {
    fn node_value(self) -> Value;
    fn json(self) -> serde_json::Value;
}

macro_rules! into_default {
    ($($ty:ty => $variant:expr),*) => {$(
        impl IntoDefault for $ty {
            fn node_value(self) -> Value { ($variant)(self) }
            fn json(self) -> serde_json::Value { self.into() }
        }
    )*};
}

into_default!(
    &str => |text: &str| Value::String(text.to_owned()),
    i32 => |number: i32| Value::Integer(number.into()),
    f64 => Value::Float,
    bool => Value::Boolean
);

/// Declares a table of the file: documentation, keys, and for each key whether it is `required`, `optional`,
/// has a `default`, is a `section` (a table of keys with defaults) or a `list` of tables.
macro_rules! file_table {
    (@type required $ty:ty) => { At<$ty> };
    (@type optional $ty:ty) => { Option<At<$ty>> };
    (@type default $ty:ty) => { At<$ty> };
    (@type section $ty:ty) => { At<$ty> };
    (@type list $ty:ty) => { Vec<At<$ty>> };
    (@read required $reader:ident $table:ident $spot:ident $field:ident $doc:expr;) => {
        $reader.required($table, $spot, stringify!($field), $doc)
    };
    (@read optional $reader:ident $table:ident $spot:ident $field:ident $doc:expr;) => {
        Some($reader.optional($table, $spot, stringify!($field)))
    };
    (@read default $reader:ident $table:ident $spot:ident $field:ident $doc:expr; $default:expr) => {
        Some($reader.defaulted($table, $spot, stringify!($field), crate::read::IntoDefault::node_value($default)))
    };
    (@read section $reader:ident $table:ident $spot:ident $field:ident $doc:expr;) => {
        $reader.section($table, $spot, stringify!($field))
    };
    (@read list $reader:ident $table:ident $spot:ident $field:ident $doc:expr;) => {
        $reader.list($table, $spot, stringify!($field))
    };
    (@schema list $ty:ty, $generator:ident) => {
        schemars::json_schema!({ "type": "array", "items": <$ty>::schema($generator) })
    };
    (@schema optional $ty:ty, $generator:ident) => {
        if <$ty>::TABLE {
            schemars::json_schema!({ "anyOf": [<$ty>::schema($generator), { "const": "none" }] })
        } else {
            <$ty>::schema($generator)
        }
    };
    (@schema $kind:ident $ty:ty, $generator:ident) => { <$ty>::schema($generator) };
    (@required required) => { true };
    (@required $kind:ident) => { false };
    (@default $default:expr) => { Some(crate::read::IntoDefault::json($default)) };
    (@default) => { None };

    ($(#[doc = $table_doc:literal])* $name:ident {
        $($(#[doc = $doc:literal])* $kind:ident $field:ident: $ty:ty $(= $default:expr)?;)*
    }) => {
        $(#[doc = $table_doc])*
        #[derive(Clone, Debug)]
        pub(crate) struct $name {
            $($(#[doc = $doc])* pub $field: file_table!(@type $kind $ty),)*
        }

        impl $name {
            /// The keys, in the order of their declaration.
            pub const KEYS: &[&'static str] = &[$(stringify!($field)),*];
        }

        impl FromNode for $name {
            const TABLE: bool = true;

            fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
                let table = reader.table(node, spot, Self::KEYS)?;
                $(let $field = file_table!(
                    @read $kind reader table spot $field concat!($($doc),*); $($default)?
                );)*
                Some(Self { $($field: $field?,)* })
            }

            fn schema(generator: &mut SchemaGenerator) -> Schema {
                generator.subschema_for::<Self>()
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let mut properties = serde_json::Map::new();
                let mut required: Vec<serde_json::Value> = Vec::new();
                $(
                    let schema = file_table!(@schema $kind $ty, generator);
                    let schema = crate::read::describe(
                        schema, concat!($($doc),*), file_table!(@default $($default)?),
                    );
                    properties.insert(stringify!($field).to_owned(), schema.into());
                    if file_table!(@required $kind) {
                        required.push(stringify!($field).into());
                    }
                )*
                schemars::json_schema!({
                    "type": "object",
                    "description": concat!($($table_doc),*).trim(),
                    "properties": properties,
                    "required": required,
                    "additionalProperties": false,
                })
            }
        }
    };
}

/// Says how the variants of an enum are written in the file.
macro_rules! file_enum {
    ($ty:ty { $($text:literal => $value:expr, $doc:literal;)* }) => {
        impl FromNode for $ty {
            fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
                const KNOWN: &[&str] = &[$($text),*];
                match &node.value {
                    $(Value::String(text) if text == $text => return Some($value),)*
                    other => crate::read::report_unknown_word(other, KNOWN, spot, reader),
                }
                None
            }

            fn schema(_: &mut SchemaGenerator) -> Schema {
                schemars::json_schema!({ "oneOf": [$({ "const": $text, "description": $doc }),*] })
            }
        }
    };
}

pub(crate) fn report_unknown_word(value: &Value, known: &[&str], spot: &Spot, reader: &Reader<'_>) {
    let list = format!(
        "write one of {}",
        known.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ")
    );
    let right = match value {
        Value::String(text) => {
            did_you_mean(text, known.iter().copied()).map_or(list, |near| format!("did you mean {near:?}?"))
        }
        _ => list,
    };
    reader.report(spot, format!("{} is not known here", value.describe()), right);
}

pub(crate) use {file_enum, file_table};
