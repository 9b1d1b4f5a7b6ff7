//! `radio.mac = "802.15.4"`: its tables become the radio's configuration, and every key that it does not use
//! is reported.

use linkhold_core::time::Duration;
use linkhold_radio::ieee802154::{LEAST_USER_INTERVAL, RATE};
use linkhold_radio::{
    AirConfig, ChannelConfig, ExtendedAddress, Ieee802154Config, InSilence, Mac, OverhearConfig, Switching,
};
use linkhold_tcp::TcpConfig;

use crate::file::{File, Overhear, PrimaryUser};
use crate::link::Link;
use crate::primary_user;
use crate::read::{At, Origin, Reader, Spot};
use crate::spots;
use crate::told;
use crate::traces::Traces;

/// The largest MPDU that a scenario may ask for: the paper's. The standard's is one octet less.
const LARGEST_MPDU: u32 = 128;
/// What is around a packet's options and data: the difference between an MPDU and its `tcp.mss`.
pub(crate) const AROUND: u32 = linkhold_radio::ieee802154::MAC_HEADER
    + linkhold_radio::ieee802154::TRANSPORT_HEADER
    + linkhold_radio::ieee802154::FCS;
/// The smallest: room for the least `tcp.mss` of 88.
const SMALLEST_MPDU: u32 = 88 + AROUND;

/// The link with its one channel; `None` after reporting why not.
pub(crate) fn link(file: &File, reader: &Reader<'_>, traces: &mut Traces<'_>) -> Option<Link> {
    let user = file.radio.primary_user.as_ref();
    let user = user.map(|user| primary_user::resolve(user, 0, file, reader, traces));
    let user = user.map_or(Some(None), |user| user.map(Some));
    let ((mac, channel), user) = radio(file, reader).zip(user)?;
    let mut channels = vec![channel];
    let (measured_users, users_told) = primary_user::install(vec![user], &mut channels);
    // The radios detect it by what they overhear, each with the delays of `overhear`.
    for user in channels.iter_mut().filter_map(|channel| channel.primary_user.as_mut()) {
        user.detection_delay = Duration::ZERO;
    }
    Some(Link {
        mac,
        channels,
        measured_users,
        users_told,
        initial_channel: 0,
        rate_told: *file.radio.rate_told,
        switching: Switching::default(),
        retry_limit: 0,
        traces: None,
        snr: None,
    })
}

/// The medium access and its one channel, still without its primary user; `None` after reporting why not.
fn radio(file: &File, reader: &Reader<'_>) -> Option<(Mac, ChannelConfig)> {
    report_idle(file, reader);
    let table = &file.radio.ieee802154;
    let mut fine = true;
    let mut within = |at: &At<u8>, least: u8, most: u8| {
        let fits = (least..=most).contains(&at.value);
        if !fits {
            let what = format!("{} is out of range", at.value);
            reader.report(&at.spot, what, format!("IEEE 802.15.4 has {least} to {most}"));
        }
        fine &= fits;
    };
    within(&table.max_be, 3, 8);
    within(&table.min_be, 0, 8);
    within(&table.max_csma_backoffs, 0, 5);
    within(&table.max_frame_retries, 0, 7);
    if *table.min_be > *table.max_be {
        let what = format!("min_be ({}) is above max_be ({})", *table.min_be, *table.max_be);
        reader.report_between(&[&table.min_be.spot, &table.max_be.spot], what, "make min_be the smaller");
        fine = false;
    }
    if !(SMALLEST_MPDU..=LARGEST_MPDU).contains(&table.mpdu) {
        let what = format!("an MPDU of {} bytes is out of range", *table.mpdu);
        let right = format!(
            "write {SMALLEST_MPDU} to {LARGEST_MPDU}; the standard's largest is 127, the cr-aware paper's 128"
        );
        reader.report(&table.mpdu.spot, what, right);
        fine = false;
    }
    let user = file.radio.primary_user.as_ref();
    if let Some(At { value: interval, spot }) = user.map(|user| &user.overhear.frame_interval)
        && **interval < LEAST_USER_INTERVAL
    {
        let right = format!("write {LEAST_USER_INTERVAL} or more: the shortest frame and its spacing");
        reader.report(spot, format!("{} is too short for a frame", **interval), right);
        fine = false;
    }
    let mac = Ieee802154Config {
        min_be: *table.min_be,
        max_be: *table.max_be,
        max_csma_backoffs: *table.max_csma_backoffs,
        max_frame_retries: *table.max_frame_retries,
        acknowledged: *table.acknowledged,
        mpdu: *table.mpdu,
        processing_time: *table.processing_time,
        frame_loss: *table.frame_loss,
        after_busy: *table.after_busy,
        user_heard_by: user.map(|user| *user.heard_by).unwrap_or_default(),
        user_address: user.map_or(ExtendedAddress::PRIMARY_USER, |user| *user.address),
        overhearing: user.map(|user| overhearing(user)).unwrap_or_default(),
        ..Ieee802154Config::default()
    };
    let channel = ChannelConfig { phy_rate: RATE, efficiency: mac.efficiency(), primary_user: None };
    fine.then_some((Mac::Ieee802154(mac), channel))
}

fn overhearing(user: &PrimaryUser) -> OverhearConfig {
    let Overhear { address, frame_interval, missed, delay, idle_time, false_alarms } = &user.overhear.value;
    OverhearConfig {
        address: address.as_ref().map_or(*user.address, |at| at.value),
        frame_interval: *frame_interval.value,
        missed: missed.value,
        delay: delay.value,
        idle_time: *idle_time.value,
        false_alarms: false_alarms.value.value().map_or(0.0, |rate| rate.per_second),
    }
}

/// Reports the keys that do something with the other MACs only.
fn report_idle(file: &File, reader: &Reader<'_>) {
    let radio = &file.radio;
    let mut idle: Vec<(&Spot, &str)> = Vec::new();
    let rate = "remove it: O-QPSK at 2450 MHz has 250 kbit/s, and each frame is timed by the standard";
    idle.extend(radio.phy_rate.iter().map(|at| (&at.spot, rate)));
    idle.extend([(&radio.air_time.spot, rate), (&radio.mac_efficiency.spot, rate)]);
    idle.push((&radio.retry_limit.spot, "write radio.ieee802154.max_frame_retries"));
    let one = "remove it: this radio has one channel, which it does not leave";
    idle.extend(radio.channels.iter().map(|at| (&at.spot, one)));
    idle.extend(radio.switches.iter().map(|at| (&at.spot, one)));
    idle.extend([
        (&radio.channel.spot, one),
        (&radio.switching_delay.spot, one),
        (&radio.switch_policy.spot, one),
    ]);
    let listens = "remove it: this radio has no quiet periods; it listens for the primary user's frames";
    idle.extend(radio.sensing.iter().map(|at| (&at.spot, listens)));
    idle.extend(radio.station_sensing.iter().map(|at| (&at.spot, listens)));
    let trace = "write radio.mac = \"trace\" or remove it";
    idle.extend(radio.trace.iter().map(|at| (&at.spot, trace)));
    let loss = "write radio.ieee802154.frame_loss: no error rate of O-QPSK over the SNR is modelled";
    idle.extend(radio.snr.iter().map(|at| (&at.spot, loss)));
    if let Some(user) = &radio.primary_user {
        let delay = "write radio.primary_user.overhear.delay";
        let end = "write radio.primary_user.overhear.idle_time";
        idle.extend([(&user.detection_delay.spot, delay), (&user.end_detection_delay.spot, end)]);
        let overhear = "write radio.primary_user.overhear: each radio tells its own host what it overhears";
        idle.extend(told::spots(&user.told).into_iter().map(|spot| (spot, overhear)));
    }
    for told in [&radio.told, &radio.switching.told] {
        let overhear = "write radio.primary_user.overhear: each radio tells its own host what it overhears";
        idle.extend(told::spots(told).into_iter().map(|spot| (spot, overhear)));
    }
    let never = "remove it: each radio finds the medium busy by itself, and queues go on as ever";
    for queue in [&file.router, &file.station] {
        if *queue.in_silence != InSilence::Queue {
            idle.push((&queue.in_silence.spot, never));
        }
    }
    for (spot, right) in idle {
        spots::report_idle(&[spot], "with mac = \"802.15.4\"", right, reader);
    }
}

/// Reports what only this MAC uses, where another is used.
pub(crate) fn report_idle_without(file: &File, reader: &Reader<'_>) {
    let radio = &file.radio;
    let mut idle = vec![&radio.ieee802154.spot];
    let users = radio.primary_user.iter();
    let users = users.chain(radio.channels.iter().filter_map(|channel| channel.primary_user.as_ref()));
    for user in users {
        idle.extend([&user.heard_by.spot, &user.address.spot, &user.overhear.spot]);
    }
    let right = "write radio.mac = \"802.15.4\", or remove it";
    spots::report_idle(&idle, "without mac = \"802.15.4\"", right, reader);
}

/// Reports a segment size that no frame of the radio can carry.
pub(crate) fn segments_fit(radio: &AirConfig, tcp: &TcpConfig, file: &File, reader: &Reader<'_>) -> bool {
    let Mac::Ieee802154(mac) = &radio.mac else { return true };
    let most = mac.largest_payload();
    if u32::from(tcp.mss) <= most {
        return true;
    }
    let written = file.tcp.mss.as_ref().map(|at| at.spot.clone());
    let spot = written.unwrap_or_else(|| file.tcp.spot.child("mss", Origin::Default));
    let what = format!(
        "a segment of {} bytes does not fit: of an MPDU of {} bytes {AROUND} are headers and check sequence",
        tcp.mss, mac.mpdu
    );
    reader.report(&spot, what, format!("write tcp.mss = {most}, or less"));
    false
}
