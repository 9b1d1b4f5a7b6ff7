//! Names that one process of a network namespace has at a time: abstract Unix sockets. Such a name is unique
//! in its network namespace, and it goes with its process, however that ends.
//!
//! Anybody may bind such a name, which has no permissions. So a name counts only if who listens at it is root
//! or the user of this process (SO_PEERCRED); where another has it, the next of a few names stands for it.
//!
//! Source: unix(7), abstract sockets, SO_PEERCRED; proc(5), `/proc/net/unix`.

use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket, sockopt::PeerCredentials,
};

/// What the names in the kernel's list begin with.
const ABSTRACT: char = '@';
/// Between two attempts at a name that another has.
const PAUSE: Duration = Duration::from_millis(20);
/// Names that stand for one, itself included.
const NAMES: u32 = 4;

/// Holds a name while it lives.
#[derive(Debug)]
pub struct Claim {
    _listener: UnixListener,
}

/// Who has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Nobody,
    /// Root or this process's user.
    Trusted,
    /// Somebody else.
    Stranger,
}

impl Claim {
    /// Takes a name, and tries so many times; `None` if another that may have it has it all the while.
    ///
    /// # Errors
    /// Where no such socket can be made, or strangers have every name that could stand for this one.
    pub fn take(name: &str, attempts: u32) -> io::Result<Option<Self>> {
        for attempt in 1..=attempts {
            let claim = Self::try_take(name)?;
            if claim.is_some() || attempt == attempts {
                return Ok(claim);
            }
            std::thread::sleep(PAUSE);
        }
        Ok(None)
    }

    fn try_take(name: &str) -> io::Result<Option<Self>> {
        let mut taken = None;
        for number in 0..NAMES {
            let name = alias(name, number);
            // The first that is free is taken; behind it, too, somebody may have come before.
            if taken.is_none() {
                match SocketAddr::from_abstract_name(&name).and_then(|name| UnixListener::bind_addr(&name)) {
                    Ok(listener) => {
                        taken = Some(Self { _listener: listener });
                        continue;
                    }
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                    Err(error) => return Err(error),
                }
            }
            match owner(&name)? {
                Owner::Trusted => return Ok(None),
                Owner::Stranger => {
                    tracing::warn!(name, "another user has this name (an abstract Unix socket)");
                }
                Owner::Nobody => {}
            }
        }
        match taken {
            Some(claim) => Ok(Some(claim)),
            None => Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                format!("other users have the names @{name} to @{}", alias(name, NAMES - 1)),
            )),
        }
    }
}

/// The names that stand for `name`.
fn alias(name: &str, number: u32) -> String {
    match number {
        0 => name.to_owned(),
        _ => format!("{name}#{number}"),
    }
}

fn owner(name: &str) -> io::Result<Owner> {
    use nix::errno::Errno;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let ours: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    let address = UnixAddr::new_abstract(name.as_bytes())?;
    match connect(std::os::fd::AsRawFd::as_raw_fd(&ours), &address) {
        Ok(()) => {}
        Err(Errno::ECONNREFUSED) => return Ok(Owner::Nobody),
        // So many ask whose it is that nobody can tell: rather one agent too few than two.
        Err(Errno::EAGAIN) => return Ok(Owner::Trusted),
        Err(error) => return Err(error.into()),
    }
    let uid = getsockopt(&ours, PeerCredentials)?.uid();
    let trusted = uid == 0 || uid == nix::unistd::geteuid().as_raw();
    Ok(if trusted { Owner::Trusted } else { Owner::Stranger })
}

/// True if anybody in the calling thread's network namespace has a name that begins like this, and may.
///
/// # Errors
/// If the kernel's list cannot be read.
pub fn any_begins_with(prefix: &str) -> io::Result<bool> {
    // The list of the thread's own namespace: `/proc/net` is that of the process's first thread.
    let list = std::fs::read_to_string("/proc/thread-self/net/unix")?;
    let name = |line: &str| {
        let path = line.split_ascii_whitespace().nth(7)?;
        path.strip_prefix(ABSTRACT).filter(|name| name.starts_with(prefix)).map(str::to_owned)
    };
    // A connection that nobody has accepted has the name of its listener in the list, too.
    Ok(list.lines().filter_map(name).any(|name| owner(&name).is_ok_and(|owner| owner == Owner::Trusted)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn a_name_is_taken_once_seen_by_all_and_free_again_afterwards() {
        let name = format!("linkhold-claim-{}", std::process::id());
        assert!(!any_begins_with(&name).unwrap());
        let claim = Claim::take(&name, 1).unwrap();
        assert!(claim.is_some() && Claim::take(&name, 2).unwrap().is_none());
        assert!(any_begins_with(&name[..name.len() - 1]).unwrap());
        drop(claim);
        // A child that another test has just forked may have the socket for a moment.
        let gone = (0..100).any(|_| {
            std::thread::sleep(PAUSE);
            !any_begins_with(&name).unwrap()
        });
        assert!(gone && Claim::take(&name, 100).unwrap().is_some());
    }

    /// Binds a name as another user, on a thread whose credentials are its own.
    fn as_another_user(name: String) -> UnixListener {
        let bind = move || {
            // SAFETY: the call takes numbers. The C library's function would change all threads; this changes
            // the calling one, which ends here.
            let changed = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
            assert_eq!(changed, 0);
            let address = SocketAddr::from_abstract_name(&name).unwrap();
            // As above: a forked child may still have what was dropped.
            let mut bound = UnixListener::bind_addr(&address);
            for _ in 0..100 {
                if bound.is_ok() {
                    break;
                }
                std::thread::sleep(PAUSE);
                bound = UnixListener::bind_addr(&address);
            }
            bound.unwrap()
        };
        std::thread::spawn(bind).join().unwrap()
    }

    #[test]
    fn another_users_socket_keeps_no_agent_from_its_name() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: only root can be another user");
            return;
        }
        let name = format!("linkhold-squat-{}", std::process::id());
        let squatter = as_another_user(name.clone());
        assert_eq!(owner(&name).unwrap(), Owner::Stranger);
        assert!(!any_begins_with(&name).unwrap());
        let claim = Claim::take(&name, 1).unwrap();
        assert!(claim.is_some() && Claim::take(&name, 1).unwrap().is_none());
        // Once the name is free, it does not stand for another one.
        drop(squatter);
        assert!(any_begins_with(&name).unwrap() && Claim::take(&name, 1).unwrap().is_none());
        drop(claim);
        let all: Vec<_> = (0..NAMES).map(|number| as_another_user(alias(&name, number))).collect();
        let refused = Claim::take(&name, 1).unwrap_err().to_string();
        assert!(refused.contains("other users have the names"), "{refused}");
        drop(all);
    }

    #[test]
    fn a_socket_of_another_kind_is_no_claim() {
        let name = format!("linkhold-kind-{}", std::process::id());
        let _other = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        assert!(!any_begins_with(&name).unwrap());
        assert!(Claim::take(&name, 1).unwrap().is_some());
    }
}
