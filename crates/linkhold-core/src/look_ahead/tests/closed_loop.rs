//! How much earlier ACKs get out: a host, this mechanism, and a radio that needs frames to grant a turn.

use super::*;

const FRAME: f64 = 5.0;

/// Frames from a burst to the turn of what it asked for.
const RIDE: f64 = 4.0;

/// A radio with one access at a time. In the middle of an access the station tells what it wants by then; the
/// grant is told at the start of its frame. What is wanted later rides in the burst, and is granted 4 frames
/// on. A grant is told as unused if nothing was there to send.
struct Radio {
    /// How many frames accesses take, in turn.
    takes: Vec<f64>,
    accesses: usize,
    /// When the bytes are told, when the grant is, and its turn.
    message: f64,
    told: f64,
    turn: f64,
    granted: u64,
    /// Bytes asked for, whose turn is to come.
    asked: u64,
    /// Bytes wanted for ACKs to come.
    ahead: u64,
    /// When ACKs came that wait, ms.
    queue: Vec<f64>,
    /// How long each ACK waited, ms.
    waits: Vec<f64>,
    unused: u32,
}

const NEVER: f64 = f64::INFINITY;

impl Radio {
    fn new(takes: &[f64]) -> Self {
        Self {
            takes: takes.to_vec(),
            accesses: 0,
            message: NEVER,
            told: NEVER,
            turn: NEVER,
            granted: 0,
            asked: 0,
            ahead: 0,
            queue: Vec::new(),
            waits: Vec::new(),
            unused: 0,
        }
    }

    fn unasked(&self) -> u64 {
        (self.queue.len() as u64 * u64::from(ACK) + self.ahead).saturating_sub(self.asked)
    }

    /// Starts an access if there is something to ask for and none under way.
    fn want(&mut self, ms: f64) {
        if self.turn < NEVER || self.unasked() == 0 {
            return;
        }
        let frames = self.takes[self.accesses % self.takes.len()];
        self.accesses += 1;
        // To the next frame's start, then the exchange, then the place of uplink bursts in a frame.
        let start = ((ms / FRAME).floor() + 1.0) * FRAME;
        self.turn = start + frames * FRAME + 3.0;
        self.told = self.turn - 2.5;
        self.message = self.turn - RIDE * FRAME;
    }

    /// Everything up to `ms`: the station's requests, and what the radio does.
    fn until(&mut self, ms: f64, station: &mut Station) {
        loop {
            let timer = station.look.next_timeout().map_or(NEVER, |at| at.as_secs_f64() * 1e3);
            let next = timer.min(self.message).min(self.told).min(self.turn);
            if next > ms {
                break;
            }
            station.until(next);
            self.requests(station);
            if next == self.message {
                self.message = NEVER;
                self.granted = self.unasked();
                self.asked += self.granted;
            }
            if next == self.told {
                self.told = NEVER;
                let (turn, bytes) = (at(self.turn), Bytes(self.granted));
                station.told(LinkEventKind::Grant { station: StationId(7), at: turn, bytes });
                self.requests(station);
            }
            if next == self.turn {
                self.burst(next, station);
            }
        }
        station.until(ms);
        self.requests(station);
    }

    fn burst(&mut self, ms: f64, station: &mut Station) {
        let fit = ((self.granted / u64::from(ACK)) as usize).min(self.queue.len());
        self.waits.extend(self.queue.drain(..fit).map(|came| ms - came));
        self.asked -= self.granted;
        let left = self.granted - fit as u64 * u64::from(ACK);
        if left > 0 {
            self.ahead = self.ahead.saturating_sub(left);
            self.unused += 1;
            station.told(LinkEventKind::GrantUnused { station: StationId(7), bytes: Bytes(left) });
        }
        self.turn = NEVER;
        self.granted = self.unasked();
        if self.granted > 0 {
            self.asked += self.granted;
            self.turn = ms + RIDE * FRAME;
            self.told = self.turn - 2.5;
        }
    }

    fn requests(&mut self, station: &mut Station) {
        for (ms, bytes) in std::mem::take(&mut station.asked) {
            self.ahead += bytes;
            self.want(ms);
        }
    }

    fn data(&mut self, ms: f64, port: u16, station: &mut Station) {
        self.until(ms, station);
        station.data_of(ms, port);
        self.requests(station);
    }

    fn ack(&mut self, ms: f64, port: u16, station: &mut Station) {
        self.until(ms, station);
        station.ack_of(ms, port);
        self.requests(station);
        self.queue.push(ms);
        self.ahead = self.ahead.saturating_sub(u64::from(ACK));
        self.want(ms);
    }
}

/// When a receiver acknowledges.
#[derive(Clone, Copy, PartialEq)]
enum Receiver {
    /// At the beats of its 200 ms timer only (the paper's figure 3).
    Heartbeat,
    /// Every second segment at once, or this many ms after the first.
    SecondOrAfter(f64),
}

/// What became of a run's ACKs.
#[derive(Debug)]
struct Result {
    /// Mean wait, frames.
    wait: f64,
    requests: u64,
    wrong: u64,
    /// Grants that nothing used, as the radio saw them.
    unused: u32,
}

/// A paced download over 40 s, a segment each `spacing` ms, in connections of `length` segments each.
fn download(
    config: Option<LookAheadConfig>,
    takes: &[f64],
    receiver: Receiver,
    spacing: f64,
    length: u32,
) -> Result {
    // Without look-ahead: a tolerance of nothing finds no timer, and the paper's form has nothing else.
    let off = LookAheadConfig { k: 100, tolerance: Duration::from_nanos(1), ..paper() };
    let (mut radio, mut station) = (Radio::new(takes), Station::new(config.unwrap_or(off)));
    station.told(LinkEventKind::GrantFrames { period: Duration::from_millis(5) });
    let (mut data, mut sent, mut owing, mut due, mut port) = (4.0, 0, 0, f64::MAX, 0);
    while data < 40_000.0 {
        if due <= data {
            radio.ack(due, port, &mut station);
            (owing, due) = (0, f64::MAX);
            continue;
        }
        if sent >= length && owing == 0 {
            (port, sent) = (port + 1, 0);
        }
        radio.data(data, port, &mut station);
        (sent, owing) = (sent + 1, owing + 1);
        if receiver != Receiver::Heartbeat && owing == 2 {
            radio.ack(data, port, &mut station);
            (owing, due) = (0, f64::MAX);
        } else if owing == 1 {
            // A clock that is slow by 20 parts in a million: no place in a frame is special.
            let beat = (((data - 1.3) / 200.004).floor() + 1.0) * 200.004 + 1.3;
            due = match receiver {
                Receiver::Heartbeat => beat,
                Receiver::SecondOrAfter(delay) => data + delay,
            };
        }
        data += spacing;
    }
    if due < f64::MAX {
        radio.ack(due, port, &mut station);
    }
    radio.until(50_000.0, &mut station);
    let metrics = station.look.metrics();
    // Without the first ACKs, from which it learns.
    let waits = &radio.waits[20..];
    let wait = waits.iter().sum::<f64>() / waits.len() as f64 / FRAME;
    Result {
        wait,
        requests: metrics.uplink_requests,
        wrong: metrics.uplink_requests_wrong,
        unused: radio.unused,
    }
}

const LONG: u32 = u32::MAX;

/// Runs it without and with, and holds the mean waits to bounds.
fn compare(
    name: &str,
    run: impl Fn(Option<LookAheadConfig>) -> Result,
    plain: [f64; 2],
    with: &[(LookAheadConfig, f64)],
) {
    let without = run(None);
    assert_eq!(without.requests, 0);
    println!("{name}: {:.2} frames without", without.wait);
    assert!((plain[0]..=plain[1]).contains(&without.wait), "{name}: {without:?}");
    for (config, most) in with {
        let result = run(Some(*config));
        println!("  {:?} {:?}: {result:.2?}", config.lock, config.n);
        assert!(result.wait <= *most, "{name}: {result:?}, at most {most}");
        assert!(result.wrong * 20 <= result.requests, "{name}: {result:?}");
        // In a stream an ACK may use a turn that was asked for another.
        let unnoticed = u64::from(result.unused).abs_diff(result.wrong);
        assert!(unnoticed * 50 <= result.requests, "{name}: {result:?}");
    }
}

#[test]
fn a_heartbeats_acks_wait_about_a_frame_instead_of_nine() {
    let run = |config| download(config, &[8.0], Receiver::Heartbeat, 12.0, LONG);
    let printed = LookAheadConfig { lock: Lock::Printed, ..paper() };
    compare(
        "heartbeat",
        run,
        [9.0, 9.6],
        &[(paper(), 1.6), (printed, 1.6), (LookAheadConfig::default(), 1.0)],
    );
}

#[test]
fn short_connections_gain_what_long_ones_do() {
    // A connection is over before its own ACKs could lock: the host's timer, or what others taught, serves
    // it.
    let run = |config| download(config, &[8.0], Receiver::Heartbeat, 95.0, 5);
    compare("short, heartbeat", run, [8.5, 9.6], &[(paper(), 1.6), (LookAheadConfig::default(), 1.6)]);
    let run = |config| download(config, &[8.0], Receiver::SecondOrAfter(40.0), 67.3, 3);
    compare("short, 40 ms", run, [8.5, 9.6], &[(LookAheadConfig::default(), 2.0)]);
}

#[test]
fn acks_of_a_40_ms_timer_wait_about_a_frame() {
    let run = |config| download(config, &[8.0], Receiver::SecondOrAfter(40.0), 67.3, LONG);
    compare("40 ms", run, [8.5, 9.6], &[(LookAheadConfig::default(), 2.0)]);
    let run = |config| download(config, &[8.0], Receiver::SecondOrAfter(200.0), 267.3, LONG);
    compare("200 ms after the segment", run, [8.5, 9.6], &[(LookAheadConfig::default(), 1.2)]);
}

#[test]
fn a_steady_streams_acks_wait_less_than_half_as_long() {
    let run = |config| download(config, &[8.0], Receiver::SecondOrAfter(40.0), 12.03, LONG);
    compare("every second segment", run, [6.2, 7.2], &[(LookAheadConfig::default(), 3.5)]);
}

#[test]
fn with_an_access_delay_that_varies_the_least_wait_is_not_that_of_an_n_that_is_always_enough() {
    // p_s = 0.5: half of the tries are heard at once, and each further one takes twice as many frames.
    let takes = [8.0, 9.0, 8.0, 8.0, 11.0, 8.0, 9.0, 15.0];
    let run = |config| download(config, &takes, Receiver::Heartbeat, 12.0, LONG);
    let measured = LookAheadConfig::default();
    let enough = LookAheadConfig { n: FramesAhead::Fixed(15), ..measured };
    let (without, measured, enough) = (run(None), run(Some(measured)), run(Some(enough)));
    println!("without {without:.2?}, measured {measured:.2?}, n = 15 {enough:.2?}");
    assert!(measured.wait < 0.3 * without.wait, "{measured:?}");
    assert!(measured.wait < 0.5 * enough.wait, "{enough:?}");
}
