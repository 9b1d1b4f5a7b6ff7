//! Dialogues of one endpoint with a scripted peer, each taken from the RFC it names.
//!
//! The endpoint's initial sequence number is 0, the peer's 1000: our first data byte is 1, the peer's 1001.

mod common;

use common::{at, ms};
use linkhold_core::action::Resend;
use linkhold_core::packet::{Ecn, SackBlock, SackBlocks, SynOptions, TcpFlags, TcpSegment, TcpTimestamp};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Seq};
use linkhold_tcp::{Congestion, DelayedAck, Details, Endpoint, Recovery, Source, TcpConfig, Transmit};

const PEER: u32 = 1000;

struct Talk {
    end: Endpoint,
    now: Instant,
    timestamps: bool,
    /// What the peer's next segments echo, if not the clock.
    echo: Option<u32>,
    flags: TcpFlags,
}

/// (first sequence number, payload) of each data segment.
fn data(sent: &[Transmit]) -> Vec<(u32, u32)> {
    sent.iter()
        .filter(|out| out.segment.payload_len > 0)
        .map(|out| (out.segment.seq.0, out.segment.payload_len))
        .collect()
}

impl Talk {
    /// An active opener whose handshake took 100 ms; the peer's window is 500,000 bytes unless changed later.
    fn open(config: &TcpConfig, source: Source) -> Self {
        Self::open_with(config, source, TcpFlags::SYN | TcpFlags::ACK)
    }

    fn open_with(config: &TcpConfig, source: Source, flags: TcpFlags) -> Self {
        Self::open_after(config, source, flags, |_| {})
    }

    /// As [`open_with`](Self::open_with); between the SYN and its answer `meanwhile` happens.
    fn open_after(
        config: &TcpConfig,
        source: Source,
        flags: TcpFlags,
        meanwhile: impl FnOnce(&mut Endpoint),
    ) -> Self {
        let mut end = Endpoint::connect(config, source, Seq(0));
        let syn = end.poll_transmit(at(0)).expect("a SYN").segment;
        assert!(syn.flags.contains(TcpFlags::SYN) && end.poll_transmit(at(0)).is_none());
        meanwhile(&mut end);
        let mut talk =
            Self { end, now: at(100), timestamps: config.timestamps, echo: None, flags: TcpFlags::ACK };
        let syn_ack = TcpSegment {
            seq: Seq(PEER),
            ack: Seq(1),
            window: 65535,
            flags,
            timestamp: config.timestamps.then_some(TcpTimestamp { value: 1, echo: 1 }),
            syn: SynOptions {
                mss: Some(1012),
                window_scale: config.window_scale.map(|_| 3),
                sack_permitted: config.sack,
            },
            ..TcpSegment::default()
        };
        talk.end.on_segment(talk.now, &syn_ack, Ecn::NotEct);
        talk
    }

    fn drain(&mut self) -> Vec<Transmit> {
        core::iter::from_fn(|| self.end.poll_transmit(self.now)).collect()
    }

    fn segment(&self, ack: u32, sack: &[(u32, u32)]) -> TcpSegment {
        let mut blocks = SackBlocks::EMPTY;
        for &(left, right) in sack {
            blocks.push(SackBlock { left: Seq(left), right: Seq(right) });
        }
        let clock = self.now.as_nanos() as u32 / 1_000_000 + 1;
        let echo = self.echo.unwrap_or(clock);
        TcpSegment {
            seq: Seq(PEER + 1),
            ack: Seq(ack),
            window: 62_500,
            flags: self.flags,
            timestamp: self.timestamps.then_some(TcpTimestamp { value: clock, echo }),
            sack: blocks,
            ..TcpSegment::default()
        }
    }

    /// The peer acknowledges at `ms_now`; answers what we send.
    fn ack(&mut self, ms_now: u64, ack: u32, sack: &[(u32, u32)]) -> Vec<Transmit> {
        self.now = at(ms_now);
        let segment = self.segment(ack, sack);
        self.end.on_segment(self.now, &segment, Ecn::NotEct);
        self.drain()
    }

    fn ack_window(&mut self, ms_now: u64, ack: u32, window: u16) -> Vec<Transmit> {
        self.now = at(ms_now);
        let segment = TcpSegment { window, ..self.segment(ack, &[]) };
        self.end.on_segment(self.now, &segment, Ecn::NotEct);
        self.drain()
    }

    /// Lets the next timer fire; answers when it was, in whole ms, and what we send.
    fn fire(&mut self) -> (u64, Vec<Transmit>) {
        self.now = self.end.next_timeout().expect("a timer runs");
        self.end.on_timeout(self.now);
        (self.now.as_nanos() / 1_000_000, self.drain())
    }

    /// The peer's data arrives at a receiver.
    fn arrives(&mut self, ms_now: u64, seq: u32, len: u32) -> Vec<TcpSegment> {
        self.now = at(ms_now);
        let segment = TcpSegment { seq: Seq(seq), payload_len: len, ..self.segment(1, &[]) };
        self.end.on_segment(self.now, &segment, Ecn::NotEct);
        self.drain().into_iter().map(|out| out.segment).collect()
    }
}

fn classic(recovery: Recovery) -> TcpConfig {
    TcpConfig { window_scale: Some(3), ..TcpConfig::classic(recovery, Congestion::Reno) }
}

/// Segments of 1000 payload bytes with timestamps, as the peer's MSS is 1012.
fn linux() -> TcpConfig {
    TcpConfig { timer_tick: None, ..TcpConfig::linux(Congestion::Reno) }
}

#[test]
fn rfc_7323_and_2018_options_are_used_when_both_ends_have_them() {
    let mut server = Endpoint::listen(&linux(), Source::None, Seq(PEER));
    let syn = TcpSegment {
        flags: TcpFlags::SYN,
        window: 1000,
        syn: SynOptions { mss: Some(1460), window_scale: None, sack_permitted: false },
        ..TcpSegment::default()
    };
    server.on_segment(at(0), &syn, Ecn::NotEct);
    let answer = server.poll_transmit(at(0)).unwrap().segment;
    assert!(answer.flags.contains(TcpFlags::SYN | TcpFlags::ACK) && answer.ack == Seq(1));
    assert_eq!((answer.timestamp, answer.syn.window_scale, answer.syn.sack_permitted), (None, None, false));
    assert!(!server.is_established());
    let ack = TcpSegment {
        seq: Seq(1),
        ack: Seq(PEER + 1),
        flags: TcpFlags::ACK,
        window: 1000,
        ..TcpSegment::default()
    };
    server.on_segment(at(1), &ack, Ecn::NotEct);
    assert!(server.is_established());
    assert_eq!(server.send_window_bytes(), 1000, "unscaled");

    let mut talk = Talk::open(&linux(), Source::Bulk);
    let first = talk.drain();
    assert_eq!(first[0].segment.timestamp, Some(TcpTimestamp { value: 101, echo: 1 }));
    assert_eq!(first[0].segment.payload_len, 1000, "the peer's MSS less the timestamps");
    talk.ack(200, 1001, &[]);
    assert_eq!(talk.end.send_window_bytes(), 62_500 << 3);
}

#[test]
fn a_lost_syn_is_sent_again_and_backs_off_and_slow_start_begins_with_one_segment() {
    let mut end = Endpoint::connect(&linux(), Source::Bulk, Seq(0));
    assert!(end.poll_transmit(at(0)).is_some());
    for expires in [1000, 2000] {
        assert_eq!(end.next_timeout(), Some(at(expires)));
        end.on_timeout(at(expires));
        assert!(end.poll_transmit(at(expires)).unwrap().segment.flags.contains(TcpFlags::SYN));
    }
    let syn_ack = TcpSegment {
        seq: Seq(PEER),
        ack: Seq(1),
        window: 65535,
        flags: TcpFlags::SYN | TcpFlags::ACK,
        syn: SynOptions { mss: Some(1460), ..SynOptions::default() },
        ..TcpSegment::default()
    };
    end.on_segment(at(3100), &syn_ack, Ecn::NotEct);
    let sent: Vec<_> = core::iter::from_fn(|| end.poll_transmit(at(3100))).collect();
    assert_eq!(data(&sent).len(), 1);
}

/// Linux `cubictcp_cwnd_event`: while nothing is under way CUBIC's time stands still, however long that is.
#[test]
fn cubic_does_not_grow_by_a_pause_in_which_the_window_was_closed() {
    let config = TcpConfig { timer_tick: None, ..TcpConfig::linux(Congestion::Cubic) };
    let mut talk = Talk::open(&config, Source::Bulk);
    talk.drain();
    let end_of = |sent: &[Transmit]| {
        sent.iter().map(|out| out.segment.seq.0 + out.segment.payload_len).max().unwrap_or(0)
    };
    // A loss ends slow start.
    let mut next = end_of(&talk.ack(200, 1, &[(1001, 10_001)])).max(10_001);
    let mut round_trips = |talk: &mut Talk, from: u64, count: u64| {
        for n in 0..count {
            next = next.max(end_of(&talk.ack(from + 100 * n, next, &[])));
        }
        next
    };
    let all = round_trips(&mut talk, 300, 5);
    assert_eq!(data(&talk.ack_window(800, all, 0)), []);
    let before = talk.end.cwnd_bytes();
    round_trips(&mut talk, 60_800, 5);
    let after = talk.end.cwnd_bytes();
    assert!(before > 7_000 && after * 10 <= before * 13, "{before} bytes before, {after} after");
}

/// Linux `tcp_retransmit_timer` with `sysctl_tcp_syn_linear_timeouts` = 4; `reqsk_timer_handler` doubles.
#[test]
fn timeouts_of_a_syn_double_or_in_linux_from_the_fifth_on_and_those_of_a_syn_ack_do() {
    let expiries = |mut end: Endpoint| {
        let mut at = Vec::new();
        assert!(end.poll_transmit(common::at(0)).is_some());
        for _ in 0..6 {
            let expires = end.next_timeout().expect("the timer runs");
            at.push(expires.as_nanos() / 1_000_000);
            end.on_timeout(expires);
            assert!(end.poll_transmit(expires).unwrap().segment.flags.contains(TcpFlags::SYN));
        }
        at
    };
    let connect = |config: &TcpConfig| Endpoint::connect(config, Source::Bulk, Seq(0));
    let doubling = [1000, 3000, 7000, 15_000, 31_000, 63_000];
    assert_eq!(expiries(connect(&linux())), [1000, 2000, 3000, 4000, 5000, 7000]);
    assert_eq!(expiries(connect(&TcpConfig { details: Details::Rfc, ..linux() })), doubling);
    assert_eq!(
        expiries(connect(&TcpConfig { rto_initial: ms(1000), ..classic(Recovery::NewReno) })),
        doubling
    );
    let mut server = Endpoint::listen(&linux(), Source::None, Seq(PEER));
    let syn = TcpSegment { window: 65535, flags: TcpFlags::SYN, ..TcpSegment::default() };
    server.on_segment(at(0), &syn, Ecn::NotEct);
    assert_eq!(expiries(server), doubling);
}

/// Linux `tcp_init_transfer`: one lost SYN is forgiven.
#[test]
fn data_begin_with_one_segment_after_a_lost_syn_or_in_linux_after_two() {
    for (config, lost, segments) in [
        (classic(Recovery::NewReno), 0, 4),
        (classic(Recovery::NewReno), 1, 1),
        (linux(), 1, 10),
        (linux(), 2, 1),
    ] {
        let mut end = Endpoint::connect(&config, Source::Bulk, Seq(0));
        assert!(end.poll_transmit(at(0)).is_some());
        for _ in 0..lost {
            let expires = end.next_timeout().expect("the SYN's timer");
            end.on_timeout(expires);
            assert!(end.poll_transmit(expires).is_some());
        }
        let syn_ack = TcpSegment {
            seq: Seq(PEER),
            ack: Seq(1),
            window: 65535,
            flags: TcpFlags::SYN | TcpFlags::ACK,
            syn: SynOptions { mss: Some(1012), ..SynOptions::default() },
            ..TcpSegment::default()
        };
        end.on_segment(at(5000), &syn_ack, Ecn::NotEct);
        let sent: Vec<_> = core::iter::from_fn(|| end.poll_transmit(at(5000))).collect();
        assert_eq!(data(&sent).len(), segments, "{lost} lost: {config:?}");
    }
}

/// Linux `tcp_try_undo_spurious_syn`, and `tcp_create_openreq_child` at the passive end.
#[test]
fn in_linux_a_handshake_that_was_repeated_needlessly_costs_no_window() {
    let by_the_rfc = TcpConfig { details: Details::Rfc, initial_window_segments: Some(10), ..linux() };
    // (configuration, passive, timeouts, peer's SYNs beyond the first, whose echo comes, segments).
    for (config, passive, timeouts, repeated, echoed, segments) in [
        (linux(), false, 3, 0, 0, 10),
        (linux(), false, 3, 0, 1, 1),
        (by_the_rfc.clone(), false, 3, 0, 0, 1),
        (linux(), true, 2, 0, 0, 10),
        (linux(), true, 2, 0, 2, 1),
        (linux(), true, 1, 1, 1, 1),
        (linux(), true, 0, 2, 2, 10),
        (by_the_rfc, true, 0, 2, 2, 1),
    ] {
        let (ours, theirs) = if passive { (PEER, 0) } else { (0, PEER) };
        let from_peer = |flags, echo| TcpSegment {
            seq: Seq(theirs),
            ack: Seq(ours + 1),
            window: 65535,
            flags,
            timestamp: Some(TcpTimestamp { value: 1, echo }),
            syn: SynOptions { mss: Some(1012), window_scale: Some(3), sack_permitted: true },
            ..TcpSegment::default()
        };
        let mut end = if passive {
            Endpoint::listen(&config, Source::Bulk, Seq(ours))
        } else {
            Endpoint::connect(&config, Source::Bulk, Seq(ours))
        };
        if passive {
            end.on_segment(at(0), &from_peer(TcpFlags::SYN, 0), Ecn::NotEct);
        }
        let stamp = |out: Option<Transmit>| out.and_then(|out| out.segment.timestamp).expect("it goes").value;
        let mut sent = vec![stamp(end.poll_transmit(at(0)))];
        for n in 0..repeated {
            end.on_segment(at(300 + n), &from_peer(TcpFlags::SYN, 0), Ecn::NotEct);
            sent.push(stamp(end.poll_transmit(at(300 + n))));
        }
        for _ in 0..timeouts {
            let expires = end.next_timeout().expect("the timer runs");
            end.on_timeout(expires);
            sent.push(stamp(end.poll_transmit(expires)));
        }
        let answer = if passive {
            let ack = from_peer(TcpFlags::ACK, sent[echoed]);
            TcpSegment { seq: Seq(theirs + 1), syn: SynOptions::default(), ..ack }
        } else {
            from_peer(TcpFlags::SYN | TcpFlags::ACK, sent[echoed])
        };
        end.on_segment(at(8000), &answer, Ecn::NotEct);
        let window: Vec<_> = core::iter::from_fn(|| end.poll_transmit(at(8000))).collect();
        let case = (passive, timeouts, repeated, echoed, config.details);
        assert_eq!(data(&window).len(), segments, "{case:?}");
    }
}

/// RFC 6298 section 3, Karn: nobody knows which SYN-ACK the ACK answers.
#[test]
fn a_syn_ack_that_went_again_because_the_syn_did_gives_no_sample() {
    for copies in [1, 2] {
        let config = classic(Recovery::NewReno);
        let mut server = Endpoint::listen(&config, Source::Bulk, Seq(PEER));
        let syn = TcpSegment {
            window: 65535,
            flags: TcpFlags::SYN,
            syn: SynOptions { mss: Some(1012), ..SynOptions::default() },
            ..TcpSegment::default()
        };
        for copy in 0..copies {
            server.on_segment(at(900 * copy), &syn, Ecn::NotEct);
            assert!(server.poll_transmit(at(900 * copy)).is_some());
        }
        let ack = TcpSegment {
            seq: Seq(1),
            ack: Seq(PEER + 1),
            syn: SynOptions::default(),
            flags: TcpFlags::ACK,
            ..syn
        };
        server.on_segment(at(1000), &ack, Ecn::NotEct);
        assert_eq!(server.srtt(), (copies == 1).then(|| ms(1000)), "{copies}");
    }
}

/// A window that somebody on the path closed: the receiver takes the probe's byte.
#[test]
fn the_byte_of_a_window_probe_is_timed_from_when_it_was_sent_and_only_if_it_was_sent_once() {
    for probes in [1, 2] {
        let mut talk = Talk::open(&classic(Recovery::NewReno), Source::Bulk);
        let sent = talk.drain();
        let next = 1 + data(&sent).iter().map(|(_, len)| len).sum::<u32>();
        talk.ack_window(200, next, 0);
        let before = talk.end.srtt();
        let mut fired = 0;
        for _ in 0..probes {
            let probe;
            (fired, probe) = talk.fire();
            assert_eq!(probe[0].segment.payload_len, 1);
        }
        talk.ack(fired + 100, next + 1, &[]);
        assert_eq!(before, Some(ms(100)));
        assert_eq!(talk.end.srtt(), before, "{probes} probes: 100 ms is what it took, or nobody knows");
    }
}

#[test]
fn rfc_6298_the_timeout_is_3_s_when_data_begin_after_a_syn_that_timed_out() {
    let plain = TcpConfig { timestamps: false, ..linux() };
    let by_the_rfc = TcpConfig { details: Details::Rfc, ..linux() };
    // (configuration, SYNs that were lost, RTT that the handshake gives and RTO when data begin, ms).
    for (config, lost, srtt, rto) in [
        (classic(Recovery::NewReno), 0, Some(100), 1000),
        (classic(Recovery::NewReno), 1, None, 3000),
        (plain.clone(), 0, Some(100), 300),
        (plain, 2, None, 3000),
        // The echo tells which SYN was answered. In Linux that RTT is as good as another (tcp_init_metrics).
        (by_the_rfc, 1, Some(100), 3000),
        (linux(), 1, Some(100), 300),
    ] {
        let mut end = Endpoint::connect(&config, Source::Bulk, Seq(0));
        let mut syn = end.poll_transmit(at(0)).expect("a SYN").segment;
        let mut sent = 0;
        for _ in 0..lost {
            let expires = end.next_timeout().expect("the SYN's timer");
            sent = expires.as_nanos() / 1_000_000;
            end.on_timeout(expires);
            syn = end.poll_transmit(expires).expect("a SYN").segment;
        }
        let echo = syn.timestamp.map(|ts| TcpTimestamp { value: 1, echo: ts.value });
        let syn_ack = TcpSegment {
            seq: Seq(PEER),
            ack: Seq(1),
            window: 65535,
            flags: TcpFlags::SYN | TcpFlags::ACK,
            timestamp: echo,
            syn: SynOptions { mss: Some(1012), window_scale: Some(3), sack_permitted: config.sack },
            ..TcpSegment::default()
        };
        end.on_segment(at(sent + 100), &syn_ack, Ecn::NotEct);
        assert_eq!((end.srtt(), end.rto()), (srtt.map(ms), ms(rto)), "{lost} lost: {config:?}");
        // The first sample of data ends it.
        let mut talk = Talk {
            end,
            now: at(sent + 100),
            timestamps: config.timestamps,
            echo: None,
            flags: TcpFlags::ACK,
        };
        let segment = data(&talk.drain())[0].1;
        talk.echo = Some(sent as u32 + 101);
        talk.ack(sent + 200, 1 + segment, &[]);
        assert!(talk.end.rto() <= ms(1000), "{lost} lost: {:?}", talk.end.rto());
    }
}

#[test]
fn initial_windows_follow_rfc_6928_and_3390() {
    for (config, segments) in
        [(linux(), 10), (TcpConfig::linux_2009(Congestion::Reno), 4), (classic(Recovery::NewReno), 4)]
    {
        let mut talk = Talk::open(&config, Source::Bulk);
        assert_eq!(data(&talk.drain()).len(), segments);
    }
    let mut talk = Talk::open(&TcpConfig { mss: 1460, ..classic(Recovery::NewReno) }, Source::Bulk);
    talk.drain();
    assert_eq!(talk.end.cwnd_bytes(), 4048, "min (4*1012, max (2*1012, 4380))");
}

#[test]
fn rfc_5681_three_duplicates_retransmit_and_rfc_6582_a_partial_ack_retransmits_the_next_hole() {
    let config = TcpConfig { initial_window_segments: Some(10), ..classic(Recovery::NewReno) };
    let mut talk = Talk::open(&config, Source::Bulk);
    assert_eq!(data(&talk.drain()).len(), 10);
    // Segments 2 and 4 are lost. Two duplicates send a new segment each (RFC 3042).
    let mss = 1012;
    let seq = |n: u32| 1 + (n - 1) * mss;
    let first = talk.ack(200, seq(2), &[]);
    assert_eq!(data(&first), [(seq(11), mss), (seq(12), mss)], "slow start");
    assert_eq!(data(&talk.ack(201, seq(2), &[])), [(seq(13), mss)]);
    assert_eq!(data(&talk.ack(202, seq(2), &[])), [(seq(14), mss)]);
    assert_eq!(data(&talk.ack(203, seq(2), &[])), [(seq(2), mss)], "fast retransmit");
    assert_eq!(talk.end.stats().fast_recoveries, 1);
    let flight = talk.end.ssthresh_bytes();
    assert_eq!(flight, 11 * 1012 / 2, "half of min (flight, cwnd)");
    // Partial ACK up to segment 4.
    assert_eq!(data(&talk.ack(300, seq(4), &[]))[0], (seq(4), mss));
    assert_eq!(talk.end.stats().fast_recoveries, 1);
    // Full ACK: recovery is over.
    talk.ack(400, seq(15), &[]);
    assert!(talk.end.cwnd_bytes() <= flight);
    assert_eq!(talk.end.stats().retransmits, 2);
}

#[test]
fn rfc_6582_only_the_first_partial_ack_restarts_the_timer_and_in_linux_every_one_does() {
    for (details, restarts) in [(Details::Rfc, false), (Details::Linux, true)] {
        let config = TcpConfig { initial_window_segments: Some(10), details, ..classic(Recovery::NewReno) };
        let mut talk = Talk::open(&config, Source::Bulk);
        talk.drain();
        // Segments 2, 4 and 6 are lost.
        let seq = |n: u32| 1 + (n - 1) * 1012;
        for ms in 200..=203 {
            talk.ack(ms, seq(2), &[]);
        }
        let rto = talk.end.rto();
        let timeout = |talk: &Talk| talk.end.next_timeout().unwrap();
        talk.ack(303, seq(4), &[]);
        assert_eq!(timeout(&talk), at(303) + rto, "{details:?}");
        // Duplicates in between do not touch it.
        talk.ack(304, seq(4), &[]);
        talk.ack(403, seq(6), &[]);
        let expected = at(if restarts { 403 } else { 303 }) + rto;
        assert_eq!(timeout(&talk), expected, "{details:?}");
        // The full ACK ends recovery, and restarts the timer for what was sent meanwhile (RFC 6298 (5.3)).
        talk.ack(503, seq(15), &[]);
        assert_eq!(timeout(&talk), at(503) + rto, "{details:?}");
    }
}

#[test]
fn rfc_5681_a_timeout_in_fast_recovery_lowers_ssthresh_again_and_in_linux_it_does_not() {
    for recovery in [Recovery::Reno, Recovery::NewReno, Recovery::Sack] {
        for (details, lowered) in [(Details::Rfc, [5, 2, 2]), (Details::Linux, [5, 5, 5])] {
            let config = TcpConfig { initial_window_segments: Some(10), details, ..classic(recovery) };
            let mut talk = Talk::open(&config, Source::Bulk);
            talk.drain();
            // The window is scaled from now on: no duplicate.
            talk.ack(200, 1, &[]);
            for n in 2..=4 {
                let arrived = [(1013, n * 1012 + 1)];
                talk.ack(200 + u64::from(n), 1, if config.sack { &arrived } else { &[] });
            }
            // The head's retransmission is lost, too, and so is what the timer sends.
            let mut ssthresh = vec![talk.end.ssthresh_bytes() / 1012];
            for _ in 0..2 {
                let (_, sent) = talk.fire();
                assert_eq!(data(&sent)[0], (1, 1012));
                ssthresh.push(talk.end.ssthresh_bytes() / 1012);
            }
            assert_eq!((talk.end.stats().fast_recoveries, talk.end.stats().rto_events), (1, 2));
            assert_eq!(ssthresh, lowered, "{recovery:?} {details:?}");
        }
    }
}

#[test]
fn recovery_by_duplicate_acks_goes_the_same_way_whether_they_carry_sacks_or_not() {
    for (recovery, base) in [
        (Recovery::Reno, linux()),
        (Recovery::NewReno, linux()),
        (Recovery::NewReno, classic(Recovery::NewReno)),
    ] {
        let trace = |sack: bool| {
            let config = TcpConfig {
                recovery,
                sack,
                prr: true,
                timestamps: false,
                initial_window_segments: Some(20),
                ..base.clone()
            };
            let mut talk = Talk::open(&config, Source::Bulk);
            let mut steps = vec![(talk.drain(), 0, 0)];
            let seq = |n: u32| 1 + n * 1012;
            let mut hear = |talk: &mut Talk, ms, ack, high| {
                let block = [(seq(ack + 1), seq(high))];
                let sent = talk.ack(ms, seq(ack), if sack && high > ack { &block } else { &[] });
                steps.push((sent, talk.end.cwnd_bytes(), talk.end.in_flight_bytes()));
            };
            // Segments 0 and 8 are lost, all others arrive one by one.
            for n in 1..20 {
                hear(&mut talk, 200 + u64::from(n), 0, n + 1);
            }
            for n in 20..24 {
                hear(&mut talk, 300 + u64::from(n), 8, n + 1);
            }
            hear(&mut talk, 400, 24, 24);
            assert!(talk.end.stats().fast_recoveries >= 1);
            steps
        };
        assert_eq!(trace(true), trace(false), "{recovery:?}");
    }
}

#[test]
fn rfc_6298_timeouts_double() {
    let config = TcpConfig { initial_window_segments: Some(1), ..classic(Recovery::NewReno) };
    let mut talk = Talk::open(&config, Source::Finite(Bytes(100)));
    talk.drain();
    // RTT 100 ms at the handshake; floor 1 s.
    let mut fired = Vec::new();
    for _ in 0..4 {
        let (when, sent) = talk.fire();
        assert_eq!(data(&sent), [(1, 100)]);
        assert!(sent[0].retransmit && sent[0].segment.flags.contains(TcpFlags::FIN));
        fired.push(when);
    }
    assert_eq!(fired, [1100, 3100, 7100, 15_100]);
    assert_eq!(talk.end.stats().rto_events, 4);
    assert_eq!(talk.end.cwnd_bytes(), 1012);
}

#[test]
fn rfc_2018_section_4_blocks_name_the_most_recent_first() {
    // Case 3 of the RFC: of segments of 500 bytes from 5000 the 2nd, 4th, 6th and 8th are lost.
    let mut talk = Talk::open(&TcpConfig { timestamps: false, ..linux() }, Source::None);
    talk.drain();
    let base = PEER + 1;
    talk.arrives(200, base, 500);
    let block = |n: u32| (base + n * 500, base + n * 500 + 500);
    let table = [(2, vec![block(2)]), (4, vec![block(4), block(2)]), (6, vec![block(6), block(4), block(2)])];
    for (n, expected) in table {
        let acks = talk.arrives(200, base + n * 500, 500);
        let blocks: Vec<_> = acks[0].sack.as_slice().iter().map(|b| (b.left.0, b.right.0)).collect();
        assert_eq!((acks[0].ack.0, blocks), (base + 500, expected));
    }
    // "Suppose at this point, the 4th packet is received out of order": blocks 2 to 4 become one, and come
    // first.
    let acks = talk.arrives(200, base + 1500, 500);
    let blocks: Vec<_> = acks[0].sack.as_slice().iter().map(|b| (b.left.0, b.right.0)).collect();
    assert_eq!(blocks, [(base + 1000, base + 2500), block(6)]);
    // "Suppose at this point, the 2nd segment is received": the cumulative ACK moves.
    let acks = talk.arrives(200, base + 500, 500);
    let blocks: Vec<_> = acks[0].sack.as_slice().iter().map(|b| (b.left.0, b.right.0)).collect();
    assert_eq!((acks[0].ack.0, blocks), (base + 2500, vec![block(6)]));
}

#[test]
fn rfc_2883_section_4_duplicates_are_reported_once_and_first() {
    let mut talk = Talk::open(&TcpConfig { timestamps: false, ..linux() }, Source::None);
    talk.drain();
    let base = PEER + 1;
    talk.arrives(200, base, 1000);
    // 4.1.1: a full duplicate below the cumulative ACK.
    let acks = talk.arrives(200, base + 500, 500);
    let sack = acks[0].sack.as_slice();
    assert_eq!((sack.len(), sack[0].left.0, sack[0].right.0), (1, base + 500, base + 1000));
    // 4.1.3: a duplicate above it: D-SACK, then the block that holds it.
    talk.arrives(200, base + 1500, 1000);
    let acks = talk.arrives(200, base + 2000, 500);
    let blocks: Vec<_> = acks[0].sack.as_slice().iter().map(|b| (b.left.0, b.right.0)).collect();
    assert_eq!(blocks, [(base + 2000, base + 2500), (base + 1500, base + 2500)]);
    let acks = talk.arrives(200, base + 3000, 500);
    assert_eq!(acks[0].sack.as_slice()[0].left.0, base + 3000, "reported once");
}

#[test]
fn a_heartbeat_alone_acknowledges_at_its_ticks_however_much_came() {
    let config = TcpConfig { delayed_ack: DelayedAck::HeartbeatOnly(ms(200)), ..linux() };
    let mut talk = Talk::open(&config, Source::None);
    talk.drain();
    for n in 0..5 {
        let acks = talk.arrives(210 + u64::from(n), PEER + 1 + 1000 * n, 1000);
        assert!(acks.is_empty(), "segment {n}");
        assert_eq!(talk.end.next_timeout(), Some(at(400)));
    }
    // What is out of order is still acknowledged at once.
    assert_eq!(talk.arrives(220, PEER + 7001, 1000).len(), 1);
}

#[test]
fn rfc_1122_delayed_acks_in_their_four_kinds() {
    // (kind, when the ACK of one lone segment at 200 ms goes out).
    let table = [
        (DelayedAck::Off, 200),
        (DelayedAck::Timer(ms(100)), 300),
        (DelayedAck::Heartbeat(ms(200)), 400),
        (DelayedAck::Linux, 200),
    ];
    for (kind, expected) in table {
        let config = TcpConfig { delayed_ack: kind, ..linux() };
        let mut talk = Talk::open(&config, Source::None);
        talk.drain();
        let now = talk.arrives(200, PEER + 1, 1000);
        if expected == 200 {
            assert_eq!(now.len(), 1, "{kind:?}");
            continue;
        }
        assert!(now.is_empty(), "{kind:?}");
        assert_eq!(talk.end.next_timeout(), Some(at(expected)), "{kind:?}");
        // The second full-sized segment is acknowledged at once (RFC 5681 section 4.2).
        assert_eq!(talk.arrives(210, PEER + 1001, 1000).len(), 1, "{kind:?}");
        assert_eq!(talk.end.next_timeout(), None, "{kind:?}");
    }
    let mut talk = Talk::open(&linux(), Source::None);
    talk.drain();
    let mut seq = PEER + 1;
    let mut at_once = 0;
    while !talk.arrives(200, seq, 1000).is_empty() {
        at_once += 1;
        seq += 1000;
    }
    assert_eq!(at_once, 16, "quickacks, one of them after the handshake's ACK renewed them");
    assert_eq!(talk.end.next_timeout(), Some(at(240)));
}

#[test]
fn linux_leaves_the_ack_of_a_burst_to_the_read_that_follows_where_the_buffer_is_fixed() {
    // (buffer grows, ACKs of a burst of four segments after the 16 quick ones).
    for (autotune, expected) in [(Some(Bytes(6 << 20)), [0, 1, 0, 1, 0]), (None, [0, 0, 0, 0, 1])] {
        let config = TcpConfig { receive_autotune: autotune, ..linux() };
        let mut talk = Talk::open(&config, Source::None);
        talk.drain();
        let mut seq = PEER + 1;
        for _ in 0..16 {
            assert_eq!(talk.arrives(200, seq, 1000).len(), 1);
            seq += 1000;
        }
        let mut acks = Vec::new();
        for _ in 0..4 {
            acks.push(talk.arrives(201, seq, 1000));
            seq += 1000;
        }
        // What is due at once comes after what has arrived.
        talk.end.on_timeout(at(201));
        acks.push(talk.drain().iter().map(|sent| sent.segment).collect());
        let counts: Vec<usize> = acks.iter().map(Vec::len).collect();
        assert_eq!(counts, expected, "autotuning {autotune:?}");
        let last = acks.iter().flatten().last().expect("the burst is acknowledged");
        assert_eq!(last.ack.0, seq, "all of it");
    }
}

#[test]
fn a_zero_window_is_probed_and_the_probe_is_the_stack_s_own() {
    for (config, seq, payload, first) in
        [(linux(), 10_000, 0, 500), (classic(Recovery::NewReno), 4049, 1, 1200)]
    {
        let mut talk = Talk::open(&config, Source::Bulk);
        let sent = data(&talk.drain());
        let end = sent.last().map(|(seq, len)| seq + len).unwrap();
        assert!(talk.ack_window(200, end, 0).is_empty());
        let (when, probe) = talk.fire();
        assert_eq!((when, probe.len()), (first, 1), "after an RTO");
        assert_eq!((probe[0].segment.seq.0, probe[0].segment.payload_len), (seq, payload));
        let wait = talk.now;
        let (again, _) = talk.fire();
        assert_eq!(again, wait.as_nanos() / 1_000_000 + 2 * (first - 200), "twice as long");
        let cwnd = talk.end.cwnd_bytes();
        assert_eq!((talk.end.stats().zero_window_probes, talk.end.stats().rto_events), (2, 0));
        // The window opens: data flows; what a long pause does to cwnd is the profile's.
        let sent = talk.ack_window(again + 1, end, 60_000);
        assert_eq!(data(&sent)[0].0, end);
        assert!(talk.end.cwnd_bytes() <= cwnd);
    }
}

#[test]
fn a_linux_window_that_was_closed_long_keeps_its_cwnd_and_one_of_2009_restarts() {
    for (config, keeps) in [(linux(), true), (TcpConfig::linux_2009(Congestion::Reno), false)] {
        let mut talk = Talk::open(&config, Source::Bulk);
        let mut end = 1;
        let mut sent = talk.drain();
        for round in 1..6 {
            let last = data(&sent).last().map(|(seq, len)| seq + len).unwrap();
            // A full-sized ACK per segment, so that both count alike.
            let mut next = Vec::new();
            while end < last {
                end += 1000;
                next.extend(talk.ack(100 + round * 100, end, &[]));
            }
            sent = next;
        }
        let last = data(&sent).last().map(|(seq, len)| seq + len).unwrap();
        talk.ack_window(700, last, 0);
        let before = talk.end.cwnd_bytes();
        assert!(before > 30_000);
        // Linux 2.6.2x ignores a window that the same ack shrinks, but this ack was new.
        talk.ack_window(5700, last, 60_000);
        assert_eq!(talk.end.cwnd_bytes() == before, keeps, "{before} -> {}", talk.end.cwnd_bytes());
    }
}

#[test]
fn the_rto_in_a_zero_window_enters_loss_and_retransmits_the_head_only() {
    let mut talk = Talk::open(&TcpConfig { recovery: Recovery::Sack, ..linux() }, Source::Bulk);
    talk.drain();
    // The base station closes the window with data in flight: same ack and sequence number (Linux since 6.6).
    assert!(talk.ack_window(150, 1, 0).is_empty());
    assert_eq!(talk.end.send_window_bytes(), 0);
    let cwnd = talk.end.cwnd_bytes();
    let (when, sent) = talk.fire();
    assert_eq!(
        (when, data(&sent)),
        (400, vec![(1, 1000)]),
        "SRTT 100 ms + 200 ms after the handshake at 100 ms"
    );
    assert!(talk.end.cwnd_bytes() < cwnd);
    assert_eq!((talk.end.stats().rto_events, talk.end.stats().rto_in_zero_window), (1, 1));
    // The held originals come out after the silence: the echo of an early timestamp undoes the loss (RFC
    // 3522).
    talk.echo = Some(101);
    talk.ack(450, 1001, &[]);
    // Back, and grown by what the ACK acknowledges.
    assert_eq!((talk.end.cwnd_bytes(), talk.end.stats().spurious_rtos), (cwnd + 1000, 1));
}

#[test]
fn an_old_stack_ignores_a_zero_window_that_repeats_the_ack() {
    let mut talk = Talk::open(&TcpConfig::linux_2009(Congestion::Reno), Source::Bulk);
    talk.drain();
    talk.ack(150, 1001, &[]);
    talk.ack_window(160, 1001, 0);
    assert_eq!(talk.end.send_window_bytes(), 500_000);
    talk.ack_window(170, 2001, 0);
    assert_eq!(talk.end.send_window_bytes(), 0, "a newer ack may close it");
}

#[test]
fn rfc_9293_an_ack_out_of_the_window_is_answered_and_not_heard() {
    // The peer's next number is PEER + 1. Half the number space away is where somebody's zero would be.
    for (seq, heard) in [(PEER + 1, true), (PEER, false), (PEER.wrapping_add(1 << 31), false)] {
        let mut talk = Talk::open(&linux(), Source::Bulk);
        talk.drain();
        let closed = TcpSegment { seq: Seq(seq), window: 0, ..talk.segment(1001, &[]) };
        talk.end.on_segment(at(150), &closed, Ecn::NotEct);
        talk.now = at(150);
        let answers: Vec<_> = talk.drain().iter().map(|out| out.segment.payload_len).collect();
        assert_eq!(talk.end.send_window_bytes() == 0, heard, "{seq}");
        assert_eq!(answers, if heard { vec![] } else { vec![0] }, "{seq}");
    }
}

#[test]
fn rfc_5682_two_acks_of_originals_after_a_timeout_show_it_spurious() {
    // Without timestamps: F-RTO alone decides.
    let config = TcpConfig { timestamps: false, recovery: Recovery::Sack, ..linux() };
    let mut talk = Talk::open(&config, Source::Bulk);
    assert_eq!(data(&talk.drain()).len(), 10);
    let (_, sent) = talk.fire();
    assert_eq!(data(&sent), [(1, 1012)]);
    assert_eq!(talk.end.cwnd_bytes(), 1012);
    let reductions = |talk: &Talk| (talk.end.stats().timeout_reductions, talk.end.stats().timeouts_undecided);
    assert_eq!(reductions(&talk), (1, 1));
    // Step 2.b: the first ACK advances: new data, no retransmission.
    let sent = talk.ack(500, 1013, &[]);
    assert!(!sent.is_empty() && sent.iter().all(|out| !out.retransmit), "{:?}", data(&sent));
    // Step 3.b: the second acknowledges data that was sent once.
    talk.ack(510, 2025, &[]);
    assert_eq!((talk.end.stats().spurious_rtos, talk.end.stats().retransmits), (1, 1));
    assert_eq!(reductions(&talk), (1, 0), "taken back");
    assert!(talk.end.cwnd_bytes() >= 10 * 1012);
}

#[test]
fn rfc_5682_a_duplicate_after_new_data_means_the_loss_was_real() {
    let config = TcpConfig { timestamps: false, recovery: Recovery::Sack, ..linux() };
    let mut talk = Talk::open(&config, Source::Bulk);
    talk.drain();
    talk.fire();
    let sent = talk.ack(500, 1013, &[]);
    let new = data(&sent)[0].0;
    let sent = talk.ack(510, 1013, &[(new, new + 1012)]);
    assert!(sent.iter().any(|out| out.retransmit), "repair goes on");
    talk.ack(520, new + 1012, &[]);
    let stats = talk.end.stats();
    assert_eq!((stats.timeout_reductions, stats.timeouts_undecided, stats.spurious_rtos), (1, 0, 0));
}

#[test]
fn rfc_8985_a_lost_tail_is_found_by_a_probe_and_repaired_without_a_timeout() {
    let mut talk = Talk::open(&linux(), Source::Finite(Bytes(5000)));
    assert_eq!(data(&talk.drain()).len(), 5);
    // Segments 4 and 5 are lost; the ACKs of the first three come at 200 ms.
    talk.ack(200, 3001, &[]);
    let (when, sent) = talk.fire();
    // PTO is 2 * SRTT + 2 ms after the ACK; the RTO that bounds it (section 7.2) is 300 ms after the ACK in
    // Linux.
    assert_eq!((when, data(&sent)), (402, vec![(4001, 1000)]), "the last segment again");
    assert!(sent[0].segment.flags.contains(TcpFlags::FIN));
    assert_eq!(talk.end.stats().tlp_probes, 1);
    // The probe's SACK shows the hole: 100 ms after it RACK has segment 4 lost at once, it was sent long
    // before.
    let sent = talk.ack(502, 3001, &[(4001, 5002)]);
    assert_eq!(data(&sent), [(3001, 1000)]);
    assert_eq!((talk.end.stats().rto_events, talk.end.stats().fast_recoveries), (0, 1));
    talk.ack(602, 5002, &[]);
    assert_eq!(talk.end.acknowledged(), 5000);
}

/// RFC 8985 section 7.4.2: only a D-SACK that ends where the probe does tells that the probe came twice.
#[test]
fn a_dsack_of_another_segment_does_not_excuse_what_a_tail_probe_repaired() {
    // (details, the block that came twice, whether the window is reduced).
    for (details, twice, reduced) in [
        (Details::Linux, (4001, 5001), false),
        (Details::Linux, (1001, 2001), true),
        (Details::Rfc, (4001, 5001), false),
        (Details::Rfc, (1001, 2001), true),
    ] {
        let config = TcpConfig { details, dsack_undo: false, timestamp_undo: false, ..linux() };
        let mut talk = Talk::open(&config, Source::Written(Bytes(5000)));
        assert_eq!(data(&talk.drain()).len(), 5);
        talk.ack(200, 4001, &[]);
        let (_, sent) = talk.fire();
        assert_eq!(data(&sent), [(4001, 1000)], "{details:?}");
        talk.end.write(talk.now, Bytes(2000));
        assert_eq!(data(&talk.drain()).len(), 2);
        let before = talk.end.cwnd_bytes();
        // The ACK goes beyond the probe.
        talk.ack(600, 6001, &[twice]);
        assert_eq!(talk.end.cwnd_bytes() < before, reduced, "{details:?} {twice:?}");
    }
}

#[test]
fn rfc_6937_the_window_falls_by_half_of_what_is_delivered() {
    let config = TcpConfig { initial_window_segments: Some(20), ..linux() };
    let mut talk = Talk::open(&config, Source::Bulk);
    assert_eq!(data(&talk.drain()).len(), 20);
    // Segment 1 is lost; every later one is SACKed in turn.
    let mut retransmitted = 0;
    let mut new = 0;
    for n in 2..=20u32 {
        let sent = talk.ack(200 + u64::from(n), 1, &[(1001, n * 1000 + 1)]);
        retransmitted += sent.iter().filter(|out| out.retransmit).count();
        new += sent.iter().filter(|out| !out.retransmit).count();
    }
    assert_eq!(talk.end.ssthresh_bytes(), 10_000);
    assert_eq!(retransmitted, 1);
    assert!((8..=11).contains(&new), "about one segment for two delivered: {new}");
    assert!((9_000..=11_000).contains(&talk.end.in_flight_bytes()), "{}", talk.end.in_flight_bytes());
    talk.ack(400, 20_001, &[]);
    assert_eq!(talk.end.cwnd_bytes(), 10_000);
}

#[test]
fn rfc_3168_an_echo_reduces_once_per_window_and_is_answered_with_cwr() {
    let config = TcpConfig { ecn: true, ..linux() };
    let mut talk = Talk::open_with(&config, Source::Bulk, TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE);
    let sent = talk.drain();
    assert!(sent.iter().filter(|out| out.segment.payload_len > 0).all(|out| out.ecn == Ecn::Ect0));
    talk.flags = TcpFlags::ACK | TcpFlags::ECE;
    let mut sent = talk.ack(200, 1001, &[]);
    sent.extend(talk.ack(201, 2001, &[]));
    assert_eq!((talk.end.ssthresh_bytes(), talk.end.stats().ecn_reductions), (5000, 1));
    talk.flags = TcpFlags::ACK;
    for n in 3..=8 {
        sent.extend(talk.ack(202, n * 1000 + 1, &[]));
    }
    let cwr: Vec<_> = sent.iter().map(|out| out.segment.flags.contains(TcpFlags::CWR)).collect();
    assert_eq!(cwr.iter().filter(|&&set| set).count(), 1);
    assert!(cwr[0], "on the first new segment");
}

#[test]
fn rfc_3168_the_window_of_a_reduction_ends_with_the_segment_that_carries_cwr() {
    for details in [Details::Rfc, Details::Linux] {
        let config = TcpConfig { ecn: true, details, ..linux() };
        let mut talk = Talk::open_with(&config, Source::Bulk, TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE);
        talk.drain();
        // The receiver echoes until CWR reaches it. CWR rides on the first segment after the ten that were
        // out, so the ACK of those ten still carries the echo.
        talk.flags = TcpFlags::ACK | TcpFlags::ECE;
        for n in 1..=10 {
            talk.ack(200 + u64::from(n), n * 1000 + 1, &[]);
            assert_eq!(
                (talk.end.ssthresh_bytes(), talk.end.stats().ecn_reductions),
                (5000, 1),
                "{details:?} {n}"
            );
        }
        assert_eq!(talk.end.cwnd_bytes(), 5000, "{details:?}");
        // An echo beyond CWR is that of another mark.
        talk.ack(300, 11_001, &[]);
        assert_eq!(talk.end.stats().ecn_reductions, 2, "{details:?}");
        // The next window's answers carry none: the window grows again beyond its CWR.
        talk.flags = TcpFlags::ACK;
        // Linux comes down to it as data is delivered.
        let reduced = talk.end.ssthresh_bytes();
        let mut acked = 11_001;
        for n in 0..4 {
            acked += 1000;
            talk.ack(400 + n, acked, &[]);
        }
        assert!(talk.end.cwnd_bytes() == reduced || details == Details::Linux, "{details:?}");
        assert_eq!(talk.end.stats().ecn_reductions, 2, "{details:?}");
        for n in 4..12 {
            acked += 1000;
            talk.ack(400 + n, acked, &[]);
        }
        assert!(talk.end.cwnd_bytes() > reduced, "{details:?}");
    }
}

/// RFC 3168 halves at once, so that nothing goes for five of ten ACKs. Linux `tcp_enter_cwr` sends a segment
/// for two that are delivered.
#[test]
fn an_echo_reduces_at_once_and_in_linux_as_data_is_delivered() {
    for (details, most_quiet) in [(Details::Rfc, 5), (Details::Linux, 2)] {
        let config = TcpConfig { ecn: true, details, ..linux() };
        let mut talk = Talk::open_with(&config, Source::Bulk, TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE);
        talk.drain();
        talk.flags = TcpFlags::ACK | TcpFlags::ECE;
        let (mut quiet, mut longest, mut new) = (0, 0, 0);
        for n in 1..=10 {
            let sent = data(&talk.ack(200 + u64::from(n), n * 1000 + 1, &[])).len();
            quiet = if sent == 0 { quiet + 1 } else { 0 };
            longest = longest.max(quiet);
            new += sent;
        }
        assert_eq!((longest, new), (most_quiet, 5), "{details:?}");
        assert_eq!((talk.end.cwnd_bytes(), talk.end.ssthresh_bytes()), (5000, 5000), "{details:?}");
    }
}

/// In a freeze nothing moves the window; but what was delivered then would reduce it no more after the thaw.
#[test]
fn a_freeze_leaves_nothing_of_a_window_that_an_echo_reduces() {
    for details in [Details::Rfc, Details::Linux] {
        let config = TcpConfig { ecn: true, details, ..linux() };
        let mut talk = Talk::open_with(&config, Source::Bulk, TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE);
        talk.drain();
        talk.flags = TcpFlags::ACK | TcpFlags::ECE;
        let first = data(&talk.ack(200, 1001, &[]));
        talk.end.freeze(at(201));
        let all = 10_001 + 1000 * first.len() as u32;
        assert!(talk.ack(202, all, &[]).is_empty());
        talk.now = at(900);
        talk.end.thaw(talk.now, Resend::Nothing);
        assert_eq!(data(&talk.drain()).len(), 5, "{details:?}");
        assert_eq!((talk.end.cwnd_bytes(), talk.end.ssthresh_bytes()), (5000, 5000), "{details:?}");
    }
}

#[test]
fn rfc_3168_the_loss_of_the_segment_with_cwr_reduces_again_and_linux_has_it_in_one() {
    for (details, ssthresh) in [(Details::Rfc, 2500), (Details::Linux, 5000)] {
        let config = TcpConfig { ecn: true, details, ..linux() };
        let mut talk = Talk::open_with(&config, Source::Bulk, TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE);
        talk.drain();
        talk.flags = TcpFlags::ACK | TcpFlags::ECE;
        for n in 1..=10 {
            talk.ack(200 + u64::from(n), n * 1000 + 1, &[]);
        }
        // The segment at 10,001 carries CWR and is lost; the four after it arrive.
        for n in 11..=14 {
            talk.ack(300 + u64::from(n), 10_001, &[(11_001, n * 1000 + 1001)]);
        }
        assert_eq!(talk.end.stats().fast_recoveries, 1);
        assert_eq!(talk.end.ssthresh_bytes(), ssthresh, "{details:?}");
    }
}

#[test]
fn a_loss_in_a_window_that_was_reduced_for_ecn_is_repaired_by_fast_retransmit() {
    // RFC 6582 moves recover at a fast retransmit and at a timeout, and ECN is neither.
    for recovery in [Recovery::Reno, Recovery::NewReno, Recovery::Sack] {
        let config = TcpConfig { initial_window_segments: Some(10), ecn: true, ..classic(recovery) };
        let mut talk = Talk::open_with(&config, Source::Bulk, TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE);
        talk.drain();
        let seq = |n: u32| 1 + (n - 1) * 1012;
        // Segment 1 was marked and segment 2 is lost; the receiver echoes the mark until it sees CWR.
        talk.flags = TcpFlags::ACK | TcpFlags::ECE;
        talk.ack(200, seq(2), &[]);
        assert_eq!((talk.end.ssthresh_bytes(), talk.end.stats().ecn_reductions), (4554, 1));
        let mut again = Vec::new();
        for n in 4..=6 {
            let arrived = [(seq(3), seq(n))];
            let sent = talk.ack(200 + u64::from(n), seq(2), if config.sack { &arrived } else { &[] });
            again.extend(sent.iter().filter(|out| out.retransmit).map(|out| out.segment.seq.0));
        }
        assert_eq!(again, [seq(2)], "{recovery:?}");
        // One reduction is for both.
        assert_eq!((talk.end.ssthresh_bytes(), talk.end.stats().fast_recoveries), (4554, 1), "{recovery:?}");
    }
}

#[test]
fn rfc_3168_a_mark_is_echoed_until_cwr_and_never_without_negotiation() {
    for ecn in [true, false] {
        let config = TcpConfig { ecn, delayed_ack: DelayedAck::Off, ..linux() };
        let mut talk = Talk::open_with(&config, Source::None, TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE);
        talk.drain();
        let mut echoed = Vec::new();
        for (n, mark, flags) in [
            (0, Ecn::Ect0, TcpFlags::ACK),
            (1, Ecn::Ce, TcpFlags::ACK),
            (2, Ecn::Ect0, TcpFlags::ACK),
            (3, Ecn::Ect0, TcpFlags::ACK | TcpFlags::CWR),
        ] {
            let seq = Seq(PEER + 1 + n * 100);
            let segment = TcpSegment { seq, payload_len: 100, flags, ..talk.segment(1, &[]) };
            talk.end.on_segment(talk.now, &segment, mark);
            echoed.push(talk.drain()[0].segment.flags.contains(TcpFlags::ECE));
        }
        assert_eq!(echoed, [false, ecn, ecn, false]);
    }
}

#[test]
fn rfc_7323_an_old_duplicate_fails_paws() {
    let mut talk = Talk::open(&linux(), Source::None);
    talk.drain();
    talk.arrives(200, PEER + 1, 1000);
    let old = TcpSegment {
        seq: Seq(PEER + 1001),
        payload_len: 1000,
        timestamp: Some(TcpTimestamp { value: 150, echo: 1 }),
        ..talk.segment(1, &[])
    };
    talk.end.on_segment(at(210), &old, Ecn::NotEct);
    assert_eq!((talk.end.delivered(), talk.end.stats().paws_drops), (1000, 1));
    assert_eq!(talk.drain().len(), 1, "dropped, and acknowledged");
}

#[test]
fn rfc_7323_a_late_copy_of_old_data_does_not_make_paws_drop_what_left_before_it() {
    let mut talk = Talk::open(&linux(), Source::None);
    talk.drain();
    let data = |talk: &Talk, seq: u32, value: u32| TcpSegment {
        seq: Seq(PEER + seq),
        payload_len: 1000,
        timestamp: Some(TcpTimestamp { value, echo: 1 }),
        ..talk.segment(1, &[])
    };
    for (ms, seq, value) in [(200, 1, 200), (201, 1001, 201)] {
        let segment = data(&talk, seq, value);
        talk.end.on_segment(at(ms), &segment, Ecn::NotEct);
        talk.drain();
    }
    // The sender's timeout sent the first segment again, though it had arrived.
    let copy = data(&talk, 1, 900);
    talk.end.on_segment(at(300), &copy, Ecn::NotEct);
    assert_eq!(talk.drain().len(), 1, "answered, since it lies outside the window");
    // The third left before that copy and was repaired on its way.
    let late = data(&talk, 2001, 202);
    talk.end.on_segment(at(301), &late, Ecn::NotEct);
    assert_eq!((talk.end.delivered(), talk.end.stats().paws_drops), (3000, 0));
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    // Bounded by the receiver's window, and by the application: cwnd stays.
    for congestion in [Congestion::Reno, Congestion::Cubic, Congestion::Vegas] {
        let mut talk = Talk::open(&TcpConfig::linux(congestion), Source::Bulk);
        talk.drain();
        for n in 1..100u32 {
            talk.ack_window(200 + u64::from(n), n * 1000 + 1, 750);
        }
        // 750 << 3 = 6000 bytes: slow start may reach twice what was in flight when it began.
        assert!(talk.end.cwnd_bytes() <= 20_000, "{congestion:?}: {}", talk.end.cwnd_bytes());
    }
}

#[test]
fn both_fins_close_the_connection() {
    let mut talk = Talk::open(&linux(), Source::Finite(Bytes(1500)));
    let sent = talk.drain();
    assert!(sent[1].segment.flags.contains(TcpFlags::FIN));
    assert_eq!(sent[1].segment.payload_len, 500);
    talk.ack(200, 1502, &[]);
    assert!(!talk.end.is_closed());
    let fin = TcpSegment { flags: TcpFlags::ACK | TcpFlags::FIN, ..talk.segment(1502, &[]) };
    talk.end.on_segment(at(201), &fin, Ecn::NotEct);
    assert!(talk.end.is_closed());
    let ack = talk.drain();
    assert_eq!(ack[0].segment.ack, Seq(PEER + 2));
    assert_eq!(talk.end.acknowledged(), 1500);
}

/// RFC 5681 section 2: cwnd limits data. In Linux, which counts packets, the FIN rides on the last.
#[test]
fn a_full_last_segment_goes_with_its_fin_when_cwnd_has_room_for_its_data() {
    for segments in [1, 10] {
        let config = TcpConfig { initial_window_segments: Some(segments), ..linux() };
        let mut talk = Talk::open(&config, Source::Finite(Bytes(1000 * u64::from(segments))));
        let sent = talk.drain();
        let expected: Vec<_> = (0..segments).map(|n| (1 + 1000 * n, 1000)).collect();
        assert_eq!(data(&sent), expected);
        assert!(sent.last().unwrap().segment.flags.contains(TcpFlags::FIN));
    }
    // The same for what goes again, and while the FIN is out.
    let config = TcpConfig { initial_window_segments: Some(3), ..classic(Recovery::NewReno) };
    let mut talk = Talk::open(&config, Source::Finite(Bytes(3 * 1012)));
    assert_eq!(data(&talk.drain()).len(), 3);
    let (when, again) = talk.fire();
    assert_eq!(data(&again), [(1, 1012)]);
    assert_eq!(data(&talk.ack(when + 100, 1013, &[])), [(1013, 1012), (2025, 1012)]);
}

#[test]
fn a_frozen_sender_keeps_its_state_and_its_timers_stand_still() {
    let mut talk = Talk::open(&linux(), Source::Bulk);
    talk.drain();
    talk.ack(200, 1001, &[]);
    let due = talk.end.next_timeout().unwrap();
    let state = (talk.end.cwnd_bytes(), talk.end.ssthresh_bytes(), talk.end.srtt(), talk.end.rto());
    talk.end.freeze(at(250));
    assert_eq!(talk.end.next_timeout(), None);
    // An ACK in the silence is taken, but moves neither window nor estimate, and nothing is sent.
    assert!(talk.ack(300, 3001, &[]).is_empty());
    talk.end.on_timeout(at(5000));
    talk.now = at(5250);
    talk.end.thaw(talk.now, Resend::Nothing);
    assert_eq!((talk.end.cwnd_bytes(), talk.end.ssthresh_bytes(), talk.end.srtt(), talk.end.rto()), state);
    assert!(talk.end.next_timeout().unwrap() >= due + ms(5000));
    assert!(!data(&talk.drain()).is_empty());
    assert_eq!(talk.end.stats().rto_events, 0);
}

/// Without SACK the window is inflated by duplicates; the ACK that ends the recovery may come in a freeze.
#[test]
fn a_recovery_that_ends_in_a_freeze_leaves_no_inflated_window() {
    for (recovery, full) in [(Recovery::NewReno, true), (Recovery::NewReno, false), (Recovery::Reno, true)] {
        let config = TcpConfig { initial_window_segments: Some(10), ..classic(recovery) };
        let mut talk = Talk::open(&config, Source::Bulk);
        let mut sent = data(&talk.drain());
        assert_eq!(sent.len(), 10);
        for n in 0..9 {
            sent.extend(data(&talk.ack(200 + n, 1, &[])));
        }
        assert_eq!((talk.end.cwnd_bytes(), talk.end.stats().fast_recoveries), (5 * 1012, 1));
        talk.end.freeze(at(250));
        let end = sent.iter().map(|(start, len)| start + len).max().expect("data");
        // The recovery point is the end of the first ten; a partial ACK comes two short of it.
        let acked = if full { end } else { 1 + 8 * 1012 };
        assert!(talk.ack(300, acked, &[]).is_empty());
        talk.now = at(400);
        talk.end.thaw(talk.now, Resend::Nothing);
        talk.drain();
        let (out, cwnd) = (talk.end.in_flight_bytes(), talk.end.cwnd_bytes());
        // RFC 6582 section 3.2 step 3: a partial ACK takes what it acknowledges off, and adds a segment.
        let most = if full { cwnd } else { cwnd + (3 + 6 - 8 + 1) * 1012 };
        assert!(out <= most, "{recovery:?}, all {full}: {out} bytes are out with a window of {cwnd}");
        assert_eq!(cwnd, 5 * 1012);
    }
}

#[test]
fn a_probe_that_is_answered_in_a_freeze_is_no_loss_after_it() {
    let mut talk = Talk::open(&linux(), Source::Written(Bytes(5000)));
    assert_eq!(data(&talk.drain()).len(), 5);
    talk.ack(200, 3001, &[]);
    let (when, probe) = talk.fire();
    assert_eq!(data(&probe), [(4001, 1000)]);
    let before = (talk.end.cwnd_bytes(), talk.end.ssthresh_bytes());
    talk.end.freeze(at(when + 1));
    // Nothing was lost: the original was late, and the probe arrives twice.
    talk.ack(when + 50, 5001, &[]);
    talk.ack(when + 60, 5001, &[(4001, 5001)]);
    talk.now = at(when + 200);
    talk.end.thaw(talk.now, Resend::First);
    talk.end.write(talk.now, Bytes(2000));
    assert_eq!(data(&talk.drain()), [(5001, 1000), (6001, 1000)]);
    talk.ack(when + 300, 7001, &[]);
    let (cwnd, ssthresh) = (talk.end.cwnd_bytes(), talk.end.ssthresh_bytes());
    assert!(cwnd >= before.0 && ssthresh == before.1, "{before:?}, then {cwnd} and {ssthresh}");
}

/// Linux adds its least RTO for the worst delayed ACK of a single segment (`tcp_schedule_loss_probe`).
#[test]
fn a_single_segment_is_probed_for_after_two_round_trips_and_the_least_rto() {
    // The handshake took 100 ms. Linux's probe comes no later than its RTO, 600 ms after the segment.
    for (details, wanted) in [(Details::Linux, 100 + 600), (Details::Rfc, 100 + 200 + 200)] {
        let config = TcpConfig { rto_min: ms(600), rto_min_on_variance: false, details, ..linux() };
        let mut talk = Talk::open(&config, Source::Written(Bytes(1000)));
        assert_eq!(data(&talk.drain()).len(), 1);
        let (when, _) = talk.fire();
        assert!(when.abs_diff(wanted) <= 4, "{details:?}: {when}");
    }
}

/// In a cell only the radio stood still: the ACKs of what was out may have waited at the base station.
#[test]
fn what_was_out_in_a_freeze_tells_no_round_trip_and_what_goes_after_it_does() {
    let plain = TcpConfig { timestamps: false, ..linux() };
    for (config, mss) in [(linux(), 1000), (plain, 1012), (classic(Recovery::NewReno), 1012)] {
        for sacked in [false, config.sack] {
            let mut talk = Talk::open(&config, Source::Bulk);
            let first = data(&talk.drain()).len() as u32;
            let end = 1 + mss * first;
            talk.ack(200, end, &[]);
            talk.end.freeze(at(201));
            talk.now = at(5201);
            talk.end.thaw(talk.now, Resend::Nothing);
            assert!(talk.drain().is_empty());
            // What the data sent at 200 ms carried.
            talk.echo = Some(201);
            let block = [(end + mss, end + 2 * mss)];
            let sent = if sacked { talk.ack(5203, end, &block) } else { talk.ack(5203, end + 2 * mss, &[]) };
            assert_eq!(talk.end.srtt(), Some(ms(100)), "{sacked} {config:?}");
            if sacked {
                // What the block leaves open arrived, too; nothing was retransmitted.
                talk.ack(5204, end + 2 * mss, &[]);
                assert_eq!(talk.end.srtt(), Some(ms(100)), "{config:?}");
                continue;
            }
            talk.echo = Some(5204);
            let last = data(&sent).last().map(|(start, len)| start + len).expect("new data");
            talk.ack(5243, last, &[]);
            assert_eq!(talk.end.srtt(), Some(Duration::from_micros(92_500)), "{config:?}");
        }
    }
}

/// A round trip of 3 ms would stay the smallest of a path that has 100, and look like a long queue.
#[test]
fn vegas_keeps_its_window_after_a_freeze() {
    let config = TcpConfig { timer_tick: None, ..TcpConfig::linux(Congestion::Vegas) };
    let mut talk = Talk::open(&config, Source::Bulk);
    let sent = data(&talk.drain());
    let mut next = 1 + 1000 * sent.len() as u32;
    // One ACK a segment, all 100 ms after it: enough samples for Vegas to judge a round trip by.
    let mut round = |talk: &mut Talk, ms_now: u64, from: u32| {
        let sent = (from..next).step_by(1000).flat_map(|ack| talk.ack(ms_now, ack + 1000, &[]));
        let new: u32 = data(&sent.collect::<Vec<_>>()).iter().map(|(_, len)| len).sum();
        let from = next;
        next += new;
        from
    };
    let from = round(&mut talk, 200, 1);
    let from = round(&mut talk, 300, from);
    let before = talk.end.cwnd_bytes();
    talk.end.freeze(at(301));
    talk.now = at(5301);
    talk.end.thaw(talk.now, Resend::Nothing);
    talk.echo = Some(301);
    let mut from = round(&mut talk, 5303, from);
    talk.echo = None;
    for n in 1..6 {
        from = round(&mut talk, 5303 + 100 * n, from);
    }
    let after = talk.end.cwnd_bytes();
    assert!(after > before, "{before} bytes before, {after} after");
}

/// The answer to a SYN may wait at the base station, too.
#[test]
fn a_handshake_that_was_out_in_a_freeze_tells_no_round_trip() {
    for timestamps in [false, true] {
        let config = TcpConfig { timestamps, ..linux() };
        let talk =
            Talk::open_after(&config, Source::Bulk, TcpFlags::SYN | TcpFlags::ACK, |end: &mut Endpoint| {
                end.freeze(at(1));
                end.thaw(at(98), Resend::Nothing);
            });
        assert_eq!(talk.end.srtt(), None, "timestamps {timestamps}");
    }
}

/// Linux `tcp_dsack_seen`: RACK's window widens by D-SACKs that reordering may have caused.
#[test]
fn a_dsack_widens_racks_window_and_in_linux_only_after_reordering_and_not_for_a_probe() {
    // (details, reordering seen, the probe's D-SACK, ms that RACK waits with a smallest RTT of 100 ms).
    for (details, reorders, of_probe, wait) in [
        (Details::Linux, false, false, 25 + 2),
        (Details::Linux, true, false, 50 + 2),
        (Details::Linux, true, true, 25 + 2),
        (Details::Rfc, false, false, 50),
        (Details::Rfc, true, true, 50),
    ] {
        let config = TcpConfig { details, timestamp_undo: false, ..linux() };
        let mut talk = Talk::open(&config, Source::Written(Bytes(10_000)));
        talk.drain();
        talk.echo = Some(101);
        if reorders {
            talk.ack(200, 1, &[(2001, 3001)]);
        }
        talk.ack(201, 1, &[(1001, 3001)]);
        if of_probe {
            talk.ack(202, 9001, &[]);
        } else {
            talk.ack(202, 1, &[(1001, 10_001)]);
        }
        while talk.end.stats().retransmits == 0 {
            talk.fire();
        }
        let twice = if of_probe { (9001, 10_001) } else { (1, 1001) };
        talk.ack(800, 10_001, &[twice]);
        talk.now = at(1000);
        talk.end.write(at(1000), Bytes(5000));
        assert_eq!(data(&talk.drain()).len(), 5);
        talk.ack(1100, 10_001, &[(11_001, 12_001)]);
        let timeout = talk.end.next_timeout().unwrap();
        assert_eq!(timeout, at(1100 + wait) + Duration::from_nanos(1), "{details:?} {reorders} {of_probe}");
    }
}

/// Linux `tcp_dsack_seen`: what arrived twice more often than it was retransmitted, somebody else repeated.
#[test]
fn in_linux_dsacks_beyond_the_retransmissions_prove_nothing() {
    for (details, earlier, undone) in
        [(Details::Linux, false, 1), (Details::Linux, true, 0), (Details::Rfc, true, 1)]
    {
        let config = TcpConfig { details, timestamp_undo: false, ..linux() };
        let mut talk = Talk::open(&config, Source::Bulk);
        talk.drain();
        let block = [(1, 1001)];
        let new = data(&talk.ack(200, 1001, if earlier { &block } else { &[] }));
        let all = new.last().map(|(start, len)| start + len).expect("slow start");
        let again = talk.ack(201, 1001, &[(2001, 5001)]);
        assert_eq!(again.iter().filter(|out| out.retransmit).count(), 1);
        talk.ack(300, all, &[(1001, 2001)]);
        assert_eq!(talk.end.stats().spurious_recoveries, undone, "{details:?} {earlier}");
    }
}

/// Linux `tcp_dsack_seen`: a block of more than the peer ever offered was never on its way; it does not make
/// later ones doubtful.
#[test]
fn in_linux_a_dsack_of_more_than_the_largest_window_is_passed_over() {
    let config = TcpConfig { timestamp_undo: false, ..linux() };
    let mut talk = Talk::open(&config, Source::Bulk);
    talk.drain();
    let (mut at_ms, mut all) = (200, 10_001);
    while all < 600_000 {
        let sent = data(&talk.ack(at_ms, all, &[]));
        all = sent.last().map(|(start, len)| start + len).expect("new data");
        at_ms += 100;
    }
    // The peer offers 500,000 bytes.
    let sent = data(&talk.ack(at_ms, all, &[(1, 550_001)]));
    let end = sent.last().map(|(start, len)| start + len).expect("new data");
    let again = talk.ack(at_ms + 100, all, &[(all + 1000, all + 4000)]);
    assert_eq!(again.iter().filter(|out| out.retransmit).count(), 1);
    talk.ack(at_ms + 200, end, &[(all, all + 1000)]);
    assert_eq!(talk.end.stats().spurious_recoveries, 1);
}

/// cr-aware section 3: the timer starts anew with the frozen RTO, cwnd is as it was, and what waits for an
/// acknowledgment goes again at once.
#[test]
fn a_thawed_sender_sends_again_at_once_what_waits_for_an_acknowledgment() {
    for recovery in [Recovery::Reno, Recovery::NewReno, Recovery::Sack] {
        for (resend, expected) in [(Resend::Nothing, 0), (Resend::First, 1), (Resend::All, 4)] {
            // Segments of 1012 bytes, without timestamps.
            let mut talk = Talk::open(&classic(recovery), Source::Finite(Bytes(6 * 1012)));
            talk.drain();
            talk.ack(200, 1013, &[]);
            talk.ack(210, 2025, &[]);
            let state = (talk.end.cwnd_bytes(), talk.end.ssthresh_bytes(), talk.end.rto());
            talk.end.freeze(at(250));
            assert!(talk.drain().is_empty());
            talk.now = at(9000);
            talk.end.thaw(talk.now, resend);
            let sent = talk.drain();
            let again: Vec<&Transmit> = sent.iter().filter(|out| out.retransmit).collect();
            assert_eq!(again.len(), expected, "{recovery:?}, {resend:?}: {:?}", data(&sent));
            assert_eq!((talk.end.cwnd_bytes(), talk.end.ssthresh_bytes(), talk.end.rto()), state);
            assert_eq!(talk.end.next_timeout(), Some(at(9000) + state.2));
            if let Some(first) = again.first() {
                assert_eq!(first.segment.seq, Seq(2025));
            }
            // The receiver had it all: the duplicate ACKs that the needless copies cause are no congestion.
            for n in 0..expected as u64 {
                talk.ack(9100 + n, 6074, &[]);
            }
            assert_eq!(talk.end.ssthresh_bytes(), state.1);
            assert_eq!(talk.end.stats().fast_recoveries, 0);
        }
    }
}

/// What an ACK of the silence leaves as the first may already be marked, with no room for it in cwnd. It goes
/// at once all the same: with nothing else sent no ACK would come, and the RTO would be waited for.
#[test]
fn a_thawed_sender_sends_its_first_segment_also_where_it_is_marked_and_cwnd_is_full() {
    let start = |segment: u32| segment * 1012 + 1;
    for resend in [Resend::First, Resend::All] {
        let mut talk = Talk::open(&classic(Recovery::Sack), Source::Bulk);
        talk.drain();
        let mut first = 0;
        while talk.end.cwnd_bytes() < 10 * 1012 {
            first += 1;
            talk.ack(200 + u64::from(first), start(first), &[]);
        }
        // Of ten segments two are lost. cwnd is halved, and the five that follow fill it.
        let arrived = (start(first + 2), start(first + 5));
        let again = talk.ack(300, start(first), &[arrived]);
        assert_eq!(data(&again), [(start(first), 1012)]);
        talk.end.freeze(at(310));
        assert!(talk.ack(320, start(first + 1), &[arrived]).is_empty());
        talk.now = at(9000);
        talk.end.thaw(talk.now, resend);
        let sent = data(&talk.drain());
        assert_eq!(sent.first(), Some(&(start(first + 1), 1012)), "{resend:?}: {sent:?}");
    }
}

/// cr-aware section 4.2, TCP-LR.
#[test]
fn what_a_base_station_misses_goes_at_once_and_all_of_it_at_every_timeout() {
    let start = |segment: u32| segment * 1012 + 1;
    let mut talk = Talk::open(&classic(Recovery::NewReno), Source::Finite(Bytes(20 * 1012)));
    talk.drain();
    for n in 1..6 {
        talk.ack(200 + u64::from(n), start(n), &[]);
    }
    let window = (talk.end.cwnd_bytes(), talk.end.ssthresh_bytes());
    // Blocks of whole segments.
    let missing = |talk: &mut Talk, ms_now, list: &[(u32, u32)]| {
        let mut blocks = SackBlocks::EMPTY;
        for &(left, right) in list {
            blocks.push(SackBlock { left: Seq(start(left)), right: Seq(start(right)) });
        }
        talk.now = at(ms_now);
        talk.end.missing(talk.now, &blocks);
        talk.drain()
    };
    let again = |sent: &[Transmit]| {
        let again = sent.iter().filter(|out| out.retransmit);
        again.map(|out| (out.segment.seq.0 - 1) / 1012).collect::<Vec<_>>()
    };
    assert_eq!(again(&missing(&mut talk, 210, &[(6, 7), (9, 10)])), [5, 7, 8]);
    assert_eq!((talk.end.cwnd_bytes(), talk.end.ssthresh_bytes()), window, "no congestion");
    assert!(again(&missing(&mut talk, 211, &[(6, 7), (9, 10)])).is_empty(), "they are under way");
    let (_, sent) = talk.fire();
    assert_eq!(again(&sent)[..3], [5, 7, 8], "not the first alone");
    // Blocks that fit nothing, and a report of an old connection, do no harm.
    assert!(missing(&mut talk, 5000, &[(0, 900), (40, 50), (8, 7)]).is_empty());
}

#[test]
fn an_application_that_stops_gets_its_fin_after_what_was_sent() {
    let mut talk = Talk::open(&linux(), Source::Bulk);
    talk.drain();
    talk.end.end_source(at(150));
    assert!(talk.drain().is_empty(), "cwnd is full");
    let sent = talk.ack(200, 1001, &[]);
    assert_eq!((sent.len(), sent[0].segment.seq, sent[0].segment.payload_len), (1, Seq(10_001), 0));
    assert!(sent[0].segment.flags.contains(TcpFlags::FIN));
    assert!(talk.ack(300, 10_002, &[]).is_empty(), "nothing follows the FIN");
    assert_eq!(talk.end.acknowledged(), 10_000);
}

#[test]
fn an_application_that_stops_before_the_connection_is_up_has_sent_what_it_wrote() {
    let paced = Source::paced(BitRate::from_mbps(8), Bytes(1000));
    for (source, written) in [(Source::Bulk, 0), (paced, 0), (Source::Written(Bytes(300)), 300)] {
        let flags = TcpFlags::SYN | TcpFlags::ACK;
        let mut talk = Talk::open_after(&linux(), source, flags, |end| end.end_source(at(50)));
        let sent = talk.drain();
        let fins = sent.iter().filter(|out| out.segment.flags.contains(TcpFlags::FIN)).count();
        let bytes: u32 = sent.iter().map(|out| out.segment.payload_len).sum();
        assert_eq!((fins, bytes, talk.end.source()), (1, written, Source::Finite(Bytes(written.into()))));
        assert!(talk.ack(300, written + 2, &[]).is_empty(), "{source:?}: nothing follows the FIN");
    }
}
