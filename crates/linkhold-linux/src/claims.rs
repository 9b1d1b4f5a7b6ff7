//! Names that one process of a network namespace has at a time: abstract Unix sockets. Such a name is unique
//! in its network namespace, and it goes with its process, however that ends.
//!
//! Source: unix(7), abstract sockets; proc(5), `/proc/net/unix`.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// What the names in the kernel's list begin with.
const ABSTRACT: char = '@';
/// Between two attempts at a name that another has.
const PAUSE: Duration = Duration::from_millis(20);

/// Holds a name while it lives.
#[derive(Debug)]
pub struct Claim {
    _socket: UnixDatagram,
}

impl Claim {
    /// Takes a name, and tries so many times; `None` if another has it all the while.
    ///
    /// # Errors
    /// Where no such socket can be made. No rival has one then.
    pub fn take(name: &str, attempts: u32) -> io::Result<Option<Self>> {
        for attempt in 1..=attempts {
            match SocketAddr::from_abstract_name(name).and_then(|name| UnixDatagram::bind_addr(&name)) {
                Ok(socket) => return Ok(Some(Self { _socket: socket })),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    if attempt < attempts {
                        std::thread::sleep(PAUSE);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// True if anybody in the calling thread's network namespace has a name that begins like this.
///
/// # Errors
/// If the kernel's list cannot be read.
pub fn any_begins_with(prefix: &str) -> io::Result<bool> {
    // The list of the thread's own namespace: `/proc/net` is that of the process's first thread.
    let list = std::fs::read_to_string("/proc/thread-self/net/unix")?;
    let is_one = |line: &str| {
        let path = line.split_ascii_whitespace().nth(7);
        path.and_then(|path| path.strip_prefix(ABSTRACT)).is_some_and(|name| name.starts_with(prefix))
    };
    Ok(list.lines().any(is_one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_once_seen_by_all_and_free_again_afterwards() {
        let name = format!("linkhold-claim-{}", std::process::id());
        assert!(!any_begins_with(&name).unwrap());
        let claim = Claim::take(&name, 1).unwrap();
        assert!(claim.is_some() && Claim::take(&name, 2).unwrap().is_none());
        assert!(any_begins_with(&name[..name.len() - 1]).unwrap());
        drop(claim);
        assert!(!any_begins_with(&name).unwrap());
        assert!(Claim::take(&name, 1).unwrap().is_some());
    }
}
