//! What nl80211 says, read from its bytes (linux/nl80211.h).
//!
//! Only the events of the groups `config`, `mlme` and `scan` that tell of silences are read; every other
//! message is `None`. An attribute of the wrong length counts as absent, and a length beyond the message ends
//! the reading.

use linkhold_core::time::Duration;
use netlink_packet_core::{NLA_HEADER_SIZE, NLMSG_ALIGNTO, NetlinkBuffer, NlaBuffer, NlasIterator};
use netlink_packet_generic::GenlHeader;
use netlink_packet_generic::constants::GENL_HDRLEN;

/// Length of a netlink message's header, bytes (linux/netlink.h).
pub(super) const HEADER: usize = 16;

// enum nl80211_commands
pub(super) const CMD_GET_INTERFACE: u8 = 5;
const CMD_SET_INTERFACE: u8 = 6;
const CMD_NEW_INTERFACE: u8 = 7;
const CMD_DEL_INTERFACE: u8 = 8;
const CMD_STOP_AP: u8 = 16;
pub(super) const CMD_NEW_STATION: u8 = 19;
const CMD_TRIGGER_SCAN: u8 = 33;
const CMD_NEW_SCAN_RESULTS: u8 = 34;
const CMD_SCAN_ABORTED: u8 = 35;
const CMD_REMAIN_ON_CHANNEL: u8 = 55;
const CMD_CANCEL_REMAIN_ON_CHANNEL: u8 = 56;
const CMD_CH_SWITCH_NOTIFY: u8 = 88;
const CMD_RADAR_DETECT: u8 = 94;
const CMD_CH_SWITCH_STARTED_NOTIFY: u8 = 110;

// enum nl80211_attrs
const ATTR_WIPHY: u16 = 1;
pub(super) const ATTR_IFINDEX: u16 = 3;
const ATTR_IFNAME: u16 = 4;
const ATTR_IFTYPE: u16 = 5;
const ATTR_WIPHY_FREQ: u16 = 38;
const ATTR_SCAN_FREQUENCIES: u16 = 44;
const ATTR_SCAN_SSIDS: u16 = 45;
const ATTR_DURATION: u16 = 87;
const ATTR_COOKIE: u16 = 88;
const ATTR_RADAR_EVENT: u16 = 168;
const ATTR_CH_SWITCH_COUNT: u16 = 183;
const ATTR_CH_SWITCH_BLOCK_TX: u16 = 184;

// enum nl80211_radar_event
const RADAR_DETECTED: u32 = 0;
const RADAR_CAC_STARTED: u32 = 5;

/// enum nl80211_iftype: ad hoc, access point, its VLANs, mesh point, peer-to-peer group owner.
const SERVING: [u32; 5] = [1, 3, 4, 7, 9];

/// Longest name of an interface, bytes (IFNAMSIZ less its NUL).
const MAX_NAME: usize = 15;
/// More channels than 802.11 has on 2.4, 5, 6 and 60 GHz together.
const MAX_CHANNELS: usize = 512;

/// What one message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Interface that it concerns; `None`: the whole radio.
    pub interface: Option<u32>,
    /// Radio that it concerns, where the message names it.
    pub wiphy: Option<u32>,
    /// MHz; which channel this is depends on the event.
    pub frequency: Option<u32>,
    /// What happened.
    pub event: Event<'a>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The access point counts down to another channel, `count` beacons from now; with `block_tx` nobody
    /// sends data until then (IEEE 802.11-2020, 9.4.2.18).
    SwitchStarted {
        /// Beacons until the switch, the first among them.
        count: u8,
        /// Stations must not send meanwhile, and the access point does not.
        block_tx: bool,
    },
    /// The interface works on another channel since now.
    Switched,
    /// A radar was heard.
    Radar,
    /// The interface listens for radars, and nothing else, before it may use a channel.
    CheckStarted,
    /// The radio leaves its channel to scan.
    ScanStarted {
        /// Channels that it goes through; 0: not said.
        channels: u32,
        /// It only listens, which takes longer a channel.
        passive: bool,
    },
    /// A scan ended, in whatever way.
    ScanEnded,
    /// The radio stays on another channel for a time.
    AwayStarted {
        /// How long.
        duration: Duration,
        /// Its number, which its end repeats.
        cookie: u64,
    },
    /// The radio is back on its channel.
    AwayEnded {
        /// Number of what ended.
        cookie: u64,
    },
    /// The access point sends no beacons any more.
    Stopped,
    /// A station came: the access point works.
    StationCame,
    /// There is an interface of this name, or it changed.
    Interface {
        /// Its name.
        name: &'a str,
        /// It is one that stations associate with, or that meshes: no station itself.
        serves: bool,
    },
    /// An interface is gone.
    InterfaceGone,
}

/// Reads the messages of one datagram, of this generic netlink family.
pub fn messages(family: u16, datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = datagram;
    core::iter::from_fn(move || {
        loop {
            let (kind, payload, next) = split(rest)?;
            rest = next;
            if kind == family
                && let Some(message) = message(payload)
            {
                return Some(message);
            }
        }
    })
}

/// The type and the payload of the first netlink message, and what follows it.
pub(super) fn split(datagram: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let header = NetlinkBuffer::new_checked(&datagram).ok()?;
    let length = header.length() as usize;
    let aligned = length.checked_next_multiple_of(usize::from(NLMSG_ALIGNTO))?;
    let payload = datagram.get(HEADER..length)?;
    Some((header.message_type(), payload, datagram.get(aligned..).unwrap_or_default()))
}

/// A generic netlink message: command, then attributes.
fn message(payload: &[u8]) -> Option<Message<'_>> {
    let command = GenlHeader::parse(payload).ok()?.cmd;
    let found = Attributes::read(payload.get(GENL_HDRLEN..)?);
    let event = match command {
        CMD_CH_SWITCH_STARTED_NOTIFY => Event::SwitchStarted {
            // The kernel sends 32 bits; 802.11 counts in eight.
            count: u8::try_from(found.switch_count?).unwrap_or(u8::MAX),
            block_tx: found.block_tx,
        },
        CMD_CH_SWITCH_NOTIFY => Event::Switched,
        CMD_RADAR_DETECT => match found.radar_event? {
            RADAR_DETECTED => Event::Radar,
            // Without an interface it is a check in the background, on a receiver of its own.
            RADAR_CAC_STARTED if found.interface.is_some() => Event::CheckStarted,
            _ => return None,
        },
        CMD_TRIGGER_SCAN => Event::ScanStarted { channels: found.channels, passive: !found.ssids },
        CMD_NEW_SCAN_RESULTS | CMD_SCAN_ABORTED => Event::ScanEnded,
        CMD_REMAIN_ON_CHANNEL => Event::AwayStarted {
            duration: Duration::from_millis(u64::from(found.duration_ms?)),
            cookie: found.cookie?,
        },
        CMD_CANCEL_REMAIN_ON_CHANNEL => Event::AwayEnded { cookie: found.cookie? },
        CMD_STOP_AP => Event::Stopped,
        CMD_NEW_STATION => Event::StationCame,
        CMD_NEW_INTERFACE | CMD_SET_INTERFACE => Event::Interface {
            name: found.name?,
            serves: found.kind.is_some_and(|kind| SERVING.contains(&kind)),
        },
        CMD_DEL_INTERFACE => Event::InterfaceGone,
        _ => return None,
    };
    Some(Message { interface: found.interface, wiphy: found.wiphy, frequency: found.frequency, event })
}

/// The attributes that matter here.
#[derive(Default)]
struct Attributes<'a> {
    wiphy: Option<u32>,
    interface: Option<u32>,
    name: Option<&'a str>,
    kind: Option<u32>,
    frequency: Option<u32>,
    channels: u32,
    ssids: bool,
    duration_ms: Option<u32>,
    cookie: Option<u64>,
    radar_event: Option<u32>,
    switch_count: Option<u32>,
    block_tx: bool,
}

impl<'a> Attributes<'a> {
    fn read(bytes: &'a [u8]) -> Self {
        let mut this = Self::default();
        for (kind, value) in attributes(bytes) {
            match kind {
                ATTR_WIPHY => this.wiphy = number(value),
                ATTR_IFINDEX => this.interface = number(value).filter(|index| *index != 0),
                ATTR_IFNAME => this.name = name(value),
                ATTR_IFTYPE => this.kind = number(value),
                ATTR_WIPHY_FREQ => this.frequency = number(value),
                ATTR_SCAN_FREQUENCIES => {
                    this.channels = attributes(value).take(MAX_CHANNELS).count() as u32;
                }
                ATTR_SCAN_SSIDS => this.ssids = !value.is_empty(),
                ATTR_DURATION => this.duration_ms = number(value),
                ATTR_COOKIE => this.cookie = value.try_into().ok().map(u64::from_ne_bytes),
                ATTR_RADAR_EVENT => this.radar_event = number(value),
                ATTR_CH_SWITCH_COUNT => this.switch_count = number(value),
                ATTR_CH_SWITCH_BLOCK_TX => this.block_tx = true,
                _ => {}
            }
        }
        this
    }
}

/// The attributes as type and value; a broken one ends them.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes).map_while(|attribute| {
        let attribute: NlaBuffer<&[u8]> = attribute.ok()?;
        let (kind, length) = (attribute.kind(), usize::from(attribute.length()));
        Some((kind, attribute.into_inner().get(NLA_HEADER_SIZE..length)?))
    })
}

pub(super) fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

/// A name up to its NUL.
pub(super) fn name(value: &[u8]) -> Option<&str> {
    let name = value.split(|byte| *byte == 0).next()?;
    str::from_utf8(name).ok().filter(|name| (1..=MAX_NAME).contains(&name.len()))
}
