//! `[tcp]` on top of a profile of `linkhold-tcp`.

use linkhold_core::packet::MAX_WINDOW_SHIFT;
use linkhold_core::units::Bytes;
use linkhold_tcp::{Congestion, Recovery, TcpConfig};

use crate::file::Tcp;
use crate::model::Profile;
use crate::read::{At, Reader, set};
use crate::spots::report_idle;

/// RFC 9293 section 3.7.1: every host takes segments of 536 bytes; 65,495 is an IPv4 packet's most.
const MSS_RANGE: std::ops::RangeInclusive<u16> = 88..=65_495;

pub(crate) fn resolve(tcp: &At<Tcp>, reader: &Reader<'_>) -> Option<TcpConfig> {
    let congestion = *tcp.congestion;
    let recovery = tcp.recovery.as_ref().map(|recovery| recovery.value);
    let mut config = match *tcp.profile {
        Profile::Linux => TcpConfig::linux(congestion),
        Profile::Linux2009 => TcpConfig::linux_2009(congestion),
        Profile::Classic => TcpConfig::classic(recovery.unwrap_or(Recovery::NewReno), congestion),
    };
    let mut fine = true;
    if let Some(recovery) = recovery {
        config.recovery = recovery;
    }
    if let Some(mss) = &tcp.mss {
        if !MSS_RANGE.contains(&mss.0) {
            let right = format!("write {} to {}; 1460 on Ethernet", MSS_RANGE.start(), MSS_RANGE.end());
            reader.report(&mss.spot, format!("an MSS of {} is out of range", mss.0), right);
            fine = false;
        }
        config.mss = mss.0;
    }
    buffers(&mut config, tcp, reader, &mut fine);
    set(&mut config.sack, tcp.sack.as_ref());
    set(&mut config.timestamps, tcp.timestamps.as_ref());
    set(&mut config.ecn, tcp.ecn.as_ref());
    set(&mut config.frto, tcp.frto.as_ref());
    set(&mut config.timestamp_undo, tcp.timestamp_undo.as_ref());
    set(&mut config.dsack_undo, tcp.dsack_undo.as_ref());
    set(&mut config.prr, tcp.prr.as_ref());
    set(&mut config.hystart, tcp.hystart.as_ref());
    set(&mut config.accept_window_shrink_same_ack, tcp.accept_window_shrink_same_ack.as_ref());
    set(&mut config.delayed_ack, tcp.delayed_ack.as_ref());
    if let Some(window) = &tcp.initial_window {
        config.initial_window_segments = match &window.value {
            crate::scalar::OrOff::Off => None,
            crate::scalar::OrOff::On(segments) => Some(segments.0),
        };
    }
    for (field, value) in [
        (&mut config.rto_min, &tcp.rto_min),
        (&mut config.rto_initial, &tcp.rto_initial),
        (&mut config.rto_max, &tcp.rto_max),
    ] {
        if let Some(value) = value {
            *field = value.0;
        }
    }
    if config.rto_min > config.rto_max {
        let spots: Vec<_> = [&tcp.rto_min, &tcp.rto_max].into_iter().flatten().map(|at| &at.spot).collect();
        let what = format!("rto_min ({}) is above rto_max ({})", config.rto_min, config.rto_max);
        reader.report_between(&spots, what, "make rto_min the smaller");
        fine = false;
    }
    if config.recovery.uses_sack()
        && !config.sack
        && let Some(sack) = &tcp.sack
    {
        reader.report(
            &sack.spot,
            "the recovery works on SACK",
            "write recovery = \"newreno\" or sack = true",
        );
        fine = false;
    }
    report_idle_keys(&config, tcp, reader);
    fine.then_some(config)
}

/// Reports what the file turns on though something else that it needs is off.
fn report_idle_keys(config: &TcpConfig, tcp: &At<Tcp>, reader: &Reader<'_>) {
    let report = |needed: bool, key: Option<&At<bool>>, why: &str, right: &str| {
        let on = key.filter(|at| !needed && at.value).map(|at| &at.spot);
        report_idle(&on.into_iter().collect::<Vec<_>>(), why, right, reader);
    };
    for key in [&tcp.prr, &tcp.dsack_undo] {
        report(config.sack, key.as_ref(), "without SACK", "write tcp.sack = true, or remove it");
    }
    // A key that does nothing for two reasons is reported for the first.
    let hears_sacks = !config.sack || config.recovery.uses_sack();
    let right = "write tcp.recovery = \"sack\" or \"rack-tlp\", or remove it";
    report(hears_sacks, tcp.prr.as_ref(), "where the recovery does not work on SACK", right);
    let has_reductions = !hears_sacks || config.congestion != Congestion::Bbr;
    let right = "choose another tcp.congestion, or remove it";
    report(has_reductions, tcp.prr.as_ref(), "with congestion = \"bbr\", whose model says the window", right);
    let right = "write tcp.timestamps = true, or remove it";
    report(config.timestamps, tcp.timestamp_undo.as_ref(), "without timestamps", right);
    let cubic = config.congestion == Congestion::Cubic;
    let right = "write tcp.congestion = \"cubic\", or remove it";
    report(cubic, tcp.hystart.as_ref(), "without congestion = \"cubic\"", right);
}

fn buffers(config: &mut TcpConfig, tcp: &At<Tcp>, reader: &Reader<'_>, fine: &mut bool) {
    if let Some(buffer) = &tcp.send_buffer {
        config.send_buffer = buffer.0;
    }
    if let Some(buffer) = &tcp.receive_buffer {
        config.receive_buffer = buffer.0;
        config.receive_autotune = None;
    }
    if let Some(limit) = &tcp.receive_autotune {
        config.receive_autotune = match &limit.value {
            crate::scalar::OrOff::Off => None,
            crate::scalar::OrOff::On(bytes) => Some(bytes.0),
        };
        if let Some(most) = config.receive_autotune
            && most < config.receive_buffer
        {
            let what = format!("the buffer would grow from {} to {most}", config.receive_buffer);
            reader.report(&limit.spot, what, "make receive_autotune the larger, or \"off\"");
            *fine = false;
        }
    }
    match &tcp.window_scale {
        Some(scale) => {
            config.window_scale = scale.value.value();
            if config.window_scale.is_some_and(|scale| scale > MAX_WINDOW_SHIFT) {
                let right = format!("write at most {MAX_WINDOW_SHIFT} (RFC 7323), or \"off\"");
                reader.report(&scale.spot, "the shift is too large", right);
                *fine = false;
            }
        }
        None if tcp.receive_buffer.is_some() || tcp.receive_autotune.is_some() => {
            let largest = config.receive_autotune.unwrap_or(config.receive_buffer);
            config.window_scale = Some(scale_for(largest).max(config.window_scale.unwrap_or(0)));
        }
        None => {}
    }
}

/// The smallest shift that can express a window of `bytes`.
fn scale_for(bytes: Bytes) -> u8 {
    (0..MAX_WINDOW_SHIFT).find(|&shift| (65_535u64 << shift) >= bytes.0).unwrap_or(MAX_WINDOW_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_scale_expresses_the_buffer() {
        for (bytes, shift) in [(1, 0), (65_535, 0), (65_536, 1), (256 << 10, 3), (6 << 20, 7), (1 << 40, 14)]
        {
            assert_eq!(scale_for(Bytes(bytes)), shift, "{bytes}");
        }
    }
}
