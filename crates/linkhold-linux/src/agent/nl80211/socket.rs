//! The generic netlink socket on which nl80211 tells its events (linux/genetlink.h).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use netlink_packet_core::{Emitable, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_ERROR, NetlinkHeader, NetlinkMessage};
use netlink_packet_generic::constants::{
    CTRL_ATTR_FAMILY_ID, CTRL_ATTR_MCAST_GROUPS, CTRL_ATTR_MCAST_GRP_ID, CTRL_ATTR_MCAST_GRP_NAME,
    GENL_HDRLEN, GENL_ID_CTRL,
};
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlHeader, GenlMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::message::{self, CMD_GET_INTERFACE, HEADER, attributes, number};

/// Groups whose events are read: interfaces; switches, radar, time on other channels, stations; scans.
const GROUPS: [&str; 3] = ["config", "mlme", "scan"];
/// Longest datagram that is read, bytes: the kernel's dumps fill 32 KiB.
pub(super) const MAX_DATAGRAM: usize = 32 * 1024;
/// The kernel answers at once; this is for a kernel that does not.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// What a read brought.
pub(super) enum Read<'a> {
    /// A datagram.
    Datagram(&'a [u8]),
    /// The kernel dropped events, because the agent was too slow.
    Lost,
    /// Nothing more.
    Empty,
}

/// The socket, in the groups of nl80211's events.
pub(super) struct EventSocket {
    socket: Socket,
    family: u16,
    buffer: Box<[u8]>,
}

impl EventSocket {
    /// Opens the socket in the calling thread's network namespace; `None` where the kernel has no nl80211.
    pub(super) fn open() -> io::Result<Option<Self>> {
        let Some((this, groups)) = Self::connect()? else { return Ok(None) };
        for group in groups {
            this.socket.add_membership(group)?;
        }
        Ok(Some(this))
    }

    /// As `open`, for questions only: no event comes.
    pub(super) fn for_questions() -> io::Result<Option<Self>> {
        Ok(Self::connect()?.map(|(this, _groups)| this))
    }

    fn connect() -> io::Result<Option<(Self, Vec<u32>)>> {
        let mut socket = match Socket::new(NETLINK_GENERIC) {
            Err(error) if error.raw_os_error() == Some(Errno::EPROTONOSUPPORT as i32) => return Ok(None),
            socket => socket?,
        };
        socket.bind_auto()?;
        // Connected to the kernel, the socket takes nothing from other processes.
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_non_blocking(true)?;
        let mut this = Self { socket, family: 0, buffer: vec![0; MAX_DATAGRAM].into() };
        this.send(&family_request())?;
        let Some((family, groups)) = this.answer()? else { return Ok(None) };
        this.family = family;
        Ok(Some((this, groups)))
    }

    /// Another one takes the place of this one if nl80211 is another since; true if it did.
    pub(super) fn give_way_to(&mut self, newer: Option<Self>) -> bool {
        let Some(newer) = newer.filter(|newer| newer.family != self.family) else { return false };
        *self = newer;
        true
    }

    /// Number of nl80211's generic netlink family on this kernel.
    pub(super) fn family(&self) -> u16 {
        self.family
    }

    /// Readable when an event is there.
    pub(super) fn readable(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is the socket's, which lives as long as the borrow of `self`.
        unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) }
    }

    /// Asks which interfaces there are. The answers come among the events, and look like them.
    pub(super) fn ask_for_interfaces(&self) -> io::Result<()> {
        self.ask(CMD_GET_INTERFACE, &[])
    }

    /// Asks for everything that a command tells; `attributes` are those of the question.
    pub(super) fn ask(&self, command: u8, attributes: &[u8]) -> io::Result<()> {
        let mut request = vec![0; HEADER + GENL_HDRLEN];
        request.extend_from_slice(attributes);
        let mut header = NetlinkHeader::default();
        header.length = request.len() as u32;
        header.message_type = self.family;
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        header.emit(&mut request);
        let (_, generic) = request.split_at_mut(HEADER);
        GenlHeader { cmd: command, version: 0 }.emit(generic);
        self.send(&request)
    }

    /// Reads one datagram without waiting.
    pub(super) fn read(&mut self) -> io::Result<Read<'_>> {
        match self.receive() {
            Ok(datagram) => Ok(Read::Datagram(self.buffer.get(..datagram).unwrap_or_default())),
            Err(error) => match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
                Errno::EAGAIN | Errno::EINTR => Ok(Read::Empty),
                Errno::ENOBUFS => Ok(Read::Lost),
                _ => Err(error),
            },
        }
    }

    /// Reads the next datagram into the buffer, and returns its length.
    fn receive(&mut self) -> io::Result<usize> {
        self.socket.recv(&mut &mut self.buffer[..], 0)
    }

    fn send(&self, request: &[u8]) -> io::Result<()> {
        self.socket.send(request, 0).map(|_| ())
    }

    /// Waits for the answer about the family: its number and the numbers of [`GROUPS`].
    fn answer(&mut self) -> io::Result<Option<(u16, Vec<u32>)>> {
        let timeout = PollTimeout::try_from(ANSWER_TIMEOUT).unwrap_or(PollTimeout::MAX);
        if poll(&mut [PollFd::new(self.readable(), PollFlags::POLLIN)], timeout)? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let length = self.receive()?;
        let datagram = self.buffer.get(..length).unwrap_or_default();
        match message::split(datagram) {
            Some((NLMSG_ERROR, payload, _)) => match error_of(payload) {
                Errno::ENOENT => Ok(None),
                errno => Err(errno.into()),
            },
            None => Err(io::ErrorKind::InvalidData.into()),
            Some((_, payload, _)) => family_and_groups(payload.get(GENL_HDRLEN..).unwrap_or_default()),
        }
    }
}

/// What an error message says: struct nlmsgerr begins with a negative number of errno.h.
pub(super) fn error_of(payload: &[u8]) -> Errno {
    let code = payload.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
    Errno::from_raw(code.saturating_neg())
}

fn family_request() -> Vec<u8> {
    let name = GenlCtrlAttrs::FamilyName("nl80211".to_owned());
    let request = GenlMessage::from_payload(GenlCtrl { cmd: GenlCtrlCmd::GetFamily, nlas: vec![name] });
    let mut message = NetlinkMessage::from(request);
    message.header.flags = NLM_F_REQUEST;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// From the controller's answer: the family's number, and those of the groups. The crate's own parser refuses
/// the whole answer for one attribute that it does not know.
fn family_and_groups(answer: &[u8]) -> io::Result<Option<(u16, Vec<u32>)>> {
    let mut family = None;
    let mut groups = [None; GROUPS.len()];
    for (kind, value) in attributes(answer) {
        match kind {
            CTRL_ATTR_FAMILY_ID => family = value.try_into().ok().map(u16::from_ne_bytes),
            CTRL_ATTR_MCAST_GROUPS => {
                for (_, group) in attributes(value) {
                    let of = |wanted| attributes(group).find(|(kind, _)| *kind == wanted);
                    let name = of(CTRL_ATTR_MCAST_GRP_NAME).and_then(|(_, value)| message::name(value));
                    let place = GROUPS.iter().position(|wanted| name == Some(*wanted));
                    if let Some(slot) = place.and_then(|place| groups.get_mut(place)) {
                        *slot = of(CTRL_ATTR_MCAST_GRP_ID).and_then(|(_, value)| number(value));
                    }
                }
            }
            _ => {}
        }
    }
    let Some(family) = family.filter(|family| *family > GENL_ID_CTRL) else { return Ok(None) };
    match groups.into_iter().collect::<Option<Vec<u32>>>() {
        Some(groups) => Ok(Some((family, groups))),
        None => {
            let what = format!("nl80211 lacks one of the groups {}", GROUPS.join(", "));
            Err(io::Error::other(what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut out = [(4 + value.len() as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
        out.extend_from_slice(value);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    fn group(name: &str, number: u32) -> Vec<u8> {
        let name = attribute(CTRL_ATTR_MCAST_GRP_NAME, &[name.as_bytes(), b"\0"].concat());
        attribute(1, &[attribute(CTRL_ATTR_MCAST_GRP_ID, &number.to_ne_bytes()), name].concat())
    }

    fn answer(groups: &[Vec<u8>]) -> Vec<u8> {
        let number = attribute(CTRL_ATTR_FAMILY_ID, &32u16.to_ne_bytes());
        // One that nobody knows yet.
        let unknown = attribute(77, &[1, 2, 3]);
        [unknown, number, attribute(CTRL_ATTR_MCAST_GROUPS, &groups.concat())].concat()
    }

    #[test]
    fn the_controllers_answer_names_the_family_and_its_groups() {
        let groups = [group("scan", 7), group("regulatory", 8), group("config", 6), group("mlme", 9)];
        assert_eq!(family_and_groups(&answer(&groups)).unwrap(), Some((32, vec![6, 9, 7])));
        assert_eq!(family_and_groups(&[]).unwrap(), None);
        let error = family_and_groups(&answer(&groups[..3])).unwrap_err();
        assert!(error.to_string().contains("config, mlme, scan"), "{error}");
    }

    #[test]
    fn a_kernel_without_wifi_is_no_error() {
        // Where this machine has nl80211, the groups must be there.
        if let Some(mut socket) = EventSocket::open().unwrap() {
            assert!(socket.family() > GENL_ID_CTRL);
            assert!(matches!(socket.read().unwrap(), Read::Empty | Read::Datagram(_)));
        }
    }
}
