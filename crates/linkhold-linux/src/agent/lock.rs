//! At most one agent of a name in a network namespace: a [`Claim`] makes sure.

use super::error::AgentError;
use crate::claims::Claim;

/// Attempts at the name, 20 ms apart: the guardian of an agent that was killed at its very start may have it
/// for a moment.
const ATTEMPTS: u32 = 10;

/// Holds the name while it lives.
#[derive(Debug)]
pub struct InstanceLock {
    _claim: Option<Claim>,
}

impl InstanceLock {
    /// Takes the name.
    ///
    /// # Errors
    /// [`AgentError::InstanceTaken`] if another agent has it.
    pub fn take(instance: &str) -> Result<Self, AgentError> {
        match Claim::take(&format!("linkhold-{instance}"), ATTEMPTS) {
            Ok(Some(claim)) => Ok(Self { _claim: Some(claim) }),
            Ok(None) => Err(AgentError::InstanceTaken(instance.to_owned())),
            // Where no such socket can be made, no rival has one.
            Err(error) => {
                tracing::warn!(%error, "cannot tell whether another agent of this name runs");
                Ok(Self { _claim: None })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_once_and_free_again_afterwards() {
        let name = format!("t{}", std::process::id());
        let lock = InstanceLock::take(&name).unwrap();
        assert!(matches!(InstanceLock::take(&name), Err(AgentError::InstanceTaken(_))));
        drop(lock);
        assert!(InstanceLock::take(&name).is_ok());
    }
}
