//! From an untyped document to the tables of a file format: one macro declares a table's keys, defaults and
//! documentation, and both the reader and the JSON Schema follow from it.
//!
//! Scenario files and the agent's configuration are read here ([`read_file`]). Reading goes on after a
//! problem, so that one check of a file tells everything that is wrong with it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Deref;

use linkhold_core::quantity::ValueError;
use linkhold_core::text::{did_you_mean, shorten};
use schemars::{Schema, SchemaGenerator};

pub use crate::document::{Entry, Node, Origin, Table, Value};
pub use crate::{file_enum, file_table};
#[doc(hidden)]
pub use linkhold_core::settings::unknown_word;
#[doc(hidden)]
pub use {schemars, serde_json};

use crate::document::{self, Sources};
use crate::problem::{FileError, Problem};

/// Where a value stands and under which key.
#[derive(Clone, Debug)]
pub struct Spot {
    /// Where it came from.
    pub origin: Origin,
    /// The key in dotted form, for example `radio.channels[1].phy_rate`.
    pub key: String,
    /// False where the file's value was reported as wrong and a default stands in: nothing that follows from
    /// it is worth a second report.
    pub valid: bool,
}

impl Spot {
    /// True if the user wrote it.
    #[must_use]
    pub fn is_explicit(&self) -> bool {
        self.origin != Origin::Default
    }

    /// The whole file.
    #[must_use]
    pub const fn root() -> Self {
        Self { origin: Origin::Default, key: String::new(), valid: true }
    }

    /// A key of the table that stands here.
    #[must_use]
    pub fn child(&self, key: &str, origin: Origin) -> Self {
        let key = if self.key.is_empty() { key.to_owned() } else { format!("{}.{key}", self.key) };
        Self { origin, key, valid: true }
    }

    /// An item of the list that stands here.
    #[must_use]
    pub fn item(&self, index: usize, origin: Origin) -> Self {
        Self { origin, key: format!("{}[{index}]", self.key), valid: true }
    }
}

/// A value with its spot.
#[derive(Clone, Debug)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub spot: Spot,
}

impl<T> Deref for At<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// Lays what a file writes over a default.
pub(crate) fn set<T: Copy>(field: &mut T, written: Option<&At<T>>) {
    if let Some(written) = written {
        *field = written.value;
    }
}

/// Collects the problems of one reading.
pub struct Reader<'a> {
    sources: &'a Sources,
    problems: RefCell<Vec<Problem>>,
    /// The overrides whose value TOML takes for a number, and that are a word all the same.
    bare_words: RefCell<BTreeSet<usize>>,
}

/// A type that is read from what stands under a key.
pub trait FromNode: Sized {
    /// True for tables: the text `"none"` in place of one removes it.
    const TABLE: bool = false;

    /// Reads a value; `None` after reporting what is wrong.
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self>;

    /// Its JSON Schema.
    fn schema(generator: &mut SchemaGenerator) -> Schema;
}

impl<'a> Reader<'a> {
    pub(crate) fn new(sources: &'a Sources) -> Self {
        Self { sources, problems: RefCell::default(), bare_words: RefCell::default() }
    }

    /// Reports a problem.
    pub fn report(&self, spot: &Spot, what: impl Into<String>, right: impl Into<String>) {
        self.problems.borrow_mut().push(self.sources.problem(spot.origin, &spot.key, what, right));
    }

    /// Reports a problem between values, unless one of them has been reported already.
    pub fn report_between(&self, spots: &[&Spot], what: impl Into<String>, right: impl Into<String>) {
        if spots.iter().all(|spot| spot.valid) {
            // Point at a value that the user wrote rather than at a default.
            if let Some(spot) = spots.iter().find(|spot| spot.is_explicit()).or(spots.first()) {
                self.report(spot, what, right);
            }
        }
    }

    /// The message that [`report`](Self::report) would make, for something that is no error.
    #[must_use]
    pub fn remark(&self, spot: &Spot, what: impl Into<String>, right: impl Into<String>) -> String {
        self.sources.problem(spot.origin, &spot.key, what, right).to_string()
    }

    /// Where a spot is, for a message about another one.
    #[must_use]
    pub fn location(&self, spot: &Spot) -> String {
        self.sources.location(spot.origin).to_string()
    }

    /// Problems reported so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.problems.borrow().len()
    }

    /// True if a problem of this key has been reported.
    pub fn has_reported(&self, key: &str) -> bool {
        self.problems.borrow().iter().any(|problem| problem.key == key)
    }

    /// True if a problem has been reported of the table `key` or of something in it.
    pub(crate) fn has_reported_below(&self, key: &str) -> bool {
        let inside = |problem: &Problem| {
            problem.key.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.problems.borrow().iter().any(inside)
    }

    pub(crate) fn add(&self, problems: Vec<Problem>) {
        self.problems.borrow_mut().extend(problems);
    }

    /// The text that stands there. On a command line a text needs no quotes, so that a number there is one of
    /// the `known` words if it is written like it: `radio.mac=802.16`.
    pub fn word<'n>(&self, node: &'n Node, known: &[&'n str]) -> Option<&'n str> {
        if let Value::String(text) = &node.value {
            return Some(text);
        }
        let Origin::Override(index) = node.origin else { return None };
        let written = self.sources.override_value(index)?;
        let word = known.iter().copied().find(|known| *known == written)?;
        self.bare_words.borrow_mut().insert(index);
        Some(word)
    }

    /// The overrides that [`word`](Self::word) took as words though they look like numbers.
    pub(crate) fn bare_words(&self) -> BTreeSet<usize> {
        self.bare_words.borrow().clone()
    }

    pub(crate) fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }

    /// The node as a table whose keys are all known. An unknown key is reported with what `hint` says of it,
    /// or with the nearest known one.
    pub fn table<'n>(
        &self,
        node: &'n Node,
        spot: &Spot,
        known: &[&'static str],
        hint: &dyn Fn(&str) -> Option<String>,
    ) -> Option<&'n Table> {
        let Value::Table(table) = &node.value else {
            self.report(spot, format!("expected a table, got {}", node.value.describe()), known_keys(known));
            return None;
        };
        for entry in &table.entries {
            if !known.contains(&entry.key.as_str()) {
                let near = || {
                    let near = did_you_mean(&entry.key, known.iter().copied())?;
                    Some(format!("did you mean `{near}`?"))
                };
                let right = hint(&entry.key).or_else(near).unwrap_or_else(|| known_keys(known));
                let shown = shorten(&entry.key);
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

    /// A key that may be left out; `None` too after reporting what is wrong with it.
    pub fn optional<T: FromNode>(&self, table: &Table, spot: &Spot, key: &'static str) -> Option<At<T>> {
        self.read(table.get(key)?, spot).ok().flatten()
    }

    /// A key that must be there.
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
                // A key that takes one value only is told with it.
                let only = T::schema(&mut SchemaGenerator::default()).get("const").cloned();
                let right = match only {
                    Some(value) => format!("write {key} = {value}"),
                    None => format!("{key}: {}", first_sentence(doc)),
                };
                self.report(spot, what, right);
                None
            }
        }
    }

    /// A key with a default, which also stands in for a value that was reported.
    ///
    /// # Panics
    /// If the default is wrong: a mistake in the declaration of the table.
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

    /// A table whose keys can all be left out, so that the file may leave the table out.
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

    /// A list of tables, `[[key]]`; empty if it is left out.
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
            let spot = spot.item(index, item.origin);
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

fn first_sentence(doc: &str) -> &str {
    let doc = doc.trim();
    doc.find(". ").map_or(doc.trim_end_matches('.'), |end| &doc[..end])
}

/// Adds `description` (and `default`) to a key's schema.
#[must_use]
pub fn describe(mut schema: Schema, doc: &str, default: Option<serde_json::Value>) -> Schema {
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

/// Reads a text that `parse` understands.
pub fn parsed<T>(
    node: &Node,
    spot: &Spot,
    reader: &Reader<'_>,
    parse: impl FnOnce(&str) -> Result<T, ValueError>,
) -> Option<T> {
    let text = String::from_node(node, spot, reader)?;
    parse(&text).map_err(|error| reader.report(spot, error.what, error.right)).ok()
}

/// Reads a whole file as the table `T`, and goes on to what `check` makes of it. `file` is its name in
/// messages.
///
/// # Errors
/// Everything that is wrong with the file: what reading reported, and what `check` did.
pub fn read_file<T: FromNode, U>(
    text: &str,
    file: &str,
    check: impl FnOnce(T, &Reader<'_>) -> Option<U>,
) -> Result<U, FileError> {
    let sources = Sources::new(file, text, &[]);
    let table = document::parse(&sources).map_err(FileError::new)?;
    let document = Node { value: Value::Table(table), origin: Origin::Default };
    let reader = Reader::new(&sources);
    let read = T::from_node(&document, &Spot::root(), &reader).and_then(|table| check(table, &reader));
    match (read, reader.into_problems()) {
        (Some(read), problems) if problems.is_empty() => Ok(read),
        (_, problems) => Err(FileError::new(problems)),
    }
}

/// Keys of a table that [`file_table!`](crate::file_table) does not declare one by one.
pub trait Extra: Sized {
    /// The keys.
    #[must_use]
    fn keys() -> Vec<&'static str> {
        Vec::new()
    }

    /// What is to be done with an unknown key, if there is more to say than which known one is near.
    #[must_use]
    fn hint(_key: &str) -> Option<String> {
        None
    }

    /// Reads them; `None` after reporting what is wrong.
    fn read(table: &Table, spot: &Spot, reader: &Reader<'_>) -> Option<Self>;

    /// Their JSON Schemas.
    fn properties(_generator: &mut SchemaGenerator) -> Vec<(String, Schema)> {
        Vec::new()
    }
}

/// Defaults as written in [`file_table!`](crate::file_table).
pub trait IntoDefault {
    /// As the file would hold it.
    fn node_value(self) -> Value;
    /// As the schema holds it.
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
/// has a `default`, is a `section` (a table of keys with defaults) or a `list` of tables. `Name + field:
/// Type` adds keys that another type declares ([`Extra`](crate::read::Extra)).
#[macro_export]
macro_rules! file_table {
    (@type required $ty:ty) => { $crate::read::At<$ty> };
    (@type optional $ty:ty) => { Option<$crate::read::At<$ty>> };
    (@type default $ty:ty) => { $crate::read::At<$ty> };
    (@type section $ty:ty) => { $crate::read::At<$ty> };
    (@type list $ty:ty) => { Vec<$crate::read::At<$ty>> };
    (@read required $reader:ident $table:ident $spot:ident $field:ident $doc:expr;) => {
        $reader.required($table, $spot, stringify!($field), $doc)
    };
    (@read optional $reader:ident $table:ident $spot:ident $field:ident $doc:expr;) => {
        Some($reader.optional($table, $spot, stringify!($field)))
    };
    (@read default $reader:ident $table:ident $spot:ident $field:ident $doc:expr; $default:expr) => {
        Some($reader.defaulted($table, $spot, stringify!($field), $crate::read::IntoDefault::node_value($default)))
    };
    (@read section $reader:ident $table:ident $spot:ident $field:ident $doc:expr;) => {
        $reader.section($table, $spot, stringify!($field))
    };
    (@read list $reader:ident $table:ident $spot:ident $field:ident $doc:expr;) => {
        $reader.list($table, $spot, stringify!($field))
    };
    (@schema list $ty:ty, $generator:ident) => {
        $crate::read::schemars::json_schema!({ "type": "array", "items": <$ty as $crate::read::FromNode>::schema($generator) })
    };
    (@schema optional $ty:ty, $generator:ident) => {
        if <$ty as $crate::read::FromNode>::TABLE {
            $crate::read::schemars::json_schema!({ "anyOf": [<$ty as $crate::read::FromNode>::schema($generator), { "const": "none" }] })
        } else {
            <$ty as $crate::read::FromNode>::schema($generator)
        }
    };
    (@schema $kind:ident $ty:ty, $generator:ident) => { <$ty as $crate::read::FromNode>::schema($generator) };
    (@required required) => { true };
    (@required $kind:ident) => { false };
    (@default $default:expr) => { Some($crate::read::IntoDefault::json($default)) };
    (@default) => { None };

    ($(#[doc = $table_doc:literal])* $name:ident $(+ $extra:ident: $extra_ty:ty)? {
        $($(#[doc = $doc:literal])* $kind:ident $field:ident: $ty:ty $(= $default:expr)?;)*
    }) => {
        $(#[doc = $table_doc])*
        #[derive(Clone, Debug)]
        pub(crate) struct $name {
            $($(#[doc = $doc])* pub $field: $crate::file_table!(@type $kind $ty),)*
            $(pub $extra: $extra_ty,)?
        }

        impl $name {
            /// The keys, in the order of their declaration.
            pub const KEYS: &[&'static str] = &[$(stringify!($field)),*];
        }

        impl $crate::read::FromNode for $name {
            const TABLE: bool = true;

            fn from_node(node: &$crate::read::Node,
                spot: &$crate::read::Spot,
                reader: &$crate::read::Reader<'_>,
            ) -> Option<Self> {
                #[allow(unused_mut)]
                let mut known = Self::KEYS.to_vec();
                $(known.extend(<$extra_ty as $crate::read::Extra>::keys());)?
                let hint = |_key: &str| {
                    let hint: Option<String> = None;
                    $(let hint = hint.or_else(|| <$extra_ty as $crate::read::Extra>::hint(_key));)?
                    hint
                };
                let table = reader.table(node, spot, &known, &hint)?;
                $(let $extra = <$extra_ty as $crate::read::Extra>::read(table, spot, reader);)?
                $(let $field = file_table!(
                    @read $kind reader table spot $field concat!($($doc),*); $($default)?
                );)*
                Some(Self { $($field: $field?,)* $($extra: $extra?,)? })
            }

            fn schema(generator: &mut $crate::read::schemars::SchemaGenerator) -> $crate::read::schemars::Schema {
                generator.subschema_for::<Self>()
            }
        }

        impl $crate::read::schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut $crate::read::schemars::SchemaGenerator) -> $crate::read::schemars::Schema {
                let mut properties = $crate::read::serde_json::Map::new();
                let mut required: Vec<$crate::read::serde_json::Value> = Vec::new();
                $(
                    let schema = $crate::file_table!(@schema $kind $ty, generator);
                    let schema = $crate::read::describe(
                        schema, concat!($($doc),*), $crate::file_table!(@default $($default)?),
                    );
                    properties.insert(stringify!($field).to_owned(), schema.into());
                    if $crate::file_table!(@required $kind) {
                        required.push(stringify!($field).into());
                    }
                )*
                $(for (key, schema) in <$extra_ty as $crate::read::Extra>::properties(generator) {
                    properties.insert(key, schema.into());
                })?
                $crate::read::schemars::json_schema!({
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
#[macro_export]
macro_rules! file_enum {
    ($ty:ty { $($text:literal => $value:expr, $doc:literal;)* }) => {
        impl $crate::read::FromNode for $ty {
            fn from_node(node: &$crate::read::Node,
                spot: &$crate::read::Spot,
                reader: &$crate::read::Reader<'_>,
            ) -> Option<Self> {
                const KNOWN: &[&str] = &[$($text),*];
                match reader.word(node, KNOWN) {
                    $(Some($text) => Some($value),)*
                    _ => {
                        let error = $crate::read::unknown_word(&node.value.scalar(), KNOWN.iter().copied());
                        reader.report(spot, error.what, error.right);
                        None
                    }
                }
            }

            fn schema(_: &mut $crate::read::schemars::SchemaGenerator) -> $crate::read::schemars::Schema {
                $crate::read::schemars::json_schema!({ "oneOf": [$({ "const": $text, "description": $doc }),*] })
            }
        }
    };
}
