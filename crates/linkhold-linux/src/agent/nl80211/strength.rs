//! How strong a radio hears its stations: the signal-to-noise ratio from nl80211's station and survey dumps
//! (linux/nl80211.h).
//!
//! The ratio is the last frame's signal (`NL80211_STA_INFO_SIGNAL`, dBm) less the noise of the channel in use
//! (`NL80211_SURVEY_INFO_NOISE`, dBm). Many drivers tell no noise; the caller says what to take then. A host
//! has one station in its dump, the access point. Of several the strongest counts.
//!
//! Reading knows neither clock nor kernel: tests feed it messages.

use std::io;

use netlink_packet_core::{NLMSG_DONE, NLMSG_ERROR};
use netlink_packet_generic::GenlHeader;
use netlink_packet_generic::constants::GENL_HDRLEN;
use nix::errno::Errno;

use super::message::{ATTR_IFINDEX, CMD_NEW_STATION, attributes, number, split};
use super::socket::{EventSocket, Read, error_of};

// enum nl80211_commands
const CMD_GET_STATION: u8 = 17;
const CMD_GET_SURVEY: u8 = 50;
const CMD_NEW_SURVEY_RESULTS: u8 = 51;
// enum nl80211_attrs
const ATTR_STA_INFO: u16 = 21;
const ATTR_SURVEY_INFO: u16 = 84;
// enum nl80211_sta_info
const STA_INFO_SIGNAL: u16 = 7;
// enum nl80211_survey_info
const SURVEY_INFO_NOISE: u16 = 2;
const SURVEY_INFO_IN_USE: u16 = 3;

/// Most datagrams read for one question: 32 KiB each, some hundred stations.
const MAX_DATAGRAMS: usize = 64;

/// What the dumps told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Strongest station, dBm.
    pub signal: Option<i8>,
    /// Noise of the channel in use, dBm.
    pub noise: Option<i8>,
}

impl Levels {
    /// The ratio, dB, with `noise` where the radio told none; `None` without a station.
    #[must_use]
    pub fn ratio(&self, noise: i8) -> Option<f32> {
        self.signal.map(|signal| f32::from(signal) - f32::from(self.noise.unwrap_or(noise)))
    }

    /// Reads one datagram's messages about an interface; true if the dump ends in it.
    pub fn read(&mut self, family: u16, interface: u32, datagram: &[u8]) -> bool {
        let mut rest = datagram;
        while let Some((kind, payload, next)) = split(rest) {
            rest = next;
            match kind {
                NLMSG_DONE | NLMSG_ERROR => return true,
                kind if kind == family => self.hear(interface, payload),
                _ => {}
            }
        }
        false
    }

    fn hear(&mut self, interface: u32, payload: &[u8]) {
        let Ok(header) = GenlHeader::parse(payload) else { return };
        let told = payload.get(GENL_HDRLEN..).unwrap_or_default();
        let of = |wanted| attributes(told).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
        if of(ATTR_IFINDEX).and_then(number) != Some(interface) {
            return;
        }
        match header.cmd {
            CMD_NEW_STATION => {
                let signal = of(ATTR_STA_INFO).and_then(|info| level(info, STA_INFO_SIGNAL));
                self.signal = self.signal.max(signal);
            }
            CMD_NEW_SURVEY_RESULTS => {
                let Some(info) = of(ATTR_SURVEY_INFO) else { return };
                if attributes(info).any(|(kind, _)| kind == SURVEY_INFO_IN_USE) {
                    self.noise = level(info, SURVEY_INFO_NOISE).or(self.noise);
                }
            }
            _ => {}
        }
    }
}

/// A level in dBm: one signed byte.
fn level(info: &[u8], wanted: u16) -> Option<i8> {
    let (_, value) = attributes(info).find(|(kind, _)| *kind == wanted)?;
    match value {
        [level] => Some(level.cast_signed()),
        _ => None,
    }
}

/// Asks nl80211.
pub struct Strength {
    socket: EventSocket,
}

impl Strength {
    /// Opens a socket in the calling thread's network namespace; `None` where the kernel has no nl80211.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn open() -> io::Result<Option<Self>> {
        Ok(EventSocket::for_questions()?.map(|socket| Self { socket }))
    }

    /// As it was opened, where nl80211 is another one since, because its module was loaded anew.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn renew(&mut self) -> io::Result<()> {
        let newer = EventSocket::for_questions()?.ok_or(io::ErrorKind::NotFound)?;
        self.socket.give_way_to(Some(newer));
        Ok(())
    }

    /// What an interface hears now. The kernel answers while it is read, so this does not wait.
    ///
    /// # Errors
    /// The socket is broken, or nl80211 is gone.
    pub fn levels(&mut self, interface: u32) -> io::Result<Levels> {
        let mut levels = Levels::default();
        let about = about(interface);
        for command in [CMD_GET_STATION, CMD_GET_SURVEY] {
            self.socket.ask(command, &about)?;
            let family = self.socket.family();
            for _ in 0..MAX_DATAGRAMS {
                match self.socket.read()? {
                    Read::Datagram(datagram) => {
                        if is_gone(datagram) {
                            return Err(io::ErrorKind::NotFound.into());
                        }
                        if levels.read(family, interface, datagram) {
                            break;
                        }
                    }
                    Read::Lost | Read::Empty => break,
                }
            }
        }
        Ok(levels)
    }
}

/// True for the kernel's answer where there is no nl80211 of that number (any more): ENOENT. What else it
/// refuses, such as a survey that a driver does not make, leaves the rest as it is.
fn is_gone(datagram: &[u8]) -> bool {
    split(datagram)
        .is_some_and(|(kind, payload, _)| kind == NLMSG_ERROR && error_of(payload) == Errno::ENOENT)
}

/// The attribute that names an interface.
fn about(interface: u32) -> [u8; 8] {
    let mut attribute = [0; 8];
    attribute[..2].copy_from_slice(&8u16.to_ne_bytes());
    attribute[2..4].copy_from_slice(&ATTR_IFINDEX.to_ne_bytes());
    attribute[4..].copy_from_slice(&interface.to_ne_bytes());
    attribute
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILY: u16 = 32;

    #[test]
    fn an_answer_that_there_is_no_such_family_tells_that_nl80211_is_gone() {
        let refused = |errno: Errno| {
            let mut message = [0; 36];
            message[..4].copy_from_slice(&36u32.to_ne_bytes());
            message[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
            message[16..20].copy_from_slice(&(-(errno as i32)).to_ne_bytes());
            is_gone(&message)
        };
        assert!(refused(Errno::ENOENT));
        assert!(!refused(Errno::ENODEV) && !refused(Errno::EOPNOTSUPP) && !is_gone(&[]));
    }

    const RECORDED: &str = include_str!("recorded_dumps.txt");
    /// The interface that was recorded, a station's.
    const WLAN1: u32 = 3;

    /// Datagrams of the recording: which dump, and bytes.
    fn recorded() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
        RECORDED.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (dump, hex) = line.split_once(' ').expect("two fields");
            let digit = |digit: u8| char::from(digit).to_digit(16).expect("hexadecimal") as u8;
            (dump, hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect())
        })
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut out = [(4 + value.len() as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
        out.extend_from_slice(value);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    fn message(kind: u16, command: u8, attributes: &[u8]) -> Vec<u8> {
        let length = (20 + attributes.len()) as u32;
        let mut out = length.to_ne_bytes().to_vec();
        out.extend_from_slice(&kind.to_ne_bytes());
        // Flags (multi), sequence number, port; then the generic header.
        out.extend_from_slice(&[2, 0, 1, 0, 0, 0, 0, 0, 0, 0, command, 1, 0, 0]);
        out.extend_from_slice(attributes);
        out
    }

    fn station(interface: u32, signal: i8) -> Vec<u8> {
        // As the kernel's: nested attributes around the one that is read (inactive time, signal, its
        // average).
        let info =
            [attribute(1, &40u32.to_ne_bytes()), attribute(7, &[signal as u8]), attribute(13, &[0xd8])];
        let all =
            [about(interface).to_vec(), attribute(6, &[2, 0, 0, 0, 0, 0]), attribute(21, &info.concat())];
        message(FAMILY, CMD_NEW_STATION, &all.concat())
    }

    fn survey(interface: u32, in_use: bool, noise: i8) -> Vec<u8> {
        let mut info = [attribute(1, &2412u32.to_ne_bytes()), attribute(2, &[noise as u8])].concat();
        if in_use {
            info.extend(attribute(3, &[]));
        }
        let all = [about(interface).to_vec(), attribute(84, &info)].concat();
        message(FAMILY, CMD_NEW_SURVEY_RESULTS, &all)
    }

    fn done() -> Vec<u8> {
        message(NLMSG_DONE, 0, &[])
    }

    /// One access point at -20 dBm, among all that a kernel tells of a station, and a survey of two channels.
    /// mac80211_hwsim tells their noise, -92 dBm, but of neither that it is in use, so the caller's counts.
    #[test]
    fn a_recorded_stations_dumps_give_its_ratio() {
        let mut levels = Levels::default();
        let ended: Vec<(&str, bool)> =
            recorded().map(|(dump, datagram)| (dump, levels.read(FAMILY, WLAN1, &datagram))).collect();
        assert_eq!(ended, [("station", false), ("station", true), ("survey", false), ("survey", true)]);
        assert_eq!(levels, Levels { signal: Some(-20), noise: None });
        assert_eq!(levels.ratio(-95), Some(75.0));
        // Of another interface, or of another family's, the same datagrams tell nothing.
        for (family, interface) in [(FAMILY, WLAN1 + 1), (FAMILY + 1, WLAN1)] {
            let mut levels = Levels::default();
            for (_, datagram) in recorded() {
                levels.read(family, interface, &datagram);
            }
            assert_eq!(levels, Levels::default(), "{family}, {interface}");
        }
    }

    /// The recording has -20 dBm in three attributes, of the last frame, of the average and of beacons. Here
    /// the last frame's is another.
    #[test]
    fn a_recorded_stations_signal_is_its_last_frames() {
        let (_, mut datagram) = recorded().next().expect("a station");
        let last_frame = [5, 0, 7, 0, -20i8 as u8];
        let at = datagram.windows(5).position(|bytes| bytes == last_frame).expect("the attribute");
        datagram[at + 4] = -61i8 as u8;
        let mut levels = Levels::default();
        levels.read(FAMILY, WLAN1, &datagram);
        assert_eq!(levels, Levels { signal: Some(-61), noise: None });
    }

    /// The recorded survey with the flag that drivers of real radios put beside the channel in use.
    #[test]
    fn a_recorded_survey_tells_the_noise_of_the_channel_in_use() {
        /// Where a message has its length, and the first attribute behind the interface, the survey's.
        const SURVEY: usize = 28;
        let (_, mut datagram) = recorded().find(|(dump, _)| *dump == "survey").expect("a survey");
        let length = usize::from(datagram[0]);
        assert!(
            datagram.len() > length && datagram[1..4] == [0; 3],
            "two messages, each of less than 256 bytes"
        );
        datagram[0] += 4;
        datagram[SURVEY] += 4;
        datagram.splice(length..length, attribute(SURVEY_INFO_IN_USE, &[]));
        let mut levels = Levels { signal: Some(-20), noise: None };
        assert!(!levels.read(FAMILY, WLAN1, &datagram));
        assert_eq!(levels, Levels { signal: Some(-20), noise: Some(-92) });
        assert_eq!(levels.ratio(-95), Some(72.0));
    }

    #[test]
    fn damaged_recordings_end_the_reading() {
        for (_, whole) in recorded() {
            for at in 0..whole.len() {
                Levels::default().read(FAMILY, WLAN1, &whole[..at]);
                let mut bent = whole.clone();
                bent[at] ^= 0xff;
                Levels::default().read(FAMILY, WLAN1, &bent);
            }
        }
    }

    #[test]
    fn the_ratio_is_signal_less_noise() {
        let mut levels = Levels::default();
        let stations = [station(3, -61), station(4, -20), done()].concat();
        assert!(levels.read(FAMILY, 3, &stations));
        assert_eq!(levels, Levels { signal: Some(-61), noise: None });
        assert_eq!(levels.ratio(-95), Some(34.0));
        assert!(!levels.read(FAMILY, 3, &[survey(3, false, -80), survey(3, true, -92)].concat()));
        assert_eq!(levels.ratio(-95), Some(31.0));
        // Of several stations the strongest counts.
        levels.read(FAMILY, 3, &[station(3, -70), station(3, -50)].concat());
        assert_eq!(levels.ratio(-95), Some(42.0));
    }

    #[test]
    fn without_a_station_there_is_no_ratio() {
        let mut levels = Levels::default();
        assert!(levels.read(FAMILY, 3, &done()));
        assert_eq!(levels.ratio(-95), None);
        // Another family's message, and a level of the wrong length, say nothing.
        let other = message(FAMILY + 1, CMD_NEW_STATION, &[about(3).to_vec(), attribute(21, &[])].concat());
        let long = [about(3).to_vec(), attribute(21, &attribute(7, &[1, 2]))].concat();
        levels.read(FAMILY, 3, &[other, message(FAMILY, CMD_NEW_STATION, &long)].concat());
        assert_eq!(levels, Levels::default());
    }

    #[test]
    fn damaged_messages_end_the_reading() {
        let whole = [station(3, -61), survey(3, true, -92), done()].concat();
        for cut in 0..whole.len() {
            let mut levels = Levels::default();
            levels.read(FAMILY, 3, &whole[..cut]);
            for at in 0..cut {
                let mut bent = whole[..cut].to_vec();
                bent[at] ^= 0xff;
                Levels::default().read(FAMILY, 3, &bent);
            }
        }
    }

    #[test]
    fn a_kernel_without_wifi_is_no_error() {
        if let Some(mut strength) = Strength::open().unwrap() {
            assert_eq!(strength.levels(1).unwrap(), Levels::default(), "the loopback is no radio");
        }
    }
}
