//! Reads JSON that people and their programs write, and says where it is wrong and what would be right.

use std::fmt;

use linkhold_core::text::{did_you_mean, shorten, write_line};
use serde::de::{DeserializeOwned, IgnoredAny};

/// What is wrong with a JSON text, first in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// From 1.
    pub line: usize,
    /// From 1, in bytes: where the reader stopped, which is behind the value that is wrong.
    pub column: usize,
    /// The key in dotted form, as in `[0].cc`; empty for the whole text.
    pub key: String,
    /// What is wrong; what would be right.
    pub what: String,
}

impl std::error::Error for JsonError {}

/// Without line and column, which say nothing of a text of one line.
impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.is_empty() {
            write_line(f, &shorten(&self.key))?;
            f.write_str(": ")?;
        }
        write_line(f, &self.what)
    }
}

/// The value that is all of `text`.
///
/// # Errors
/// [`JsonError`]
pub fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, JsonError> {
    let mut from = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut from).map_err(|error| {
        let path = error.path().to_string();
        let key = if path == "." { String::new() } else { path };
        match error.inner() {
            inner if inner.is_data() => said(inner, key),
            // What stands where one of several names belongs is refused as if it were no JSON.
            inner if serde_json::from_slice::<IgnoredAny>(text).is_ok() => {
                let what = "expected an object with one key, the name of what is meant".to_owned();
                JsonError { what, key, ..said(inner, String::new()) }
            }
            // Of a text that ends too early the key says no more than its end does.
            inner => said(inner, String::new()),
        }
    })?;
    from.end().map_err(|error| said(&error, String::new()))?;
    Ok(value)
}

fn said(error: &serde_json::Error, key: String) -> JsonError {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&place).unwrap_or(&message);
    let what = if error.is_data() { words(message, &key) } else { format!("this is not JSON: {message}") };
    JsonError { line: error.line().max(1), column: error.column().max(1), key, what }
}

/// What serde says of a value at `key`, in the words of our other messages.
fn words(message: &str, key: &str) -> String {
    let wrong = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    if let Some((found, wanted)) = wrong.and_then(|wrong| wrong.rsplit_once(", expected ")) {
        return wrong_value(&found_words(found), wanted, key);
    }
    if let Some(name) = message.strip_prefix("missing field ") {
        return format!("the key {name} is missing; write it");
    }
    if let Some(name) = message.strip_prefix("duplicate field ") {
        return format!("the key {name} stands here twice; keep one of them");
    }
    for kind in ["field", "variant"] {
        let unknown = message.strip_prefix(&format!("unknown {kind} `"));
        if let Some((name, rest)) = unknown.and_then(|unknown| unknown.split_once('`')) {
            let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
            let near = did_you_mean(name, known.iter().copied());
            let right = near.map_or_else(
                || format!("there are: {}", known.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            return if kind == "field" && !known.is_empty() {
                format!("unknown key `{}`; {right}", shorten(name))
            } else if kind == "field" {
                format!("unknown key `{}`; leave it out", shorten(name))
            } else {
                format!("unknown name `{}`; {right}", shorten(name))
            };
        }
    }
    message.to_owned()
}

/// What serde calls a value, as it stands in the text.
fn found_words(found: &str) -> String {
    match found {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "unit variant" => "its name alone".to_owned(),
        _ => {
            let value = found.strip_prefix("string ").or_else(|| found.split('`').nth(1));
            shorten(value.unwrap_or(found))
        }
    }
}

fn wrong_value(found: &str, wanted: &str, key: &str) -> String {
    let plain = !found.starts_with("a") && found != "null";
    let whole = |most: u64| format!("{found} is no whole number; write one from 0 to {most}");
    match wanted {
        "a sequence" if plain => format!("expected a list, got {found}; write [{found}]"),
        "a sequence" => format!("expected a list, got {found}; write one in brackets: [...]"),
        "a string" | "path string" if plain => format!("{found} is no text; write it in quotes"),
        "a string" | "path string" => format!("expected a text, got {found}; write one in quotes"),
        "f32" | "f64" => format!("{found} is no number; {}", a_number(key)),
        "u32" => whole(u64::from(u32::MAX)),
        "u64" => whole(u64::MAX),
        _ if wanted.starts_with("struct ") => {
            format!("expected an object, got {found}; write one in braces: {{...}}")
        }
        _ => format!("expected {wanted}, got {found}"),
    }
}

/// How the number at `key` is written: its name ends with its unit.
fn a_number(key: &str) -> &'static str {
    if key.ends_with("_s") {
        "write seconds, such as 0.005"
    } else if key.ends_with("db") {
        "write decibels, such as 17.5"
    } else {
        "write one without quotes, such as 0.5"
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "it is read only to be refused")]
    struct One {
        name: String,
        #[serde(default)]
        list: Vec<String>,
        #[serde(default)]
        for_s: f64,
        #[serde(default)]
        count: u32,
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place_its_key_and_what_is_right() {
        for (text, line, key, what) in [
            ("{}", 1, "", "expected a list, got an object; write one in brackets: [...]"),
            ("[{}]", 1, "[0]", "the key `name` is missing; write it"),
            ("[\n{\"name\":5}]", 2, "[0].name", "5 is no text; write it in quotes"),
            (r#"[{"name":"a","list":"b"}]"#, 1, "[0].list", r#"expected a list, got "b"; write ["b"]"#),
            (
                r#"[{"name":"a","list":["b",["c"]]}]"#,
                1,
                "[0].list[1]",
                "expected a text, got a list; write one in quotes",
            ),
            (
                r#"[{"name":"a","for_s":"5ms"}]"#,
                1,
                "[0].for_s",
                r#""5ms" is no number; write seconds, such as 0.005"#,
            ),
            (
                r#"[{"name":"a","count":-1}]"#,
                1,
                "[0].count",
                "-1 is no whole number; write one from 0 to 4294967295",
            ),
            (r#"[{"name":"a","lsit":[]}]"#, 1, "[0].lsit", "unknown key `lsit`; "),
            (r#"[{"name":"a","name":"b"}]"#, 1, "[0]", "the key `name` stands here twice; keep one"),
            ("[5]", 1, "[0]", "expected an object, got 5; write one in braces: {...}"),
            ("[", 1, "", "this is not JSON: EOF while parsing a list"),
            ("[] x", 1, "", "this is not JSON: trailing characters"),
            ("", 1, "", "this is not JSON: EOF while parsing a value"),
        ] {
            let error = read::<Vec<One>>(text.as_bytes()).unwrap_err();
            assert_eq!((error.line, error.key.as_str()), (line, key), "{text}: {error}");
            assert!(error.what.starts_with(what) && error.column > 0, "{text}: {error}");
        }
    }
}
