//! What is wrong with a file: every problem with its file, line, column and key.

use std::fmt;

use linkhold_core::text::write_line;

/// All problems of one file, in the order they stand in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    problems: Vec<Problem>,
}

/// One problem: `where: key: what is wrong; what would be right`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where it is.
    pub location: Location,
    /// The key in dotted form with indices, for example `radio.channels[1].phy_rate`; empty for the whole
    /// file.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub right: String,
}

/// Where a problem is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
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

impl FileError {
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

impl std::error::Error for FileError {}

impl fmt::Display for FileError {
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
    /// One line, whatever the user wrote: control characters are escaped, so neither a line break nor a
    /// terminal's escape sequence gets through.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { location, key, what, right } = self;
        let mut text = format!("{location}: ");
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

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file } => f.write_str(file),
            Self::Line { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Override { text, .. } => write!(f, "--set {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line_whatever_the_user_wrote() {
        let location = Location::Override { index: 0, text: "a\n=\u{1b}[2J".to_owned() };
        let problem = Problem { location, key: "a\r".to_owned(), what: "b".to_owned(), right: String::new() };
        assert_eq!(problem.to_string(), "--set a\\n=\\u{1b}[2J: a\\r: b");
    }
}
