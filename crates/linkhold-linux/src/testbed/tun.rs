//! TUN devices inside network namespaces: where the kernel's packets enter and leave the simulated air.
//!
//! Source: Documentation/networking/tuntap.rst. A TUN carries IP packets without a link layer; with
//! segmentation offload off (the default) the kernel hands over packets of at most one MTU, as a radio would
//! get them.

use std::io;
use std::os::fd::AsRawFd;
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use tun_rs::{DeviceBuilder, SyncDevice};

use crate::netns::{NetNs, NetNsError};

/// IP packet size of every link of the testbed, bytes.
pub const MTU: u16 = 1500;

/// One TUN device. It goes when the device is dropped or its namespace is removed.
pub struct Tun {
    device: SyncDevice,
    name: String,
}

impl Tun {
    /// Makes a TUN called `name` inside `netns`, up, non-blocking.
    ///
    /// # Errors
    /// [`NetNsError::System`] without the privileges or without `/dev/net/tun`.
    pub fn create(netns: &NetNs, name: &str) -> Result<Self, NetNsError> {
        let device = netns
            .enter(|| {
                let device = DeviceBuilder::new().name(name).mtu(MTU).build_sync()?;
                device.set_nonblocking(true)?;
                Ok::<_, io::Error>(device)
            })?
            .map_err(|source| NetNsError::System {
                what: format!("make TUN {name} in {}", netns.name()),
                source,
            })?;
        // A packet waits in the engine's queues, where it is measured, not in the kernel's.
        netns.ip(&["link", "set", name, "txqueuelen", "10000"])?;
        Ok(Self { device, name: name.to_owned() })
    }

    /// Its interface name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads one packet that the kernel sent out by this interface; `None` if there is none now.
    ///
    /// # Errors
    /// The system's, other than "would block".
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.device.recv(buffer) {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands the kernel a packet as received on this interface. False if the kernel had no room for it.
    ///
    /// # Errors
    /// The system's, other than lack of room.
    pub fn write(&self, packet: &[u8]) -> io::Result<bool> {
        match self.device.send(packet) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Its file descriptor, for polling.
    #[must_use]
    pub fn raw_fd(&self) -> RawFd {
        self.device.as_raw_fd()
    }
}

impl AsFd for Tun {
    #[allow(unsafe_code, reason = "tun-rs offers only the raw descriptor")]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the device owns the descriptor and outlives the borrow of `self`.
        unsafe { BorrowedFd::borrow_raw(self.device.as_raw_fd()) }
    }
}
