//! What the air tells of a radio that plays a trace.

mod common;

use std::sync::Arc;

use common::*;
use linkhold_core::link_event::{LinkEvent, LinkEventKind};
use linkhold_core::units::BitRate;
use linkhold_radio::{ChannelConfig, Mac, ScriptedSwitch, Trace, TraceLink};

fn trace(text: &[u8]) -> Arc<Trace> {
    Arc::new(Trace::parse(text).expect("a good trace"))
}

#[test]
fn a_trace_tells_no_capacity_for_it_has_none_that_stands() {
    let mac = Mac::Trace(TraceLink {
        down: trace(b"10\n20\n"),
        up: trace(b"10\n"),
        silence_threshold: ms(100),
        detection_delay: ms(0),
        random_start: false,
    });
    let mut config = config(mac, 1);
    config.channels.push(ChannelConfig { phy_rate: BitRate::from_mbps(12), ..channel() });
    config.switching.scripted = vec![ScriptedSwitch { at: at(10), to_channel: 1 }];
    config.switching.delay = ms(20);
    let mut driver = Driver::new(config, 1);
    driver.run(at(1000));
    let told = |link: &LinkEvent| matches!(link.kind, LinkEventKind::ChannelSwitched { .. });
    assert!(!driver.links.iter().any(told), "{:?}", driver.links);
    assert_eq!(driver.links.len(), 2, "the switch's silence, and no more: {:?}", driver.links);
}

#[test]
fn a_random_start_depends_on_the_seed_alone() {
    // An opportunity a millisecond but for one silence of 300 ms.
    let stamps: String =
        (1..=1000).filter(|ms| !(400..700).contains(ms)).map(|ms| format!("{ms}\n")).collect();
    let first_silence = |random_start, seed| {
        let link = TraceLink {
            down: trace(stamps.as_bytes()),
            up: trace(b"10\n"),
            silence_threshold: ms(100),
            detection_delay: ms(0),
            random_start,
        };
        let mut driver = Driver::new(config(Mac::Trace(link), 1), seed);
        driver.run(at(2000));
        let mut starts =
            driver.links.iter().filter(|event| matches!(event.kind, LinkEventKind::FreezeStarted { .. }));
        starts.next().map(|event| event.detected_at)
    };
    assert_eq!((first_silence(false, 1), first_silence(false, 2)), (Some(at(399)), Some(at(399))));
    assert_eq!(first_silence(true, 1), first_silence(true, 1));
    assert_ne!(first_silence(true, 1), first_silence(true, 2));
}
