//! How a command fails.

use std::process::ExitCode;

/// Why a command failed. The variant decides the exit code, which is all that a caller can act on, so this is
/// one enum and not a chain of boxed errors.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The user can correct the input: exit code 2. Each line of the text starts with what it is about.
    #[error("{0}")]
    BadInput(String),
    /// A run failed or its results could not be written: exit code 1.
    #[error("{0}")]
    Failed(String),
}

impl Failure {
    /// The same failure of an entry of a batch: each line begins with `place`, and a key of the entry is
    /// named without the dashes of the option that means the same.
    pub fn of_entry(self, place: &str) -> Self {
        let told = |text: String| {
            let lines =
                text.lines().map(|line| format!("{place}{}", line.strip_prefix("--").unwrap_or(line)));
            lines.collect::<Vec<_>>().join("\n")
        };
        match self {
            Self::BadInput(text) => Self::BadInput(told(text)),
            Self::Failed(text) => Self::Failed(told(text)),
        }
    }

    /// The exit code of the command that failed so.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::BadInput(_) => ExitCode::from(2),
            Self::Failed(_) => ExitCode::from(1),
        }
    }
}
