//! What the air tells of a radio that plays a trace.

mod common;

use std::sync::Arc;

use common::*;
use linkhold_core::link_event::{LinkEvent, LinkEventKind};
use linkhold_core::units::BitRate;
use linkhold_radio::{ChannelConfig, Mac, ScriptedSwitch, Trace};

fn trace(text: &[u8]) -> Arc<Trace> {
    Arc::new(Trace::parse(text).expect("a good trace"))
}

#[test]
fn a_trace_tells_no_capacity_for_it_has_none_that_stands() {
    let mac = Mac::Trace {
        down: trace(b"10\n20\n"),
        up: trace(b"10\n"),
        silence_threshold: ms(100),
        detection_delay: ms(0),
    };
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
