//! The MAC header of the primary user's frames, and the address match by which a radio knows whose a frame
//! is.
//!
//! Sources: cr-aware section 4.2 (the station knows the primary user's hardware address in advance, and reads
//! the address field of each frame that comes in); IEEE Std 802.15.4-2006, clause 7.2 (formats), and table
//! 7-2 of the edition of 2015 (PAN identifiers of its frame version). Sees octets of an MPDU.
//!
//! ```text
//! frame control 2 │ sequence 1 │ PAN 2 │ destination 2 │ source 8        octets, the least significant first
//! ```
//! The paper names no receiver of the user's frames. So they go to everybody, and ask for no acknowledgment.

use std::fmt;

/// Octets of the header of a primary user's frame.
pub const USER_HEADER: u32 = 15;

/// Frame control of a primary user's frame: data, PAN ID compression, a short destination, an extended
/// source. Frame version 1 is that of 2006, which frames of more than 102 octets of payload need.
const USER_CONTROL: u16 = 0xd841;

/// An extended address (EUI-64), first octet first: as people and Wireshark write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExtendedAddress(
    /// Its octets.
    pub [u8; 8],
);

impl ExtendedAddress {
    /// The primary user's, unless it is set to another: locally administered, and no radio's.
    pub const PRIMARY_USER: Self = Self([2, 0, 0, 1, 0, 0, 0, 1]);

    /// True of the addresses that a capture gives to the radios of the cell: 02:00:00:00 and the radio's
    /// number.
    #[must_use]
    pub fn is_of_the_cell(self) -> bool {
        self.0.starts_with(&[2, 0, 0, 0])
    }

    /// As it stands in a frame.
    const fn to_frame(self) -> [u8; 8] {
        u64::from_be_bytes(self.0).to_le_bytes()
    }

    const fn from_frame(octets: [u8; 8]) -> Self {
        Self(u64::from_le_bytes(octets).to_be_bytes())
    }
}

impl fmt::Display for ExtendedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, octet) in self.0.iter().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            write!(f, "{colon}{octet:02x}")?;
        }
        Ok(())
    }
}

/// The MAC header of the primary user's frame number `sequence`.
#[must_use]
pub(crate) fn user_header(source: ExtendedAddress, sequence: u8) -> [u8; USER_HEADER as usize] {
    let [low, high] = USER_CONTROL.to_le_bytes();
    // PAN and destination stay as they are: those of everybody.
    let mut header = [0xff; USER_HEADER as usize];
    header[..3].copy_from_slice(&[low, high, sequence]);
    header[7..].copy_from_slice(&source.to_frame());
    header
}

/// True if the MPDU `frame` was sent by the radio with the extended address `address`: the address match.
#[must_use]
pub(crate) fn is_from(frame: &[u8], address: ExtendedAddress) -> bool {
    source(frame) == Some(address)
}

/// The extended source address of an MPDU; `None` if it has another or none, or is cut off before its end.
fn source(frame: &[u8]) -> Option<ExtendedAddress> {
    const BEACON: u16 = 0;
    const DATA: u16 = 1;
    const COMMAND: u16 = 3;
    const ABSENT: u16 = 0;
    const SHORT: u16 = 2;
    const EXTENDED: u16 = 3;
    let control = u16::from_le_bytes(*frame.first_chunk::<2>()?);
    let (kind, version) = (control & 0b111, (control >> 12) & 0b11);
    let (destination, source) = ((control >> 10) & 0b11, (control >> 14) & 0b11);
    if !matches!(kind, BEACON | DATA | COMMAND) || source != EXTENDED {
        return None;
    }
    // With PAN ID compression the source has no PAN identifier of its own.
    let own_pan = usize::from(control & (1 << 6) == 0);
    let (pans, destination_len) = match (version, destination) {
        (0 | 1, ABSENT) => (1, 0),
        (0..=2, SHORT) => (1 + own_pan, 2),
        (0 | 1, EXTENDED) => (1 + own_pan, 8),
        (2, ABSENT) => (own_pan, 0),
        // Of two extended addresses only the destination may have a PAN identifier.
        (2, EXTENDED) => (own_pan, 8),
        _ => return None,
    };
    // Frame version 2 may leave the sequence number out.
    let sequence_len = usize::from(version < 2 || control & (1 << 8) == 0);
    let octets = frame.get(2 + sequence_len + 2 * pans + destination_len..)?;
    Some(ExtendedAddress::from_frame(*octets.first_chunk::<8>()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const USER: ExtendedAddress = ExtendedAddress::PRIMARY_USER;

    #[test]
    fn an_address_is_written_as_wireshark_writes_it() {
        assert_eq!(USER.to_string(), "02:00:00:01:00:00:00:01");
        assert_eq!(ExtendedAddress([0xfe, 1, 2, 3, 4, 5, 6, 0xab]).to_string(), "fe:01:02:03:04:05:06:ab");
        assert!(ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 7]).is_of_the_cell() && !USER.is_of_the_cell());
    }

    #[test]
    fn the_users_header_is_the_standards() {
        let header = user_header(USER, 9);
        // Frame control 0xd841; PAN and address of everybody; the address from its last octet on.
        assert_eq!(header, [0x41, 0xd8, 9, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 1, 0, 0, 2]);
    }

    #[test]
    fn a_frame_is_the_users_if_its_source_address_is() {
        let address = USER.to_frame();
        let with = |start: &[u8]| [start, &address, b"payload"].concat();
        let header = user_header(USER, 9);
        let other = user_header(ExtendedAddress([2, 0, 0, 1, 0, 0, 0, 2]), 9);
        let to_the_user = [[0x41_u8, 0xec, 9].as_slice(), &address, &[1, 0, 0, 0, 0, 0, 0, 2]].concat();
        for (what, frame, expected) in [
            ("its own", with(&header[..7]), true),
            ("its own, without payload", header.to_vec(), true),
            ("another's", other.to_vec(), false),
            ("an octet short", header[..14].to_vec(), false),
            ("frame control alone", header[..2].to_vec(), false),
            ("nothing", Vec::new(), false),
            ("an acknowledgment", vec![0x02, 0x00, 9, 0xab, 0xcd], false),
            ("an acknowledgment with address modes", with(&[0x42, 0xd8, 9, 0xff, 0xff, 0xff, 0xff]), false),
            ("no source address", with(&[0x01, 0x08, 9, 0xff, 0xff, 0xff, 0xff]), false),
            ("a short source address", with(&[0x41, 0x88, 9, 0xff, 0xff, 0xff, 0xff]), false),
            ("the source's PAN as well", with(&[0x01, 0xc8, 9, 1, 0, 2, 0, 3, 0]), true),
            ("no destination", with(&[0x01, 0xc0, 9, 1, 0]), true),
            ("a beacon", with(&[0x00, 0xc0, 9, 1, 0]), true),
            ("two extended addresses", with(&[0x41, 0xdc, 9, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0]), true),
            ("as the cell's radios write it", with(&[0x41, 0xec, 9, 2, 0, 0, 0, 0, 0, 0, 0]), true),
            ("to the user, from another", to_the_user, false),
            ("without a sequence number", with(&[0x41, 0xed, 2, 0, 0, 0, 0, 0, 0, 0]), true),
            ("a reserved version", with(&[0x41, 0xf8, 9, 0xff, 0xff, 0xff, 0xff]), false),
            ("a reserved destination", with(&[0x41, 0xd4, 9, 0xff, 0xff, 0xff, 0xff]), false),
        ] {
            assert_eq!(is_from(&frame, USER), expected, "{what}: {frame:02x?}");
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_read(frame in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = is_from(&frame, USER);
        }
    }
}
