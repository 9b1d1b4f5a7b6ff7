//! Observers see what happens: a capture holds every packet, silences come in order, progress comes every
//! interval.

mod common;

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Bytes;
use linkhold_radio::Silence;
use linkhold_scenario::Source;
use linkhold_sim::{Capture, Observer, run_case_observed};
use linkhold_tcp::Congestion;

#[test]
fn a_capture_holds_every_packet_and_changes_nothing() {
    let mut scenario =
        common::quarter_silent(Congestion::Cubic, Duration::from_millis(20), Duration::from_secs(4));
    scenario.flows[0].source = Source::Finite(Bytes(500_000));
    let case = common::case("capture", scenario);
    let mut capture = Capture::new(Vec::new(), "a test").unwrap();
    let (seen, _) = run_case_observed(&case, 1, &mut capture).unwrap();
    // 346 full segments and an ACK for every second, each where it is sent and where it arrives.
    assert!(capture.packets() > 2 * (346 + 173), "{} packets", capture.packets());
    let file = capture.finish().unwrap();
    assert_eq!(file[..4], [0x0a, 0x0d, 0x0d, 0x0a], "a pcapng section header");
    let (unseen, _) = linkhold_sim::run_case(&case, 1).unwrap();
    assert_eq!(seen.flows, unseen.flows);
    assert_eq!(seen.events, unseen.events);
}

#[derive(Default)]
struct Watch {
    silences: Vec<Silence>,
    progress: Vec<Instant>,
}

impl Observer for Watch {
    fn on_silence(&mut self, silence: &Silence) {
        self.silences.push(*silence);
    }

    fn on_progress(&mut self, now: Instant) {
        self.progress.push(now);
    }
}

#[test]
fn silences_and_progress_are_told_as_they_come() {
    let scenario =
        common::quarter_silent(Congestion::Cubic, Duration::from_millis(20), Duration::from_secs(5));
    let mut watch = Watch::default();
    let (record, series) = run_case_observed(&common::case("watch", scenario), 1, &mut watch).unwrap();
    assert_eq!(watch.progress, (1..=5).map(|s| Instant::from_millis(s * 1000)).collect::<Vec<_>>());
    assert_eq!(watch.silences.len(), series.silences.len());
    assert!(watch.silences.is_sorted_by_key(|silence| silence.end));
    assert_eq!(record.link.silences, watch.silences.len() as u64);
    let silent: f64 = record.link.silent_fraction;
    assert!((0.1..0.45).contains(&silent), "{silent}");
}
