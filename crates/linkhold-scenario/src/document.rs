//! A TOML document as a tree in which every key and value knows where it came from, and onto which `--set`
//! and a case's `set` table lay further values before anything is typed.

use std::collections::BTreeSet;
use std::ops::Range;

use linkhold_core::text::shorten;
use toml::de::{DeTable, DeValue};

use crate::problem::{Location, Problem};

/// Where a key or value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Byte offset in the scenario file.
    File(usize),
    /// The n-th `--set`.
    Override(usize),
    /// Nowhere: a default.
    Default,
}

/// A value of the document, and where it came from.
#[derive(Clone, Debug)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it came from.
    pub origin: Origin,
}

/// What can stand behind a key.
#[derive(Clone, Debug)]
pub enum Value {
    /// A text.
    String(String),
    /// A whole number; one that does not fit is the nearest that does.
    Integer(i128),
    /// A number with a fraction.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// A date or time; no key takes one.
    Datetime,
    /// A list.
    Array(Vec<Node>),
    /// A table.
    Table(Table),
}

/// Entries sorted by key, as the parser gives them; looked up from front to back because tables are small.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The entries.
    pub entries: Vec<Entry>,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key came from.
    pub key_origin: Origin,
    /// The value.
    pub node: Node,
}

impl Table {
    /// The entry of that key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.key == key)
    }

    /// Adds an entry whose key is not there yet, and says where. The order of keys stays the parser's, so
    /// that a document that is written and read again is the same.
    fn add(&mut self, entry: Entry) -> usize {
        let at = self.entries.partition_point(|other| other.key < entry.key);
        self.entries.insert(at, entry);
        at
    }
}

impl Node {
    /// The `name` of an element of an array of tables.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match &self.value {
            Value::Table(table) => match &table.get("name")?.node.value {
                Value::String(name) => Some(name),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Value {
    /// What the value is, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        self.scalar().describe()
    }
}

/// The source texts, for turning an [`Origin`] into a [`Location`].
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    file: String,
    /// Offset at which each line starts.
    line_starts: Vec<usize>,
    text: String,
    overrides: Vec<String>,
}

impl Sources {
    pub fn new(file: &str, text: &str, overrides: &[String]) -> Self {
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { file: file.to_owned(), line_starts, text: text.to_owned(), overrides: overrides.to_vec() }
    }

    pub fn location(&self, origin: Origin) -> Location {
        match origin {
            Origin::File(offset) => {
                let offset = offset.min(self.text.len());
                let line = self.line_starts.partition_point(|&start| start <= offset);
                let start = self.line_starts[line - 1];
                let column =
                    self.text[start..].char_indices().take_while(|(at, _)| start + at < offset).count() + 1;
                Location::Line { file: self.file.clone(), line, column }
            }
            Origin::Override(index) => {
                let text = self.overrides.get(index).map(|text| shorten(text)).unwrap_or_default();
                Location::Override { index, text }
            }
            Origin::Default => Location::File { file: self.file.clone() },
        }
    }

    /// What stands behind the `=` of the n-th `--set`.
    pub fn override_value(&self, index: usize) -> Option<&str> {
        self.overrides.get(index)?.split_once('=').map(|(_, value)| value.trim())
    }

    pub fn problem(
        &self,
        origin: Origin,
        key: &str,
        what: impl Into<String>,
        right: impl Into<String>,
    ) -> Problem {
        Problem {
            location: self.location(origin),
            key: key.to_owned(),
            what: what.into(),
            right: right.into(),
        }
    }
}

/// Parses the file's text. Syntax errors are all reported; the tree is then not worth reading further.
pub(crate) fn parse(sources: &Sources) -> Result<Table, Vec<Problem>> {
    let (table, errors) = DeTable::parse_recoverable(&sources.text);
    if !errors.is_empty() {
        let mut problems: Vec<Problem> = errors
            .iter()
            .map(|error| {
                let offset = error.span().map_or(0, |span| span.start);
                let message = error.message().trim().replace('\n', ", ");
                let repeated =
                    message.contains("duplicate key").then(|| repeated_header(&sources.text, offset));
                match repeated.flatten() {
                    Some((at, name)) => {
                        let what = format!("the table [{name}] stands in the file already");
                        let right =
                            format!("write [[{name}]] over each, if they are a list; else make them one");
                        sources.problem(Origin::File(at), name, what, right)
                    }
                    None => {
                        let what = format!("this is not TOML: {message}");
                        sources.problem(Origin::File(offset), "", what, "see https://toml.io")
                    }
                }
            })
            .collect();
        // Further errors on a line mostly follow from the first.
        problems.sort();
        problems.dedup_by_key(|problem| match problem.location {
            Location::Line { line, .. } => line,
            Location::File { .. } | Location::Override { .. } => 0,
        });
        problems.truncate(10);
        return Err(problems);
    }
    let at = |span: Range<usize>| Origin::File(span.start);
    Ok(table_from(table.get_ref(), &at))
}

/// The header `[name]` above `offset`, or there, if the same table stands further up: what is below it are
/// then the same keys again. Answers where it stands, and the name.
fn repeated_header(text: &str, offset: usize) -> Option<(usize, &str)> {
    let (mut headers, mut start) = (Vec::new(), 0);
    for line in text.split_inclusive('\n') {
        let code = line.trim_start();
        if let Some(header) = code.strip_prefix('[') {
            // Of `[[list]]` a bracket stays before the name.
            let name = header.split_once(']').map_or("", |(name, _)| name.trim());
            headers.push((start + line.len() - code.len(), name));
        }
        start += line.len();
        if start > offset {
            break;
        }
    }
    let (last, above) = headers.split_last()?;
    // In each element of a list a table of that name may stand once.
    let begins_an_element = |name: &str| {
        let list = name.strip_prefix('[').and_then(|list| last.1.strip_prefix(list.trim()));
        list.is_some_and(|rest| rest.starts_with('.'))
    };
    let of_this_element = above.iter().rev().take_while(|(_, name)| !begins_an_element(name));
    let is_table = !last.1.is_empty() && !last.1.starts_with('[');
    let repeats = is_table && of_this_element.into_iter().any(|(_, name)| *name == last.1);
    repeats.then_some(*last)
}

fn table_from(table: &DeTable<'_>, at: &dyn Fn(Range<usize>) -> Origin) -> Table {
    let entries = table
        .iter()
        .map(|(key, value)| {
            let key_origin = at(key.span());
            let mut node = Node { value: value_from(value.get_ref(), at), origin: at(value.span()) };
            // A table or array of tables has the span of its first header or brace: its key is the better
            // place to show.
            if let Value::Table(_) = node.value {
                node.origin = key_origin;
            }
            Entry { key: key.get_ref().to_string(), key_origin, node }
        })
        .collect();
    Table { entries }
}

fn value_from(value: &DeValue<'_>, at: &dyn Fn(Range<usize>) -> Origin) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(digits) => {
            // Beyond 128 bits the exact value no longer matters: every key's range ends long before.
            let parsed = i128::from_str_radix(digits.as_str(), digits.radix());
            let saturated = if digits.as_str().starts_with('-') { i128::MIN } else { i128::MAX };
            Value::Integer(parsed.unwrap_or(saturated))
        }
        DeValue::Float(digits) => Value::Float(digits.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(truth) => Value::Boolean(*truth),
        DeValue::Datetime(_) => Value::Datetime,
        DeValue::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| Node { value: value_from(item.get_ref(), at), origin: at(item.span()) })
                .collect(),
        ),
        DeValue::Table(table) => Value::Table(table_from(table, at)),
    }
}

/// The steps of a dotted path; `None` if a step is empty, or there are more than 16.
fn split_path(path: &str) -> Option<Vec<&str>> {
    let steps: Vec<&str> = path.split('.').map(str::trim).collect();
    (steps.len() <= 16 && steps.iter().all(|step| !step.is_empty())).then_some(steps)
}

/// Lays the n-th `--set key=value` onto the document.
pub(crate) fn apply_override(
    document: &mut Node,
    index: usize,
    text: &str,
    sources: &Sources,
) -> Result<(), Problem> {
    let origin = Origin::Override(index);
    let right = "write --set key=value, for example --set router.limit=1000pkt";
    let (path, value) =
        text.split_once('=').ok_or_else(|| sources.problem(origin, "", "there is no `=` in it", right))?;
    let path = path.trim();
    let steps =
        split_path(path).ok_or_else(|| sources.problem(origin, "", "the key is not a dotted path", right))?;
    let node = Node { value: override_value(value.trim(), index), origin };
    let laid = match steps[..] {
        // A key below `set` may be a dotted path itself, and is kept as one.
        ["cases", case, "set", ref rest @ ..]
            if !rest.is_empty() || matches!(node.value, Value::Table(_)) =>
        {
            let rest: Vec<&str> = rest.iter().map(|step| step.trim_matches(['"', '\''])).collect();
            insert_into_set(document, case, &rest, node, origin)
        }
        _ => insert(document, &steps, node, origin),
    };
    laid.map_err(|error| sources.problem(origin, path, error.what, error.right))
}

/// Lays a value into the `set` of the case `case` (as [`insert`] takes it), under the path `rest`. What the
/// table says of the same keys goes, however their paths are written: of `router`, `"router.limit"` and
/// `"flows.*.count"` the last in the order of keys would win, and not the override.
fn insert_into_set(
    document: &mut Node,
    case: &str,
    rest: &[&str],
    node: Node,
    origin: Origin,
) -> Result<(), InsertError> {
    let no_keys = Node { value: Value::Table(Table::default()), origin };
    insert(document, &["cases", case, "set"], no_keys, origin)?;
    // Lists are looked up in the document as it is, while the table changes.
    let shape = document.clone();
    let Value::Table(root) = &mut document.value else { return Ok(()) };
    let Some(Entry { node: Node { value: Value::Array(cases), .. }, .. }) = root.get_mut("cases") else {
        return Ok(());
    };
    let index = index_of(cases, case);
    let chosen = cases.iter_mut().enumerate().filter(|(at, _)| case == "*" || index == Some(*at));
    for (_, one) in chosen {
        if let Value::Table(table) = &mut one.value
            && let Some(Entry { node: Node { value: Value::Table(set), .. }, .. }) = table.get_mut("set")
        {
            lay_into_set(set, &shape, rest, node.clone(), origin);
        }
    }
    Ok(())
}

/// Lays a value under the dotted path `path` into one case's `set`.
fn lay_into_set(set: &mut Table, shape: &Node, path: &[&str], node: Node, origin: Origin) {
    let wanted = canonical(shape, path);
    let is_covered = |entry: &Entry| {
        split_path(&entry.key).is_some_and(|steps| {
            let steps = canonical(shape, &steps);
            let same = |(one, other): (&String, &String)| one == "*" || one == other;
            steps.len() >= wanted.len() && wanted.iter().zip(&steps).all(same)
        })
    };
    match node.value {
        // Tables merge key by key.
        Value::Table(table) if path.is_empty() || set.entries.iter().any(is_covered) => {
            for entry in table.entries {
                let longer: Vec<&str> =
                    path.iter().copied().chain(entry.key.split('.').map(str::trim)).collect();
                lay_into_set(set, shape, &longer, entry.node, origin);
            }
        }
        value => {
            set.entries.retain(|entry| !is_covered(entry));
            let node = Node { value, origin: node.origin };
            set.add(Entry { key: path.join("."), key_origin: origin, node });
        }
    }
}

/// The index of the element of a list that a step of a path says, by name or by number. A name may be a
/// number as well, and is what its author meant.
fn index_of(items: &[Node], step: &str) -> Option<usize> {
    items.iter().position(|item| item.name() == Some(step)).or_else(|| step.parse().ok())
}

/// The path with elements of lists named by their index, where the document has them.
fn canonical(document: &Node, path: &[&str]) -> Vec<String> {
    let mut at = Some(document);
    let mut steps = Vec::with_capacity(path.len());
    for step in path {
        let mut named = (*step).to_owned();
        at = match at.map(|node| &node.value) {
            Some(Value::Table(table)) => table.get(step).map(|entry| &entry.node),
            Some(Value::Array(items)) => {
                let index = index_of(items, step);
                if let Some(index) = index {
                    named = index.to_string();
                }
                // Lists in the elements of a list are named by index alone.
                index.and_then(|index| items.get(index))
            }
            _ => None,
        };
        steps.push(named);
    }
    steps
}

/// A value on the command line needs no quotes: what is not TOML is a string.
fn override_value(text: &str, index: usize) -> Value {
    match DeValue::parse(text) {
        Ok(value) => value_from(value.get_ref(), &|_| Origin::Override(index)),
        Err(_) => Value::String(text.to_owned()),
    }
}

/// Writes the values of the overrides `words` as texts, as which they were read.
pub(crate) fn write_words(node: &mut Node, words: &BTreeSet<usize>, sources: &Sources) {
    match (&mut node.value, node.origin) {
        (Value::Table(table), _) => {
            table.entries.iter_mut().for_each(|entry| write_words(&mut entry.node, words, sources));
        }
        (Value::Array(items), _) => items.iter_mut().for_each(|item| write_words(item, words, sources)),
        (value, Origin::Override(index)) if words.contains(&index) => {
            if let Some(text) = sources.override_value(index) {
                *value = Value::String(text.to_owned());
            }
        }
        _ => {}
    }
}

/// Where the value of `key` came from, written as in messages (`flows[0].source`), and whether it stands
/// there; otherwise where the innermost table or list does that is there.
pub(crate) fn find(document: &Node, key: &str) -> (Origin, bool) {
    let (mut node, mut origin) = (document, document.origin);
    for step in key.split(['.', '[']) {
        let next = match (&node.value, step.strip_suffix(']')) {
            (Value::Table(table), None) => table.get(step).map(|entry| &entry.node),
            (Value::Array(items), Some(index)) => {
                index.parse().ok().and_then(|index: usize| items.get(index))
            }
            _ => None,
        };
        let Some(next) = next else { return (origin, false) };
        (node, origin) = (next, next.origin);
    }
    (origin, true)
}

/// Lays a case's `set` table onto the document: a key may be a dotted path in quotes.
pub(crate) fn apply_set(document: &mut Node, set: &Table, case: &str, sources: &Sources) -> Vec<Problem> {
    let mut problems = Vec::new();
    for entry in &set.entries {
        let key = format!("{case}.set.{:?}", entry.key);
        let Some(steps) = split_path(&entry.key) else {
            problems.push(sources.problem(
                entry.key_origin,
                &key,
                "the key is not a dotted path",
                "write for example \"router.limit\" = \"1000pkt\"",
            ));
            continue;
        };
        let instead = match steps[0] {
            "cases" | "schema" | "name" => {
                Some("change what the run depends on, for example \"router.limit\"")
            }
            "seed" => Some("write seed at the top of the file: cases are compared seed by seed"),
            "warm_up" => {
                Some("write warm_up at the top of the file: what cases carry is compared over the same time")
            }
            _ => None,
        };
        if let Some(instead) = instead {
            let what = format!("a case cannot change `{}`", steps[0]);
            problems.push(sources.problem(entry.key_origin, &key, what, instead));
            continue;
        }
        if let Err(error) = insert(document, &steps, entry.node.clone(), entry.key_origin) {
            problems.push(sources.problem(entry.key_origin, &key, error.what, error.right));
        }
    }
    problems
}

/// Why a value could not be laid onto the document.
struct InsertError {
    what: String,
    right: String,
}

fn insert(target: &mut Node, steps: &[&str], node: Node, key_origin: Origin) -> Result<(), InsertError> {
    let Some((step, rest)) = steps.split_first() else {
        merge(target, node);
        return Ok(());
    };
    match &mut target.value {
        Value::Table(table) => {
            let at = table.entries.iter().position(|entry| entry.key == *step).unwrap_or_else(|| {
                let node = Node { value: Value::Table(Table::default()), origin: key_origin };
                table.add(Entry { key: (*step).to_owned(), key_origin, node })
            });
            let entry = &mut table.entries[at];
            match *step {
                _ if rest.is_empty() => entry.key_origin = key_origin,
                "mechanism" => expand_name(&mut entry.node),
                "mechanisms" => {
                    if let Value::Array(items) = &mut entry.node.value {
                        items.iter_mut().for_each(expand_name);
                    }
                }
                _ => {}
            }
            insert(&mut entry.node, rest, node, key_origin)
        }
        Value::Array(items) if *step == "*" => {
            items.iter_mut().try_for_each(|item| insert(item, rest, node.clone(), key_origin))
        }
        Value::Array(items) => {
            let count = items.len();
            match index_of(items, step).and_then(|index| items.get_mut(index)) {
                Some(item) => insert(item, rest, node, key_origin),
                None => Err(InsertError {
                    what: format!("`{}` is not one of the {count} elements", shorten(step)),
                    right: "write an index from 0, the element's name, or * for all".to_owned(),
                }),
            }
        }
        Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime => {
            Err(InsertError {
                what: format!("{} has no key `{}` inside", target.value.describe(), shorten(step)),
                right: "end the path one key earlier".to_owned(),
            })
        }
    }
}

/// A mechanism may be written as its name alone. A key inside it needs the table that the name stands for.
fn expand_name(mechanism: &mut Node) {
    if let Value::String(name) = &mechanism.value {
        let origin = mechanism.origin;
        let node = Node { value: Value::String(name.clone()), origin };
        let entry = Entry { key: "name".to_owned(), key_origin: origin, node };
        mechanism.value = Value::Table(Table { entries: vec![entry] });
    }
}

/// Tables merge key by key; anything else is replaced.
fn merge(target: &mut Node, node: Node) {
    match (&mut target.value, node.value) {
        (Value::Table(into), Value::Table(from)) => {
            for entry in from.entries {
                match into.get_mut(&entry.key) {
                    Some(existing) => {
                        existing.key_origin = entry.key_origin;
                        merge(&mut existing.node, entry.node);
                    }
                    None => {
                        into.add(entry);
                    }
                }
            }
        }
        (_, value) => *target = Node { value, origin: node.origin },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> (Node, Sources) {
        let sources = Sources::new("x.toml", text, &[]);
        let table = parse(&sources).expect("valid TOML");
        (Node { value: Value::Table(table), origin: Origin::Default }, sources)
    }

    fn at<'a>(node: &'a Node, path: &str) -> &'a Node {
        path.split('.').fold(node, |node, step| match &node.value {
            Value::Table(table) => &table.get(step).expect("key").node,
            Value::Array(items) => &items[step.parse::<usize>().expect("index")],
            _ => panic!("no {step} in {node:?}"),
        })
    }

    #[test]
    fn an_override_replaces_creates_and_merges() {
        let (mut doc, sources) =
            document("a = 1\n[t]\nx = \"old\"\n[[list]]\nname = \"one\"\n[[list]]\nname = \"two\"\n");
        for (index, text) in
            ["a=2", "t.x = 5s", "t.new.deep=true", "list.1.v=1", "list.one.w=2", "list.*.z=\"q\"", "t={y=7}"]
                .iter()
                .enumerate()
        {
            apply_override(&mut doc, index, text, &sources).expect(text);
        }
        assert!(matches!(at(&doc, "a").value, Value::Integer(2)));
        assert!(matches!(&at(&doc, "t.x").value, Value::String(s) if s == "5s"));
        assert!(matches!(at(&doc, "t.new.deep").value, Value::Boolean(true)));
        assert!(matches!(at(&doc, "t.y").value, Value::Integer(7)));
        assert!(matches!(at(&doc, "list.1.v").value, Value::Integer(1)));
        assert!(matches!(at(&doc, "list.0.w").value, Value::Integer(2)));
        assert!(matches!(&at(&doc, "list.0.z").value, Value::String(s) if s == "q"));
        assert!(matches!(&at(&doc, "list.1.z").value, Value::String(s) if s == "q"));
    }

    #[test]
    fn an_override_of_a_cases_own_set_takes_the_place_of_what_stands_there() {
        let text = "[[flows]]\nname = \"bulk\"\n[[cases]]\nname = \"a\"\n[cases.set]\n\"router.limit\" = 1\n\
                    \"flows.bulk.count\" = 1\nrouter = { queue = \"q\" }\n[[cases]]\nname = \"b\"\n";
        let keys = |overrides: &[&str], case: &str| {
            let (mut doc, sources) = document(text);
            for text in overrides {
                apply_override(&mut doc, 0, text, &sources).expect(text);
            }
            let Value::Table(set) = &at(&doc, &format!("cases.{case}.set")).value else { panic!("a table") };
            set.entries
                .iter()
                .map(|entry| format!("{}={:?}", entry.key, entry.node.value))
                .collect::<Vec<_>>()
        };
        let [count, limit, queue] =
            ["flows.bulk.count=Integer(1)", "router.limit=Integer(2)", "router=Table("];
        for path in ["router.limit", "\"router.limit\"", "'router.limit'", "router . limit"] {
            let told = keys(&[&format!("cases.0.set.{path}=2")], "0");
            assert_eq!((&told[0][..], &told[1][..13], &told[2][..]), (count, queue, limit), "{told:?}");
            assert_eq!(keys(&[&format!("cases.*.set.{path}=2")], "1"), [limit], "{path}");
        }
        for whole in [
            "cases.a.set={\"router.limit\"=2}",
            "cases.a.set.router={limit=2}",
            "cases.a.set={router={limit=2}}",
        ] {
            assert_eq!(keys(&[whole], "0")[2], limit, "{whole}");
        }
        for path in ["flows.0.count", "flows.*.count"] {
            let told = keys(&[&format!("cases.0.set.{path}=3")], "0");
            assert_eq!((told.len(), &told[0][..]), (3, &format!("{path}=Integer(3)")[..]), "{told:?}");
        }
        let none = keys(&["cases.0.set.router=\"none\""], "0");
        assert_eq!(none[1..], ["router=String(\"none\")"], "{none:?}");
    }

    #[test]
    fn an_override_that_fits_nowhere_says_so() {
        let (mut doc, sources) = document("a = 1\nlist = [1]\n");
        for text in
            ["a", "=1", "a..b=1", "a.b=1", "list.1=2", "list.name=2", &format!("{}=1", "a.".repeat(40))]
        {
            assert!(apply_override(&mut doc, 0, text, &sources).is_err(), "{text}");
        }
    }

    #[test]
    fn a_place_counts_lines_and_characters_from_one() {
        let text = "a = 1\n# \u{fc}\nb\u{fc} = 2";
        let sources = Sources::new("f", text, &[]);
        for (offset, line, column) in [(0, 1, 1), (4, 1, 5), (6, 2, 1), (11, 3, 1), (14, 3, 3), (999, 3, 7)] {
            let location = Location::Line { file: "f".to_owned(), line, column };
            assert_eq!(sources.location(Origin::File(offset)), location, "{offset}");
        }
    }

    #[test]
    fn a_list_written_as_tables_is_told_once_for_each_with_what_to_write() {
        let text = "a = 1\n[cases]\nname = \"x\"\nm = 1\n [ cases ] # two\nname = \"y\"\nm = 2\n[cases]\nname = \"z\"\n\
                    [other]\nb = 1\nb = 2\n";
        let told: Vec<String> = parse(&Sources::new("f", text, &[]))
            .expect_err("not TOML")
            .iter()
            .map(Problem::to_string)
            .collect();
        let again = |place: &str| {
            format!(
                "{place}: cases: the table [cases] stands in the file already; write [[cases]] over each, if they are a \
                 list; else make them one"
            )
        };
        assert_eq!(told.len(), 3, "{told:#?}");
        assert_eq!((&told[0], &told[1]), (&again("f:5:2"), &again("f:8:1")), "{told:#?}");
        assert!(told[2].starts_with("f:12:1: this is not TOML: duplicate key"), "{told:#?}");
        // A table in each element of a list is none of them.
        let text = "[[cases]]\n[cases.set]\na = 1\n[[cases]]\n[cases.set]\na = 1\na = 2\n";
        let told = parse(&Sources::new("f", text, &[])).expect_err("not TOML");
        assert!(told[0].to_string().starts_with("f:7:1: this is not TOML: duplicate key"), "{told:#?}");
    }

    #[test]
    fn every_syntax_error_is_reported_with_its_line() {
        let sources = Sources::new("f", "a = \nb = [1\nc = 3\na = 4", &[]);
        let problems = parse(&sources).expect_err("not TOML");
        let lines: Vec<&Location> = problems.iter().map(|problem| &problem.location).collect();
        assert!(
            matches!(lines[..], [Location::Line { line: 1, .. }, Location::Line { line: 3, .. }, ..]),
            "{lines:?}"
        );
    }
}
