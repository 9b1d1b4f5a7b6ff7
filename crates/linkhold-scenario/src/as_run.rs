//! The text of a scenario with everything laid over it, to be kept beside the results.

use std::fmt::Write as _;

use crate::document::{Node, Value};
use crate::traces::Traces;

/// How a text begins that was written anew.
const HEADER: &str = "# What linkhold ran: ";

/// The scenario file of what `document` is: `text` if that says it already, otherwise the document written
/// anew.
pub(crate) fn text(
    text: &str,
    file: &str,
    set: &[String],
    document: &mut Node,
    traces: &Traces<'_>,
) -> String {
    let moved = name_traces(document, &mut Vec::new(), traces);
    if set.is_empty() && !moved {
        return text.to_owned();
    }
    let mut out = format!("{HEADER}{}", one_line(file));
    // Writing to a string cannot fail.
    if !set.is_empty() {
        let _ = write!(out, " with these keys changed on the command line:");
        for change in set {
            let _ = write!(out, "\n#   {}", one_line(change));
        }
    }
    let _ = write!(out, "\n\n");
    // A document that was read holds only what TOML can say.
    out + &toml::to_string_pretty(&value(document)).unwrap_or_else(|_| text.to_owned())
}

/// Replaces the path of each trace by the absolute path of the file that was read; says whether any changed.
///
/// `path` is where `node` stands. A key of a case's `set` may be a dotted path, and starts at the root again.
fn name_traces(node: &mut Node, path: &mut Vec<String>, traces: &Traces<'_>) -> bool {
    match &mut node.value {
        Value::String(text) => {
            let steps: Vec<&str> = path.iter().map(String::as_str).collect();
            let names_a_file = matches!(
                steps[..],
                ["radio", "trace", "down" | "up"]
                    | ["radio", "snr", "trace"]
                    | ["mesh", "movements"]
                    | ["radio", "primary_user", "log"]
                    | ["radio", "channels", "primary_user", "log"]
                    | ["radio", "channels", _, "primary_user", "log"]
                    | ["mesh", "spectrum", "channel_log" | "pu_log"]
            );
            if !names_a_file {
                return false;
            }
            let full = traces.full_path(text).and_then(|full| std::path::absolute(full).ok());
            match full.and_then(|full| full.to_str().map(str::to_owned)) {
                Some(full) if full != *text => {
                    *text = full;
                    true
                }
                Some(_) | None => false,
            }
        }
        Value::Table(table) => {
            let mut moved = false;
            let set = path.first().is_some_and(|first| first == "cases");
            for entry in &mut table.entries {
                let mut below = if set && entry.key == "set" { Vec::new() } else { path.clone() };
                if !(set && entry.key == "set") {
                    below.extend(entry.key.split('.').map(|step| step.trim().to_owned()));
                }
                moved |= name_traces(&mut entry.node, &mut below, traces);
            }
            moved
        }
        Value::Array(items) => {
            let mut moved = false;
            for item in items {
                moved |= name_traces(item, path, traces);
            }
            moved
        }
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime => false,
    }
}

fn value(node: &Node) -> toml::Value {
    match &node.value {
        Value::String(text) => toml::Value::String(text.clone()),
        // No key takes more than 64 bits.
        Value::Integer(number) => toml::Value::Integer(i64::try_from(*number).unwrap_or(i64::MAX)),
        Value::Float(number) => toml::Value::Float(*number),
        Value::Boolean(truth) => toml::Value::Boolean(*truth),
        // No key takes one, so that a valid scenario has none.
        Value::Datetime => toml::Value::String(String::new()),
        Value::Array(items) => toml::Value::Array(items.iter().map(value).collect()),
        Value::Table(table) => toml::Value::Table(
            table.entries.iter().map(|entry| (entry.key.clone(), value(&entry.node))).collect(),
        ),
    }
}

/// `text` as it may stand in a comment.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
