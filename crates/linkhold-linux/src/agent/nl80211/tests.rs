//! Recorded and made-up messages, without any radio.

use linkhold_core::link_event::{Cause, Scope};
use linkhold_core::time::{Duration, Instant};
use proptest::prelude::*;

use super::message::{Event, Message, messages};
use super::translator::{BEACON_INTERVAL, FOLLOW, LATE_SWITCH, LEAD, RadioSignal, SignalKind, Translator};
use crate::agent::silences::{Ends, SilenceTable};

const FAMILY: u16 = 32;
const MAX: Duration = Duration::from_secs(10);
const RECORDED: &str = include_str!("recorded.txt");

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Lines of the recording: microseconds, what, message.
fn recorded() -> impl Iterator<Item = (u64, &'static str, Vec<u8>)> {
    RECORDED.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut fields = line.split(' ');
        let mut field = || fields.next().expect("three fields");
        let (time, what, hex) = (field(), field(), field());
        let digit = |digit: u8| char::from(digit).to_digit(16).expect("hexadecimal") as u8;
        let bytes = hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1]));
        ((time.parse::<f64>().expect("a number") * 1e3) as u64, what, bytes.collect())
    })
}

const fn concerning(interface: u32, event: Event<'_>) -> Message<'_> {
    Message { interface: Some(interface), wiphy: None, frequency: None, event }
}

/// `wlan0` (index 2, wiphy 0, 2412 MHz) and `wlan3` (index 5, wiphy 3, 5260 MHz), both access points.
fn translator() -> Translator {
    let mut translator = Translator::new(["wlan0", "wlan3"], MAX);
    for (name, index, wiphy, frequency) in [("wlan0", 2, 0, 2412), ("wlan3", 5, 3, 5260)] {
        let event = Event::Interface { name, serves: true };
        let message =
            Message { interface: Some(index), wiphy: Some(wiphy), frequency: Some(frequency), event };
        assert_eq!(told(&mut translator, Instant::ZERO, &message), []);
    }
    translator
}

fn told(translator: &mut Translator, now: Instant, message: &Message<'_>) -> Vec<RadioSignal> {
    let mut out = Vec::new();
    translator.handle_message(now, message, &mut out);
    out
}

/// What `wlan0` is told at `time` ms of an event on interface 2 or wiphy 0.
fn wlan0(translator: &mut Translator, time: u64, event: Event<'_>) -> Vec<SignalKind> {
    let away = matches!(event, Event::AwayStarted { .. });
    let message =
        Message { wiphy: Some(0), frequency: Some(if away { 2462 } else { 2412 }), ..concerning(2, event) };
    let signals = told(translator, at(time), &message);
    assert!(signals.iter().all(|signal| signal.radio == 0), "{signals:?}");
    signals.into_iter().map(|signal| signal.kind).collect()
}

fn follows(cause: Cause, from: Instant) -> SignalKind {
    SignalKind::Silent { cause, from, expected: Some(FOLLOW), ends: Ends::ByClock(FOLLOW) }
}

fn silent(cause: Cause, from: Instant, expected: Duration, at_most: Duration) -> SignalKind {
    SignalKind::Silent { cause, from, expected: Some(expected), ends: Ends::AtMost(at_most) }
}

const SWITCH: Cause = Cause::ChannelSwitch;

#[test]
fn a_recorded_minute_of_two_radios_becomes_these_silences() {
    let mut translator = translator();
    let mut lines = Vec::new();
    for (micros, what, bytes) in recorded() {
        let now = Instant::from_nanos(micros * 1000);
        for message in messages(FAMILY, &bytes) {
            for signal in told(&mut translator, now, &message) {
                let radio = &translator.radios()[signal.radio].name;
                let kind = match signal.kind {
                    SignalKind::Silent { cause, from, expected, ends } => {
                        let expected = expected.map_or("?".to_owned(), |length| length.to_string());
                        let ends = match ends {
                            Ends::AtMost(length) => format!("for {expected}, at most {length}"),
                            Ends::ByClock(length) => format!("over after {length}"),
                            Ends::BySource => "without a limit".to_owned(),
                        };
                        format!("{cause:?} in {}, {ends}", from.since(now))
                    }
                    SignalKind::Over { cause } => format!("{cause:?} over"),
                };
                lines.push(format!("{:.1} {what}: {radio} {kind}", micros as f64 / 1e3));
            }
        }
    }
    let announced = "wlan0 ChannelSwitch in 297.2ms, for 157.4ms, at most 657.4ms";
    let blocked = "wlan0 ChannelSwitch in 0s, for 454.6ms, at most 954.6ms";
    let follows = "ChannelSwitch in 0s, over after 45ms";
    let expected = [
        format!("0.0 switch-started: {announced}"),
        format!("383.9 switched: wlan0 {follows}"),
        format!("1945.2 switch-started: {blocked}"),
        format!("2304.2 switched: wlan0 {follows}"),
        format!("3946.3 switch-started: {announced}"),
        format!("4352.3 switched: wlan0 {follows}"),
        format!("5876.5 switch-started: {blocked}"),
        format!("6195.2 switched: wlan0 {follows}"),
        "7814.9 scan-started: wlan0 Sensing in 0s, for 160ms, at most 750ms".to_owned(),
        "7964.5 scan-results: wlan0 Sensing over".to_owned(),
        "9640.0 scan-started: wlan0 Sensing in 0s, for 360ms, at most 1s".to_owned(),
        "10003.9 scan-results: wlan0 Sensing over".to_owned(),
        "11702.2 on-another-channel: wlan0 Sensing in 0s, for 300ms, at most 550ms".to_owned(),
        "12016.3 back: wlan0 Sensing over".to_owned(),
        // Then 100 ms on its own channel, the access point off and on and off, and wlan3's check for radars,
        // of which the kernel tells wlan0's radio, too.
        "64932.4 switch-started: wlan3 PrimaryUser in 0s, for 454.6ms, at most 954.6ms".to_owned(),
        "65279.2 switched: wlan3 PrimaryUser in 0s, over after 45ms".to_owned(),
    ];
    assert_eq!(lines, expected);
    assert_eq!(translator.radios().iter().map(|radio| radio.serving).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn recorded_messages_are_read_as_what_they_are() {
    let read: Vec<(&str, Option<u32>)> = recorded()
        .flat_map(|(_, what, bytes)| {
            let read: Vec<_> = messages(FAMILY, &bytes)
                .map(|message| {
                    let fits = match what {
                        "switch-started" => matches!(message.event, Event::SwitchStarted { count: 5, .. }),
                        "switched" => message.event == Event::Switched && message.frequency.is_some(),
                        "radar-event" => message.event == Event::Radar,
                        "scan-started" => {
                            matches!(message.event, Event::ScanStarted { channels: 2, passive: false })
                                || matches!(message.event, Event::ScanStarted { channels: 3, passive: true })
                        }
                        "scan-results" => message.event == Event::ScanEnded,
                        "on-another-channel" => matches!(message.event, Event::AwayStarted { .. }),
                        "back" => matches!(message.event, Event::AwayEnded { .. }),
                        "access-point-stopped" => message.event == Event::Stopped,
                        "interface-changed" => {
                            matches!(message.event, Event::Interface { name: "wlan0", .. })
                        }
                        "station-came" => message.event == Event::StationCame,
                        _ => false,
                    };
                    assert!(fits, "{what}: {message:?}");
                    (what, message.interface)
                })
                .collect();
            read
        })
        .collect();
    // Of the radar events two tell that a check ended, which means nothing here.
    let of = |wanted| read.iter().filter(|(what, _)| *what == wanted).count();
    assert_eq!((of("switch-started"), of("switched"), of("radar-event"), of("station-came")), (5, 5, 2, 1));
}

#[test]
fn a_message_of_another_family_says_nothing() {
    for (_, _, bytes) in recorded() {
        assert_eq!(messages(FAMILY + 1, &bytes).count(), 0);
    }
}

#[test]
fn several_messages_of_one_datagram_are_all_read() {
    let both: Vec<u8> = recorded().take(2).flat_map(|(_, _, bytes)| bytes).collect();
    assert_eq!(messages(FAMILY, &both).count(), 2);
    // A length beyond the datagram ends the reading.
    assert_eq!(messages(FAMILY, &both[..both.len() - 1]).count(), 1);
}

#[test]
fn a_switch_is_announced_by_its_count_and_bounded_by_the_longest_silence() {
    let beacons = |count: u32| BEACON_INTERVAL * count;
    for (count, block_tx, from, expected) in [
        (5, false, beacons(3).saturating_sub(LEAD), LEAD + BEACON_INTERVAL + FOLLOW),
        (5, true, Duration::ZERO, beacons(4) + FOLLOW),
        // At the next beacon, or at once.
        (2, false, Duration::ZERO, BEACON_INTERVAL + FOLLOW),
        (1, false, Duration::ZERO, BEACON_INTERVAL + FOLLOW),
        (0, true, Duration::ZERO, BEACON_INTERVAL + FOLLOW),
        (255, true, Duration::ZERO, MAX),
    ] {
        let event = Event::SwitchStarted { count, block_tx };
        let signals = wlan0(&mut translator(), 1000, event);
        let at_most = (expected + LATE_SWITCH).min(MAX);
        assert_eq!(signals, [silent(SWITCH, at(1000) + from, expected, at_most)], "{event:?}");
    }
}

#[test]
fn a_switch_that_nobody_announced_is_a_silence_until_stations_follow() {
    let mut translator = translator();
    assert_eq!(wlan0(&mut translator, 10, Event::Switched), [follows(SWITCH, at(10))]);
}

/// What the kernel never ends is ended by the agent, and that counts as a fault: not what has its length.
#[test]
fn a_silence_that_the_kernel_does_not_end_is_one_that_nobody_ended() {
    let started = Event::SwitchStarted { count: 5, block_tx: true };
    let scan = Event::ScanStarted { channels: 3, passive: false };
    // (steps: time, ms, and event; silences begun, ended, timed, overdue)
    type Row<'a> = (&'a [(u64, Event<'a>)], [u64; 4]);
    let table: [Row<'_>; 5] = [
        (&[(0, started)], [1, 0, 0, 1]),
        (&[(0, started), (400, Event::Switched)], [1, 0, 1, 0]),
        (&[(0, Event::Switched)], [1, 0, 1, 0]),
        (&[(0, scan)], [1, 0, 0, 1]),
        (&[(0, scan), (200, Event::ScanEnded)], [1, 1, 0, 0]),
    ];
    for (steps, expected) in table {
        let (mut translator, mut table) = (translator(), SilenceTable::new(MAX));
        for &(at_ms, event) in steps {
            for signal in wlan0(&mut translator, at_ms, event) {
                match signal {
                    SignalKind::Silent { cause, from, expected, ends } => {
                        table.begin(at(at_ms), Scope::Network, cause, from, ends, expected).unwrap();
                    }
                    SignalKind::Over { cause } => {
                        table.end(Scope::Network, cause, at(at_ms), at(at_ms));
                    }
                }
            }
        }
        while table.end_due(at(10_000)).is_some() {}
        let counts = table.counts();
        assert_eq!([counts.begun, counts.ended, counts.timed, counts.overdue], expected, "{steps:?}");
    }
}

#[test]
fn a_radar_gives_its_switch_the_cause_and_no_other_switch() {
    let mut translator = translator();
    let started = Event::SwitchStarted { count: 5, block_tx: true };
    let cause = |signals: Vec<SignalKind>| match signals[..] {
        [SignalKind::Silent { cause, .. }] => cause,
        _ => panic!("one silence, not {signals:?}"),
    };
    assert_eq!(wlan0(&mut translator, 0, Event::Radar), []);
    assert_eq!(cause(wlan0(&mut translator, 150, started)), Cause::PrimaryUser);
    assert_eq!(cause(wlan0(&mut translator, 500, Event::Switched)), Cause::PrimaryUser);
    assert_eq!(cause(wlan0(&mut translator, 60_000, started)), SWITCH);
    assert_eq!(cause(wlan0(&mut translator, 60_400, Event::Switched)), SWITCH);
    assert_eq!(wlan0(&mut translator, 70_000, Event::Radar), []);
    assert_eq!(cause(wlan0(&mut translator, 90_000, started)), SWITCH);
    // A radar while the radio counts down to a switch of its own: one silence, and that is the radar's.
    wlan0(&mut translator, 95_000, started);
    assert_eq!(wlan0(&mut translator, 95_100, Event::Radar), []);
    let signals = wlan0(&mut translator, 95_110, started);
    assert_eq!(signals.first(), Some(&SignalKind::Over { cause: SWITCH }));
    assert_eq!(cause(signals[1..].to_vec()), Cause::PrimaryUser);
    // It is announced once more, and it comes.
    assert_eq!(cause(wlan0(&mut translator, 95_200, started)), Cause::PrimaryUser);
    assert_eq!(cause(wlan0(&mut translator, 95_500, Event::Switched)), Cause::PrimaryUser);
    // Nothing is sent on the radar's channel, though a kernel may not say so.
    wlan0(&mut translator, 97_000, Event::Radar);
    let untold = wlan0(&mut translator, 97_010, Event::SwitchStarted { count: 5, block_tx: false });
    assert!(matches!(untold[..], [SignalKind::Silent { from, .. }] if from == at(97_010)), "{untold:?}");
    assert_eq!(cause(wlan0(&mut translator, 97_400, Event::Switched)), Cause::PrimaryUser);
    // A radar on a channel where the radio is not, told to every radio.
    let elsewhere =
        Message { interface: None, wiphy: Some(0), frequency: Some(5260), ..concerning(2, Event::Radar) };
    assert_eq!(told(&mut translator, at(100_000), &elsewhere), []);
    assert_eq!(cause(wlan0(&mut translator, 100_100, started)), SWITCH);
}

#[test]
fn a_scan_of_another_interface_takes_the_whole_radio_away_and_another_radios_does_not() {
    let mut translator = translator();
    let scan = Event::ScanStarted { channels: 3, passive: false };
    for (wiphy, expected) in [(0, Some(0)), (3, Some(1)), (7, None)] {
        let message = Message { wiphy: Some(wiphy), ..concerning(99, scan) };
        let signals = told(&mut translator, at(10), &message);
        assert_eq!(signals.first().map(|signal| signal.radio), expected);
    }
}

#[test]
fn a_scan_of_unknown_length_ends_by_its_event_or_by_the_longest_silence() {
    let mut translator = translator();
    let scan = Event::ScanStarted { channels: 0, passive: true };
    let begins =
        SignalKind::Silent { cause: Cause::Sensing, from: at(0), expected: None, ends: Ends::AtMost(MAX) };
    assert_eq!(wlan0(&mut translator, 0, scan), [begins]);
    assert_eq!(wlan0(&mut translator, 3_000, Event::ScanEnded), [SignalKind::Over { cause: Cause::Sensing }]);
    // The end of a scan that nobody saw begin, and one that comes too late.
    assert_eq!(wlan0(&mut translator, 3_001, Event::ScanEnded), []);
    wlan0(&mut translator, 4_000, Event::ScanStarted { channels: 1, passive: false });
    assert_eq!(wlan0(&mut translator, 60_000, Event::ScanEnded), []);
}

#[test]
fn time_on_the_own_channel_is_no_silence_and_an_end_must_name_its_begin() {
    let mut translator = translator();
    let away = Event::AwayStarted { duration: ms(300), cookie: 7 };
    let own = Message { wiphy: Some(0), frequency: Some(2412), ..concerning(2, away) };
    assert_eq!(told(&mut translator, at(0), &own), []);
    assert_eq!(wlan0(&mut translator, 10, away), [silent(Cause::Sensing, at(10), ms(300), ms(550))]);
    assert_eq!(wlan0(&mut translator, 20, Event::AwayEnded { cookie: 6 }), []);
    assert_eq!(wlan0(&mut translator, 30, Event::ScanEnded), []);
    let over = SignalKind::Over { cause: Cause::Sensing };
    assert_eq!(wlan0(&mut translator, 310, Event::AwayEnded { cookie: 7 }), [over]);
}

#[test]
fn an_access_point_that_goes_down_lets_go_and_begins_nothing_until_it_serves_again() {
    let over = |cause| SignalKind::Over { cause };
    let scan = Event::ScanStarted { channels: 3, passive: false };
    let station = Event::Interface { name: "wlan0", serves: false };
    for down in [Event::Stopped, Event::CheckStarted, Event::InterfaceGone, station] {
        let mut translator = translator();
        wlan0(&mut translator, 0, Event::SwitchStarted { count: 50, block_tx: true });
        wlan0(&mut translator, 10, scan);
        let told = wlan0(&mut translator, 20, down);
        assert_eq!(told, [over(SWITCH), over(Cause::Sensing)], "{down:?}");
        assert_eq!(wlan0(&mut translator, 30, down), [], "{down:?}");
        assert_eq!(wlan0(&mut translator, 40, scan), [], "{down:?}");
        let again = Event::Interface { name: "wlan0", serves: true };
        assert_eq!(wlan0(&mut translator, 50, again), []);
        assert_eq!(wlan0(&mut translator, 60, scan).len(), 1, "{down:?}");
    }
}

#[test]
fn a_client_is_told_of_switches_and_never_of_its_own_scans() {
    let scan = Event::ScanStarted { channels: 3, passive: false };
    let mut translator = translator();
    wlan0(&mut translator, 0, Event::Interface { name: "wlan0", serves: false });
    // Its access point switches; that one is a station to it.
    let switch = wlan0(&mut translator, 10, Event::SwitchStarted { count: 3, block_tx: true });
    assert!(matches!(switch[..], [SignalKind::Silent { .. }]), "{switch:?}");
    assert_eq!(wlan0(&mut translator, 300, Event::Switched).len(), 1);
    wlan0(&mut translator, 400, Event::StationCame);
    assert_eq!(wlan0(&mut translator, 2_000, scan), []);
    assert!(!translator.radios()[0].serving);
}

#[test]
fn an_interface_is_known_by_its_name_whatever_its_index() {
    let mut translator = translator();
    assert_eq!(wlan0(&mut translator, 0, Event::InterfaceGone), []);
    assert_eq!(wlan0(&mut translator, 1, Event::Switched), []);
    let event = Event::Interface { name: "wlan0", serves: true };
    let message = Message { wiphy: Some(8), ..concerning(20, event) };
    assert_eq!(told(&mut translator, at(2), &message), []);
    assert_eq!(told(&mut translator, at(3), &concerning(20, Event::Switched)).len(), 1);
    assert_eq!((translator.radios()[0].index, translator.radios()[0].name.as_str()), (Some(20), "wlan0"));
}

/// A radio that is a bridge, such as OpenWrt's `br-lan`, with one Wi-Fi port.
#[test]
fn a_bridge_hears_what_its_wifi_port_announces_and_no_more_once_it_has_left() {
    let mut translator = Translator::new(["br-lan"], MAX);
    let there = Message { wiphy: Some(0), ..concerning(2, Event::Interface { name: "wlan0", serves: true }) };
    let scan = concerning(2, Event::ScanStarted { channels: 3, passive: false });
    assert_eq!(told(&mut translator, at(0), &there), []);
    assert_eq!(told(&mut translator, at(1), &scan), [], "of nobody that is known");
    let mut out = Vec::new();
    assert!(translator.hear(at(2), 0, Some("wlan0"), &mut out));
    assert!(!translator.hear(at(2), 0, Some("wlan0"), &mut out), "as before");
    assert_eq!(out, []);
    assert_eq!(told(&mut translator, at(3), &there), []);
    let [RadioSignal { radio: 0, kind: SignalKind::Silent { cause: Cause::Sensing, .. } }] =
        told(&mut translator, at(4), &scan)[..]
    else {
        panic!("a silence of the bridge");
    };
    assert_eq!((translator.radios()[0].name.as_str(), translator.radios()[0].index), ("br-lan", Some(2)));
    // The port leaves in the silence; another joins.
    assert!(translator.hear(at(5), 0, None, &mut out));
    assert_eq!(out, [RadioSignal { radio: 0, kind: SignalKind::Over { cause: Cause::Sensing } }]);
    assert_eq!(told(&mut translator, at(6), &scan), []);
    assert!(translator.hear(at(7), 0, Some("wlan1"), &mut out) && out.len() == 1);
    assert_eq!(told(&mut translator, at(8), &there), []);
    assert_eq!(translator.radios()[0].index, None);
}

#[test]
fn the_interfaces_are_asked_for_when_a_radio_serves_again_on_an_unknown_channel() {
    let mut translator = translator();
    wlan0(&mut translator, 0, Event::StationCame);
    assert!(!translator.take_question());
    wlan0(&mut translator, 1, Event::Stopped);
    wlan0(&mut translator, 2, Event::StationCame);
    assert!(translator.take_question() && !translator.take_question());
}

/// Any event of either radio, or of a third.
fn any_message() -> impl Strategy<Value = Message<'static>> {
    let event = prop_oneof![
        3 => (any::<u8>(), any::<bool>()).prop_map(|(count, block_tx)| Event::SwitchStarted { count, block_tx }),
        3 => Just(Event::Switched),
        1 => Just(Event::Radar),
        1 => Just(Event::CheckStarted),
        2 => (0u32..600, any::<bool>()).prop_map(|(channels, passive)| Event::ScanStarted { channels, passive }),
        2 => Just(Event::ScanEnded),
        2 => (any::<u32>(), 0u64..3).prop_map(|(length, cookie)| {
            Event::AwayStarted { duration: ms(u64::from(length)), cookie }
        }),
        2 => (0u64..3).prop_map(|cookie| Event::AwayEnded { cookie }),
        1 => Just(Event::Stopped),
        1 => Just(Event::StationCame),
        1 => any::<bool>().prop_map(|serves| Event::Interface { name: "wlan0", serves }),
        1 => Just(Event::InterfaceGone),
    ];
    let place =
        (proptest::option::of(prop_oneof![Just(2u32), Just(5), Just(9)]), proptest::option::of(0u32..4));
    (place, proptest::option::of(prop_oneof![Just(2412u32), Just(5260)]), event)
        .prop_map(|((interface, wiphy), frequency, event)| Message { interface, wiphy, frequency, event })
}

#[test]
fn a_switch_at_another_time_than_was_announced_takes_the_announcement_back() {
    // Announced for 12 s from now, and then there at once: 12 s from now nobody is silent.
    let far = Event::SwitchStarted { count: 127, block_tx: false };
    let mut translator = translator();
    assert_eq!(wlan0(&mut translator, 0, far).len(), 1);
    let came = wlan0(&mut translator, 500, Event::Switched);
    assert_eq!(came, [SignalKind::Over { cause: SWITCH }, follows(SWITCH, at(500))]);
    // The same of another announcement, for now or for later.
    for (count, block_tx) in [(92, true), (83, false), (3, false)] {
        let mut translator = self::translator();
        wlan0(&mut translator, 0, far);
        let told = wlan0(&mut translator, 500, Event::SwitchStarted { count, block_tx });
        assert_eq!(told[0], SignalKind::Over { cause: SWITCH }, "{count}");
        assert_eq!(told.len(), 2, "{count}");
        // What is told again of the same time is one silence, as it was.
        let again = wlan0(&mut translator, 520, Event::SwitchStarted { count, block_tx });
        assert_eq!(again.len(), 1, "{count}");
    }
}

proptest! {
    #[test]
    fn whatever_is_told_every_silence_ends(steps in proptest::collection::vec((0u64..3_000, any_message()), 1..60)) {
        let mut translator = translator();
        let mut tables = [SilenceTable::new(MAX), SilenceTable::new(MAX)];
        let mut now = Instant::ZERO;
        for (wait, message) in steps {
            now += ms(wait);
            for table in &mut tables {
                while table.end_due(now).is_some() {}
            }
            let signals = told(&mut translator, now, &message);
            for (number, table) in tables.iter_mut().enumerate() {
                let own = signals.iter().filter(|signal| signal.radio == number);
                prop_assert!(own.clone().count() <= 2);
                for signal in own {
                    match signal.kind {
                        SignalKind::Silent { cause, from, expected, ends } => {
                            let (Ends::AtMost(at_most) | Ends::ByClock(at_most)) = ends else {
                                panic!("a silence without a limit");
                            };
                            prop_assert!(from >= now && !at_most.is_zero() && at_most <= MAX);
                            prop_assert!(expected.is_none_or(|expected| expected <= at_most));
                            // 255 beacons ahead at most.
                            prop_assert!(from.since(now) <= BEACON_INTERVAL * 255);
                            table.begin(now, Scope::Network, cause, from, ends, expected).unwrap();
                        }
                        SignalKind::Over { cause } => {
                            let before = table.counts().ended;
                            table.end(Scope::Network, cause, now, now);
                            // The end belongs to a silence that was begun and is not over.
                            prop_assert_eq!(table.counts().ended, before + 1);
                        }
                    }
                }
            }
            for radio in translator.radios() {
                prop_assert!(radio.index.is_none_or(|index| [2, 5, 9].contains(&index)));
            }
        }
        let end = now + BEACON_INTERVAL * 255 + MAX;
        for mut table in tables {
            while table.end_due(end).is_some() {}
            let counts = table.counts();
            prop_assert_eq!(counts.begun, counts.ended + counts.timed + counts.overdue);
            prop_assert_eq!((table.under_way(end), table.announced(end)), (0, 0));
        }
    }
}
