//! Names that one process of a network namespace has at a time: abstract Unix sockets. Such a name is unique
//! in its network namespace, and it goes with its process, however that ends.
//!
//! Anybody may bind such a name, which has no permissions. So a name counts only if who listens at it is root
//! or the user of this process (SO_PEERCRED); where another has it, the next of a few names stands for it.
//! Anybody may also connect to a name until no more connections can wait there. Then the kernel is asked
//! whose socket it is (sock_diag).
//!
//! Source: unix(7), abstract sockets, SO_PEERCRED; proc(5), `/proc/net/unix`; sock_diag(7); Linux,
//! net/unix/diag.c and unix_diag.h (`UNIX_DIAG_UID`, since 5.3).

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use nix::sys::socket::sockopt::{PeerCredentials, ReceiveTimeout};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, UnixAddr, connect, getsockopt, recv, send,
    setsockopt, socket,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// What the names in the kernel's list begin with.
const ABSTRACT: char = '@';
/// Between two attempts at a name that another has.
const PAUSE: Duration = Duration::from_millis(20);
/// A message of sock_diag(7).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// The end of an answer, and an error.
const DONE: u16 = libc::NLMSG_DONE as u16;
const ERROR: u16 = libc::NLMSG_ERROR as u16;
/// The state of a socket that listens (`TCP_LISTEN`, for Unix sockets as well).
const LISTENS: u8 = 10;
/// Longest part of the kernel's answer, bytes.
const ANSWER: usize = 64 * 1024;
/// The kernel answers at once, each part and the whole.
const TIME_LIMIT_MS: i64 = 200;
const DUMP_LIMIT: Duration = Duration::from_secs(1);
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
    /// The kernel does not say whose it is.
    Unknown,
}

impl Owner {
    fn of(uid: u32) -> Self {
        let trusted = uid == 0 || uid == nix::unistd::geteuid().as_raw();
        if trusted { Self::Trusted } else { Self::Stranger }
    }
}

impl Claim {
    /// Takes a name, and tries so many times; `None` if another that may have it has it all the while.
    ///
    /// # Errors
    /// Where no such socket can be made, strangers have every name that could stand for this one, or nobody
    /// can tell whose one of them is.
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
        let mut unknown = None;
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
                Owner::Unknown => unknown = Some(name),
            }
        }
        if let Some(name) = unknown {
            return Err(io::Error::other(format!("nobody can tell whose the name @{name} is")));
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
    match connect(ours.as_raw_fd(), &address) {
        Ok(()) => {}
        Err(Errno::ECONNREFUSED) => return Ok(Owner::Nobody),
        // So many connections wait there that ours cannot.
        Err(Errno::EAGAIN) => {
            return Ok(owner_by_list(name).unwrap_or_else(|error| {
                tracing::debug!(%error, name, "the kernel does not tell whose this name is");
                Owner::Unknown
            }));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Owner::of(getsockopt(&ours, PeerCredentials)?.uid()))
}

/// Whose socket listens at a name, by the kernel's list.
fn owner_by_list(name: &str) -> io::Result<Owner> {
    // struct nlmsghdr, then struct unix_diag_req, which asks for every listener: family, protocol, states as
    // bits, inode, what to show, cookie.
    const SHOW_NAME: u32 = 1;
    const SHOW_UID: u32 = 0x40;
    const REQUEST: u32 = 40;
    let mut request = Vec::new();
    request.extend(REQUEST.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    request.extend([0; 8]);
    request.extend([libc::AF_UNIX as u8, 0, 0, 0]);
    for number in [1 << LISTENS, 0, SHOW_NAME | SHOW_UID, 0, 0] {
        request.extend(number.to_ne_bytes());
    }
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Netlink, SockType::Datagram, flags, SockProtocol::NetlinkSockDiag)?;
    setsockopt(&socket, ReceiveTimeout, &TimeVal::milliseconds(TIME_LIMIT_MS))?;
    send(socket.as_raw_fd(), &request, MsgFlags::empty())?;
    let mut answer = vec![0; ANSWER];
    let begun = std::time::Instant::now();
    while begun.elapsed() < DUMP_LIMIT {
        let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        let mut rest = answer.get(..length).unwrap_or_default();
        while let Some((kind, body, behind)) = first_message(rest) {
            match kind {
                SOCK_DIAG_BY_FAMILY if is_named(body, name) => {
                    return Ok(uid_of(body).map_or(Owner::Unknown, Owner::of));
                }
                SOCK_DIAG_BY_FAMILY => {}
                DONE => return Ok(Owner::Nobody),
                // An error's number comes first, negative.
                ERROR => {
                    let errno =
                        number(body, 0..4).map_or(libc::EPROTO, |errno| (errno as i32).wrapping_neg());
                    return Err(io::Error::from_raw_os_error(errno));
                }
                _ => {}
            }
            rest = behind;
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// The type and body of the first netlink message, and what is behind it.
fn first_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(number(bytes, 0..4)?).ok()?;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    Some((kind, bytes.get(16..length)?, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

fn number(bytes: &[u8], place: Range<usize>) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(place)?.try_into().ok()?))
}

/// The value of an attribute of a socket, behind struct unix_diag_msg.
fn attribute(socket: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut rest = socket.get(16..)?;
    loop {
        let length = usize::from(u16::from_ne_bytes(rest.get(0..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?);
        let value = rest.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

/// True if a listening socket has this abstract name. A connection that waits there has the name, too, but
/// does not listen.
fn is_named(socket: &[u8], name: &str) -> bool {
    const NAME: u16 = 0;
    socket.get(2) == Some(&LISTENS)
        && attribute(socket, NAME).and_then(|name| name.strip_prefix(&[0])) == Some(name.as_bytes())
}

fn uid_of(socket: &[u8]) -> Option<u32> {
    const UID: u16 = 7;
    number(attribute(socket, UID)?, 0..4)
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
    // A connection that nobody has accepted has the name of its listener in the list, too. Where nobody can
    // tell, it counts: rather a table too many than one that another agent needs.
    let may_have_it =
        |name: String| owner(&name).is_ok_and(|owner| matches!(owner, Owner::Trusted | Owner::Unknown));
    Ok(list.lines().filter_map(name).any(may_have_it))
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
            linkhold_testing::skipped("only root can be another user");
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

    /// Connects to a name until nothing more can wait there.
    fn crowd(name: &str) -> Vec<OwnedFd> {
        let address = UnixAddr::new_abstract(name.as_bytes()).unwrap();
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let mut crowd = Vec::new();
        loop {
            let one = socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
            match connect(one.as_raw_fd(), &address) {
                Ok(()) => crowd.push(one),
                Err(nix::errno::Errno::EAGAIN) => return crowd,
                Err(error) => panic!("{error} after {}", crowd.len()),
            }
        }
    }

    #[test]
    fn a_name_at_which_nothing_more_can_wait_is_whose_it_is() {
        if !nix::unistd::geteuid().is_root() {
            linkhold_testing::skipped("only root can be another user");
            return;
        }
        let name = format!("linkhold-crowd-{}", std::process::id());
        let squatter = as_another_user(name.clone());
        // The default backlog is up to 4096, more than a process may have descriptors.
        // SAFETY: the call takes numbers.
        assert_eq!(unsafe { libc::listen(squatter.as_raw_fd(), 3) }, 0);
        let waiting = crowd(&name);
        assert_eq!(owner(&name).unwrap(), Owner::Stranger);
        let claim = Claim::take(&name, 1).unwrap().expect("a stranger keeps nobody from the name");
        drop((waiting, squatter));
        // SAFETY: as above.
        assert_eq!(unsafe { libc::listen(claim._listener.as_raw_fd(), 3) }, 0);
        let waiting = crowd(&alias(&name, 1));
        assert_eq!(owner(&alias(&name, 1)).unwrap(), Owner::Trusted);
        assert!(Claim::take(&name, 1).unwrap().is_none() && any_begins_with(&name).unwrap());
        drop(waiting);
        assert_eq!(owner_by_list("linkhold-nobody-listens-here").unwrap(), Owner::Nobody);
    }

    #[test]
    fn an_answer_of_the_kernel_that_is_cut_short_tells_nothing() {
        let mut message = vec![0; 16];
        message[2] = LISTENS;
        message.extend([7, 0, 0, 0, 0, b'a', b'b', 0, 8, 0, 7, 0, 1, 0, 0, 0]);
        assert!(is_named(&message, "ab") && !is_named(&message, "a"));
        assert_eq!(uid_of(&message), Some(u32::from_ne_bytes([1, 0, 0, 0])));
        for length in 0..message.len() {
            assert_eq!(uid_of(&message[..length]), None);
            let _ = (first_message(&message[..length]), is_named(&message[..length], "ab"));
        }
    }

    #[test]
    fn a_socket_of_another_kind_is_no_claim() {
        let name = format!("linkhold-kind-{}", std::process::id());
        let _other = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        assert!(!any_begins_with(&name).unwrap());
        assert!(Claim::take(&name, 1).unwrap().is_some());
    }
}
