//! Why the agent does not run, or ended.

use std::io;

use super::config::AgentConfigError;
use super::control::ControlError;
use super::processor::ProcessorError;
use super::stations::NoNumberLeft;
use crate::datapath::nfqueue::NfQueueError;
use crate::datapath::rules::RulesError;
use crate::host::kernel::KernelError;

/// Why the agent does not run, or ended.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The configuration file is wrong.
    #[error(transparent)]
    Config(#[from] AgentConfigError),
    /// The caller may not do what an agent does.
    #[error("{0}")]
    Rights(String),
    /// The agent cannot stay on the processor that it is told.
    #[error(transparent)]
    Processor(#[from] ProcessorError),
    /// Packets would never come to the agent.
    #[error("the agent would see nothing: {0}")]
    Hidden(String),
    /// The recording cannot be started.
    #[error("cannot record to {path}: {message}")]
    Record {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A recording would take the place of something else.
    #[error("--record {path}: {what}")]
    RecordOver {
        /// The file.
        path: std::path::PathBuf,
        /// What it is, and what to do.
        what: &'static str,
    },
    /// A schedule's station cannot be tracked.
    #[error("schedule {0}: {1}")]
    Schedule(String, NoNumberLeft),
    /// The mechanism's settings are wrong.
    #[error("{path}: mechanism: {message}")]
    Mechanism {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The queues cannot be used.
    #[error(transparent)]
    Queue(#[from] NfQueueError),
    /// The rules cannot be set.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The control socket or metrics port cannot be opened.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Two agents of one name would remove each other's rules.
    #[error("an agent called \"{0}\" runs here already: stop it, or set another `instance`")]
    InstanceTaken(String),
    /// The guardian process cannot be started.
    #[error("cannot start the guardian: {0}")]
    Guardian(io::Error),
    /// Signals cannot be caught.
    #[error("cannot catch signals: {0}")]
    Signals(io::Error),
    /// A host's senders cannot be frozen as the configuration asks.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The data path broke while running.
    #[error("the data path broke: {0}")]
    Broken(io::Error),
}

impl AgentError {
    /// True if the user's input is at fault (exit status 2), false if the run failed (1).
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Config(_)
            | Self::Mechanism { .. }
            | Self::RecordOver { .. }
            | Self::Processor(ProcessorError::NotAllowed { .. })
            | Self::Schedule(..) => true,
            Self::Rights(_)
            | Self::Queue(_)
            | Self::Rules(_)
            | Self::Hidden(_)
            | Self::Record { .. }
            | Self::Processor(ProcessorError::System { .. })
            | Self::Control(_)
            | Self::InstanceTaken(_)
            | Self::Guardian(_)
            | Self::Signals(_)
            | Self::Kernel(_)
            | Self::Broken(_) => false,
        }
    }
}
