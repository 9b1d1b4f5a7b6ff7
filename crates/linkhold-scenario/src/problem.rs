//! What is wrong with a scenario file: every problem with its file, line, column and key.

use std::fmt::{self, Write as _};

/// All problems of one scenario, in the order they stand in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    problems: Vec<Problem>,
}

/// One problem: `where: key: what is wrong; what would be right`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where it is.
    pub place: Place,
    /// The key in dotted form with indices, for example `radio.channels[1].phy_rate`; empty for the whole file.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub right: String,
}

/// Where a problem is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The file as a whole, for example when it cannot be read.
    File {
        /// Path as the user gave it.
        file: String,
    },
    /// A line of the file.
    Line {
        /// Path as the user gave it.
        file: String,
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
    },
    /// A `--set` on the command line.
    Override {
        /// Position on the command line, from 0.
        index: usize,
        /// As the user gave it.
        text: String,
    },
}

impl ScenarioError {
    /// Sorted, without repetitions (cases share most of the file, so each would report the same problem).
    pub(crate) fn new(mut problems: Vec<Problem>) -> Self {
        problems.sort();
        problems.dedup();
        Self { problems }
    }

    /// The problems; at least one.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl std::error::Error for ScenarioError {}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    /// One line, whatever the user wrote: control characters are escaped, so neither a line break nor a terminal's
    /// escape sequence gets through.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, key, what, right } = self;
        let mut text = format!("{place}: ");
        if !key.is_empty() {
            text.push_str(key);
            text.push_str(": ");
        }
        text.push_str(what);
        if !right.is_empty() {
            text.push_str("; ");
            text.push_str(right);
        }
        write_line(f, &text)
    }
}

/// Writes text that may hold what a user wrote as one line, with control characters escaped.
pub(crate) fn write_line(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for c in text.chars() {
        if c.is_control() { write!(f, "{}", c.escape_default())? } else { f.write_char(c)? }
    }
    Ok(())
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file } => f.write_str(file),
            Self::Line { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Override { text, .. } => write!(f, "--set {text}"),
        }
    }
}

/// The known name nearest to `wanted`, if it is near enough to be a slip of the keyboard.
pub(crate) fn did_you_mean<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (wanted.chars().count() / 3).clamp(1, 3);
    known
        .map(|name| (edit_distance(wanted, name), name))
        .filter(|&(distance, _)| distance <= limit)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name)
}

/// Levenshtein distance; names longer than any of ours are taken as far away, so hostile input costs nothing.
fn edit_distance(a: &str, b: &str) -> usize {
    if a.len() > 64 {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, &to) in row.iter_mut().skip(1).zip(&b) {
            let same = if from.eq_ignore_ascii_case(&to) { diagonal } else { diagonal + 1 };
            diagonal = *cell;
            left = same.min(left + 1).min(diagonal + 1);
            *cell = left;
        }
        row[0] = i + 1;
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_counts_single_changes() {
        for (a, b, distance) in [
            ("", "", 0),
            ("limit", "limit", 0),
            ("limt", "limit", 1),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
            assert_eq!(edit_distance(b, a), distance, "{b} {a}");
        }
    }

    #[test]
    fn a_problem_is_one_line_whatever_the_user_wrote() {
        let place = Place::Override { index: 0, text: "a\n=\u{1b}[2J".to_owned() };
        let problem = Problem { place, key: "a\r".to_owned(), what: "b".to_owned(), right: String::new() };
        assert_eq!(problem.to_string(), "--set a\\n=\\u{1b}[2J: a\\r: b");
    }

    #[test]
    fn only_near_names_are_suggested() {
        let known = ["phy_rate", "mac", "stations", "sensing"];
        assert_eq!(did_you_mean("phyrate", known.into_iter()), Some("phy_rate"));
        assert_eq!(did_you_mean("station", known.into_iter()), Some("stations"));
        assert_eq!(did_you_mean("colour", known.into_iter()), None);
        assert_eq!(did_you_mean(&"x".repeat(100_000), known.into_iter()), None);
    }
}
