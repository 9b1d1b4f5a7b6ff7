//! Switching an interface's offloads, as `ethtool -K` does (ioctl SIOCETHTOOL; linux/ethtool.h).
//!
//! Many systems have no `ethtool` program, and a testbed must know whether it sees packets of the wire's size
//! or aggregates of 64 kB.

use std::io;
use std::os::fd::AsRawFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// linux/sockios.h
const SIOCETHTOOL: libc::Ioctl = 0x8946;
/// linux/ethtool.h: set TCP segmentation, generic segmentation and generic receive offload.
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGSO: u32 = 0x24;
const ETHTOOL_SGRO: u32 = 0x2c;
/// linux/ethtool.h: set transmit checksum offload.
const ETHTOOL_STXCSUM: u32 = 0x17;
/// Any value up to IFNAMSIZ is a name.
const IFNAMSIZ: usize = 16;

/// linux/ethtool.h `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    value: u32,
}

/// linux/if.h `struct ifreq` with its pointer member; padded to the size the kernel copies (40 bytes).
#[repr(C)]
struct InterfaceRequest {
    name: [u8; IFNAMSIZ],
    data: *mut EthtoolValue,
    padding: [u8; 16],
}

/// Switches TSO, GSO and GRO of an interface in the calling thread's namespace.
///
/// # Errors
/// The system's answer: no such interface, no privilege, or an offload that cannot be switched.
pub fn set_segmentation_offloads(interface: &str, on: bool) -> io::Result<()> {
    set(interface, &[ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO], on)
}

/// Switches transmit checksum offload of an interface in the calling thread's namespace; off, the stack
/// computes every checksum itself. Segmentation offload needs it and goes off with it.
///
/// # Errors
/// As [`set_segmentation_offloads`].
pub fn set_checksum_offload(interface: &str, on: bool) -> io::Result<()> {
    set(interface, &[ETHTOOL_STXCSUM], on)
}

fn set(interface: &str, commands: &[u32], on: bool) -> io::Result<()> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut name = [0u8; IFNAMSIZ];
    if interface.len() >= IFNAMSIZ {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    name[..interface.len()].copy_from_slice(interface.as_bytes());
    for &command in commands {
        let mut value = EthtoolValue { command, value: u32::from(on) };
        let mut request = InterfaceRequest { name, data: &raw mut value, padding: [0; 16] };
        // SAFETY: SIOCETHTOOL reads an ifreq whose data pointer leads to an ethtool_value; both live on this
        // stack frame for the whole call and have the kernel's layout.
        let answer = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
