//! At most one agent of a name in a network namespace. An abstract Unix socket makes sure: its name is unique
//! in its network namespace, and it goes with the process.
//!
//! Source: unix(7), abstract sockets.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use super::error::AgentError;

/// Longest wait for the socket: the guardian of an agent that was killed at its very start may have it for a
/// moment.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// Holds the name while it lives.
#[derive(Debug)]
pub struct InstanceLock {
    _socket: Option<UnixDatagram>,
}

impl InstanceLock {
    /// Takes the name.
    ///
    /// # Errors
    /// [`AgentError::InstanceTaken`] if another agent has it.
    pub fn take(instance: &str) -> Result<Self, AgentError> {
        let bind = || {
            let address = SocketAddr::from_abstract_name(format!("linkhold-{instance}"))?;
            UnixDatagram::bind_addr(&address)
        };
        for attempt in 1..=ATTEMPTS {
            match bind() {
                Ok(socket) => return Ok(Self { _socket: Some(socket) }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    if attempt < ATTEMPTS {
                        std::thread::sleep(PAUSE);
                    }
                }
                // Where no such socket can be made, no rival has one.
                Err(error) => {
                    tracing::warn!(%error, "cannot tell whether another agent of this name runs");
                    return Ok(Self { _socket: None });
                }
            }
        }
        Err(AgentError::InstanceTaken(instance.to_owned()))
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
