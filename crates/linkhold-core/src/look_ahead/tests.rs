//! Dialogues with a station's look-ahead: what passes and what the radio tells, and when it asks.

mod closed_loop;
mod phase_1;

use core::net::IpAddr;

use super::*;
use crate::packet::{Ecn, Endpoint, FlowKey, Origin, PacketId, TcpSegment};
use crate::settings::{Registered, Value};
use crate::units::{Fraction, Seq};

/// An ACK's length on the wire in these tests, bytes.
const ACK: u32 = 52;

fn key(port: u16) -> FlowKey {
    FlowKey {
        correspondent: Endpoint { addr: IpAddr::from([192, 0, 2, 1]), port: 443 },
        station: Endpoint { addr: IpAddr::from([10, 0, 0, 2]), port },
    }
}

fn at(ms: f64) -> Instant {
    Instant::from_secs_f64(ms / 1e3)
}

/// A station and what it has asked for.
struct Station {
    look: LookAhead,
    now: Instant,
    out: Actions,
    /// Time of each request, ms, and its bytes.
    asked: Vec<(f64, u64)>,
}

impl Station {
    fn new(config: LookAheadConfig) -> Self {
        config.validate().expect("valid");
        Self { look: LookAhead::new(&config), now: Instant::ZERO, out: Actions::new(), asked: Vec::new() }
    }

    /// Time passes, and timers run when they are due.
    fn until(&mut self, ms: f64) -> &mut Self {
        while let Some(due) = self.look.next_timeout().filter(|due| *due <= at(ms)) {
            assert!(due >= self.now, "a timeout in the past");
            self.now = due;
            self.look.on_timeout(due, &mut self.out);
            self.drain();
            assert!(self.look.next_timeout().is_none_or(|next| next > due), "a timer that stands still");
        }
        self.now = self.now.max(at(ms));
        self
    }

    fn drain(&mut self) {
        for action in self.out.drain() {
            let Action::RequestUplink { station: StationId(7), bytes } = action else {
                panic!("{action:?} is not for look-ahead to ask");
            };
            self.asked.push((self.now.as_secs_f64() * 1e3, bytes.0));
        }
    }

    fn packet(&mut self, direction: Direction, port: u16, tcp: &TcpSegment, len: u32) {
        let view = PacketView {
            id: PacketId(1),
            direction,
            origin: Origin::Arrival,
            station: StationId(7),
            flow: &key(port),
            tcp,
            len,
            ecn: Ecn::NotEct,
        };
        let verdict = self.look.on_packet(self.now, &view, &mut self.out);
        assert_eq!(verdict, Verdict::Forward(Rewrite::NONE), "no packet is touched");
        self.drain();
    }

    /// A full segment passes down to the host.
    fn data(&mut self, ms: f64) -> &mut Self {
        self.data_of(ms, 1)
    }

    fn data_of(&mut self, ms: f64, port: u16) -> &mut Self {
        self.until(ms);
        let tcp = TcpSegment { payload_len: 1448, flags: TcpFlags::ACK, ..TcpSegment::default() };
        self.packet(Direction::Downlink, port, &tcp, 1500);
        self
    }

    /// The host acknowledges.
    fn ack(&mut self, ms: f64) -> &mut Self {
        self.ack_of(ms, 1)
    }

    fn ack_of(&mut self, ms: f64, port: u16) -> &mut Self {
        self.until(ms);
        let tcp = TcpSegment { ack: Seq(9), flags: TcpFlags::ACK, ..TcpSegment::default() };
        self.packet(Direction::Uplink, port, &tcp, ACK);
        self
    }

    fn told(&mut self, kind: LinkEventKind) -> &mut Self {
        self.look.on_link(self.now, LinkEvent::at(self.now, kind), &mut self.out);
        self.drain();
        self
    }

    fn granted(&mut self, turn: f64) -> &mut Self {
        // Enough for all ACKs before it, of whose grants the dialogues do not tell.
        let bytes = Bytes(10_000);
        self.told(LinkEventKind::Grant { station: StationId(7), at: at(turn), bytes })
    }

    fn unused(&mut self) -> &mut Self {
        let bytes = Bytes(u64::from(ACK));
        self.told(LinkEventKind::GrantUnused { station: StationId(7), bytes })
    }

    /// What was asked since the last call: times in ms, rounded to a microsecond.
    fn times(&mut self) -> Vec<f64> {
        self.asked.drain(..).map(|(ms, _)| (ms * 1e3).round() / 1e3).collect()
    }

    fn wrong(&self) -> u64 {
        self.look.metrics().uplink_requests_wrong
    }

    /// Segments at all times before the beat, and beats without any, up to 3400 ms: neither a delay nor a
    /// spacing is usual, so only the heartbeat can foretell ACKs.
    fn irregular_beats(&mut self) -> &mut Self {
        let beats = [1, 2, 4, 5, 6, 9, 10, 13, 14, 16, 17];
        for (beat, before) in beats.into_iter().zip([190.0, 60.0, 110.0, 80.0, 150.0].into_iter().cycle()) {
            let beat = f64::from(beat) * 200.0;
            self.data(beat - before).ack(beat);
        }
        self
    }

    /// Receives segments that a beat of 200 ms acknowledges, this many beats from this one on.
    fn beats(&mut self, first: u32, count: u32) -> &mut Self {
        for beat in first..first + count {
            let beat = f64::from(beat) * 200.0;
            self.data(beat - 100.0).ack(beat);
        }
        self
    }
}

/// The paper's, with 8 frames.
fn paper() -> LookAheadConfig {
    LookAheadConfig { n: FramesAhead::Fixed(8), ..LookAheadConfig::paper() }
}

/// The recommended settings with the paper's N, so that times are round.
fn learned() -> LookAheadConfig {
    LookAheadConfig { n: FramesAhead::Fixed(8), ..LookAheadConfig::default() }
}

#[test]
fn a_request_goes_n_frames_before_the_beat_if_a_segment_has_passed() {
    for n in [1, 8, 9] {
        let mut station = Station::new(LookAheadConfig { n: FramesAhead::Fixed(n), ..paper() });
        station.beats(1, 5);
        assert_eq!(station.times(), [], "K = 3: the fifth ACK is the fourth a period after another");
        station.data(1100.0).until(1190.0);
        let ahead = f64::from(n) * 5.0;
        let expected = if ahead >= 10.0 { vec![1200.0 - ahead] } else { vec![] };
        assert_eq!(station.times(), expected);
        station.ack(1200.0).times();
        // Nothing passes: nothing is asked for.
        station.until(2000.0);
        assert_eq!(station.times(), []);
        // A segment after the paper's timer went off waits for the next beat's.
        station.data(2195.0).ack(2200.0).data(2201.0).until(2400.0);
        let expected = if n == 1 { vec![2195.0, 2395.0] } else { vec![2400.0 - ahead] };
        assert_eq!(station.times()[..], expected[usize::from(n == 1)..]);
    }
}

#[test]
fn the_learned_form_asks_late_rather_than_not_at_all() {
    let mut station = Station::new(learned());
    station.irregular_beats();
    station.times();
    station.data(3790.0).ack(3800.0);
    assert_eq!(station.times(), [3790.0]);
}

#[test]
fn the_length_of_frames_is_the_radios_and_n_frames_stay_within_the_period() {
    for (frame, ahead) in [(2, 16.0), (12, 96.0), (40, 200.0), (30, 180.0)] {
        let mut station = Station::new(paper());
        station.told(LinkEventKind::GrantFrames { period: Duration::from_millis(frame) });
        station.beats(1, 5).data(1000.5).until(1400.0);
        // A whole period ahead of the beat after next.
        let beat = if ahead < 200.0 { 1200.0 } else { 1400.0 };
        assert_eq!(station.times()[0], beat - ahead, "{frame} ms");
    }
}

#[test]
fn a_request_is_as_long_as_the_acks_that_are_owing() {
    let mut station = Station::new(paper());
    station.beats(1, 5).data_of(1050.0, 1).data_of(1060.0, 2).data_of(1070.0, 3).until(1199.0);
    assert_eq!(station.asked.drain(..).collect::<Vec<_>>(), [(1160.0, u64::from(3 * ACK))]);
    // However many there are, one packet's length is enough to begin with.
    for port in 0..100 {
        station.data_of(1250.0, port);
    }
    station.until(1399.0);
    assert_eq!(station.asked, [(1360.0, 1500)]);
}

#[test]
fn a_connection_with_its_own_timer_is_foretold_from_its_segments() {
    let mut station = Station::new(learned());
    // Lone segments, each acknowledged 100 ms after it, at odd times.
    station.data(1000.0).ack(1100.0);
    assert_eq!(station.times(), [], "nothing is known yet");
    for (data, asked) in [(1333.0, 1393.0), (1790.0, 1850.0), (2001.0, 2061.0)] {
        station.data(data).ack(data + 100.0);
        assert_eq!(station.times(), [asked]);
    }
    // A new connection starts with what the host has taught.
    station.data_of(2500.0, 2).ack_of(2600.0, 2);
    assert_eq!(station.times(), [2560.0]);
    // The second segment is acknowledged at once, so there is nothing to ask ahead of.
    station.data(3000.0).data(3020.0).ack(3020.0).until(3500.0);
    assert_eq!(station.times(), []);
    assert_eq!(station.wrong(), 0);
}

#[test]
fn linux_is_quick_at_first_and_then_waits_for_40_ms() {
    let mut station = Station::new(learned());
    for segment in 0..16 {
        let ms = 100.0 * f64::from(segment) + 7.0 * f64::from(segment % 3);
        station.data(ms).ack(ms);
    }
    assert_eq!(station.times(), [], "an ACK at once leaves no time");
    // The first that is late teaches the delay. From then on requests go 40 ms ahead: at once.
    station.data(2000.0).ack(2040.0);
    assert_eq!(station.times(), []);
    for ms in [2300.0, 2377.0, 2500.0] {
        station.data(ms).ack(ms + 40.0);
        assert_eq!(station.times(), [ms]);
    }
    // The next connection is expected to be quick, as the last one was.
    station.data_of(3000.0, 2).ack_of(3000.0, 2);
    assert_eq!(station.times(), []);
    assert_eq!(station.wrong(), 0);
}

#[test]
fn a_slow_host_is_asked_for_as_its_segment_passes() {
    let mut station = Station::new(LookAheadConfig { at_once: Duration::from_millis(6), ..learned() });
    // It answers each segment after 5 ms: a frame.
    for ms in [100.0, 230.0, 310.0, 477.0] {
        station.data(ms).ack(ms + 5.0);
    }
    assert_eq!(station.times()[..], [230.0, 310.0, 477.0]);
}

#[test]
fn the_acks_of_a_steady_stream_are_foretold_before_their_segments_pass() {
    let mut station = Station::new(learned());
    // A segment each 13 ms, every second acknowledged at once.
    let acks: Vec<f64> = (1..60).map(|n| 26.0 * f64::from(n)).collect();
    for ms in &acks {
        station.data(ms - 13.0).data(*ms).ack(*ms);
    }
    let asked = station.times();
    let late: Vec<f64> = asked.iter().copied().filter(|ms| *ms > 500.0).collect();
    assert!(late.len() >= 35, "{late:?}");
    for ms in &late {
        // 40 ms later a segment has come and is acknowledged.
        let off = acks.iter().map(|ack| (ms + 40.0 - ack).abs()).fold(f64::MAX, f64::min);
        assert!(off < 0.1 || ms + 40.0 > 1534.0, "asked at {ms}, {off} ms from an ACK");
    }
    let wrong = station.wrong();
    // The stream ends: what was foretold beyond it was for nothing, and no more is asked for.
    station.until(4000.0).data_of(4000.0, 2);
    assert!((1..=2).contains(&(station.wrong() - wrong)), "{}", station.wrong() - wrong);
    assert!(station.times().iter().all(|ms| *ms < 1600.0));
}

#[test]
fn n_follows_the_measured_access_delay() {
    let mut station = Station::new(LookAheadConfig::default());
    station.told(LinkEventKind::GrantFrames { period: Duration::from_millis(5) });
    // An access takes 6 frames and a bit, then 11.
    let mut ahead = Vec::new();
    for beat in 1..60 {
        let frames = if beat < 20 { 6.0 } else { 11.0 };
        let beat = f64::from(beat) * 200.0;
        station.data(beat - 120.0).until(beat - 1.0);
        let asked = station.times();
        let since = asked.first().copied().unwrap_or(beat);
        ahead.push(((beat - since) / 5.0).round());
        let turn = since + frames * 5.0 + 1.0;
        if turn < beat {
            station.granted(turn);
            station.ack(beat);
        } else {
            station.until(beat).ack(beat).granted(turn);
        }
    }
    assert_eq!(ahead[10..19], [6.0; 9], "{ahead:?}");
    assert_eq!(ahead[50..], [11.0; 9], "{ahead:?}");
}

#[test]
fn a_turn_that_nobody_used_counts_as_wrong_once() {
    let mut station = Station::new(paper());
    station.beats(1, 5).data(1100.0).until(1165.0).granted(1201.0);
    assert_eq!(station.times(), [1160.0]);
    // The ACK does not come.
    station.until(1203.0).unused();
    assert_eq!(station.wrong(), 1);
    station.until(1300.0).data(1300.0);
    assert_eq!(station.wrong(), 1);
    // Room that is less than was asked for is what a shorter ACK left.
    station.until(1370.0).granted(1401.0).ack(1400.0).until(1402.0).unused();
    assert_eq!((station.look.metrics().uplink_requests, station.wrong()), (2, 1));
}

#[test]
fn without_a_word_of_the_radio_a_packet_that_does_not_come_in_time_makes_a_request_wrong() {
    let mut station = Station::new(paper());
    station.beats(1, 5).data(1100.0).until(1209.0).data(1210.0);
    assert_eq!(station.wrong(), 0, "within the tolerance");
    station.ack(1212.0);
    assert_eq!((station.look.metrics().uplink_requests, station.wrong()), (1, 1));
}

#[test]
fn an_ack_after_its_turn_has_not_used_it() {
    let mut station = Station::new(paper());
    station.beats(1, 5).data(1100.0).until(1165.0).granted(1190.0).ack(1200.0).data(1300.0);
    assert_eq!((station.look.metrics().uplink_requests, station.wrong()), (1, 1));
}

#[test]
fn a_predictor_that_is_wrong_too_often_stops_asking_until_it_is_right_again() {
    let mut station = Station::new(learned());
    station.irregular_beats().times();
    // The host falls silent: every beat finds a segment owing and brings no ACK.
    station.data(3500.0).until(12_000.0).data_of(12_000.0, 2).ack_of(12_000.0, 2);
    let (asked, wrong) = (station.times().len(), station.wrong());
    assert!((5..=9).contains(&asked), "{asked} requests, {wrong} wrong");
    assert_eq!(wrong as usize, asked);
    // It is alive again and keeps the beat: after some beats that would have been right, it is asked for.
    station.beats(61, 20);
    assert!(station.times().len() >= 8);
    assert!(station.wrong() <= wrong + 1);
    // The paper's form keeps no account.
    let mut paper = Station::new(paper());
    paper.beats(1, 5).data(1100.0).until(9000.0);
    assert_eq!(paper.times().len(), 40);
}

#[test]
fn at_most_one_request_is_made_a_frame() {
    let mut station = Station::new(learned());
    station.data(0.0).ack(60.0);
    for port in 2..30 {
        // Each would ask 20 ms after its segment, half a millisecond after the one before it.
        station.data_of(100.0 + f64::from(port) * 0.5, port);
    }
    station.until(300.0);
    let asked = station.times();
    assert!(asked.len() >= 3, "{asked:?}");
    assert!(asked.windows(2).all(|pair| pair[1] - pair[0] >= 4.999), "{asked:?}");
}

#[test]
fn a_reset_a_station_that_left_and_a_flush_are_forgotten() {
    let locked = || {
        let mut station = Station::new(learned());
        station.irregular_beats().data(3450.0);
        assert!(station.look.next_timeout().is_some());
        station.times();
        station
    };
    let mut reset = locked();
    let rst = TcpSegment { flags: TcpFlags::RST, ..TcpSegment::default() };
    reset.packet(Direction::Downlink, 1, &rst, 40);
    let mut left = locked();
    left.told(LinkEventKind::StationLeft { station: StationId(7) });
    let mut flushed = locked();
    flushed.look.flush(flushed.now, &mut flushed.out);
    for mut station in [reset, left, flushed] {
        assert_eq!(station.look.metrics().flows, 0);
        station.until(5000.0);
        assert_eq!((station.times(), station.look.next_timeout()), (vec![], None));
    }
}

#[test]
fn a_connection_is_small() {
    let size = size_of::<Flow>();
    assert!(size <= 320, "{size} bytes");
}

#[test]
fn settings_that_do_not_fit_are_refused_with_the_fix() {
    let ms = Duration::from_millis;
    let n = |n| LookAheadConfig { n: FramesAhead::Fixed(n), ..paper() };
    for (config, key, message) in [
        (n(50), "n", "n = 50 frames of 5ms are 250ms, beyond the period of 200ms; write n = 40 or less"),
        (
            LookAheadConfig { period: ms(500), ..paper() },
            "period",
            "a TCP that delays ACKs by 500ms breaks RFC 1122 (4.2.3.2); write less than 500ms",
        ),
        (
            LookAheadConfig { tolerance: ms(60), ..paper() },
            "tolerance",
            "with a tolerance of 60ms half of all times are on a beat of 200ms; write 50ms or less",
        ),
        (
            LookAheadConfig { frame: ms(300), ..LookAheadConfig::default() },
            "frame",
            "a frame of 300ms is longer than the period of 200ms; write 200ms or less",
        ),
        (
            LookAheadConfig { bytes: Bytes(9000), ..paper() },
            "bytes",
            "an ACK has no 9.0 kB; write 1.5 kB or less",
        ),
    ] {
        let error = config.validate().unwrap_err();
        assert_eq!((error.keys[0], error.to_string().as_str()), (key, message));
    }
    assert_eq!(n(40).validate(), Ok(()));
    let mut settings = crate::registry::find("look-ahead").expect("registered").recommended();
    for (value, message) in [
        (Value::Whole(0), "0 is out of range; write a whole number from 1 to 100"),
        (Value::Whole(101), "101 is out of range; write a whole number from 1 to 100"),
        (
            Value::Text("some".into()),
            "\"some\" is not known here; write \"measured\" or a whole number from 1 to 100",
        ),
    ] {
        assert_eq!(settings.set("n", &value).unwrap_err().to_string(), message);
    }
    assert!(settings.set("k", &Value::Whole(0)).is_err());
    assert_eq!(settings.set("n", &Value::Whole(9)), Ok(()));
    assert_eq!(LookAheadConfig { worst: Fraction::ONE, ..paper() }, paper());
}
