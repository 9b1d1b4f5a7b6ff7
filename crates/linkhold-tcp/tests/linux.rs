//! Dialogues with the `linux` profile where the kernel does other than the RFCs say, or more; each names the
//! function.
//!
//! The endpoint's initial sequence number is 0, the peer's 1000; segments carry 1000 bytes; the round trip is
//! 100 ms.

mod common;

use common::at;
use linkhold_core::packet::{Ecn, SackBlock, SackBlocks, SynOptions, TcpFlags, TcpSegment, TcpTimestamp};
use linkhold_core::time::Instant;
use linkhold_core::units::Seq;
use linkhold_tcp::{Congestion, Details, Endpoint, Source, TcpConfig, Transmit};

struct Talk {
    end: Endpoint,
    now: Instant,
    /// What the peer echoes, if not the clock.
    echo: Option<u32>,
    window: u16,
}

fn data(sent: &[Transmit]) -> Vec<u32> {
    sent.iter().filter(|out| out.segment.payload_len > 0).map(|out| out.segment.seq.0).collect()
}

impl Talk {
    /// Connected at 100 ms, `window` segments on their way.
    fn with_window(config: &TcpConfig, window: u32) -> Self {
        let config = TcpConfig { initial_window_segments: Some(window), ..config.clone() };
        let mut end = Endpoint::connect(&config, Source::Bulk, Seq(0));
        end.poll_transmit(at(0)).expect("a SYN");
        let mut talk = Self { end, now: at(100), echo: None, window: 62_500 };
        let syn_ack = TcpSegment {
            seq: Seq(1000),
            ack: Seq(1),
            window: 65_535,
            flags: TcpFlags::SYN | TcpFlags::ACK,
            timestamp: Some(TcpTimestamp { value: 1, echo: 1 }),
            syn: SynOptions { mss: Some(1012), window_scale: Some(3), sack_permitted: true },
            ..TcpSegment::default()
        };
        talk.end.on_segment(talk.now, &syn_ack, Ecn::NotEct);
        assert_eq!(talk.drain().iter().filter(|out| out.segment.payload_len > 0).count() as u32, window);
        talk
    }

    fn drain(&mut self) -> Vec<Transmit> {
        core::iter::from_fn(|| self.end.poll_transmit(self.now)).collect()
    }

    /// The peer acknowledges at `ms_now`; answers the first sequence numbers of the data that we send.
    fn ack(&mut self, ms_now: u64, ack: u32, sack: &[(u32, u32)]) -> Vec<u32> {
        self.now = at(ms_now);
        let mut blocks = SackBlocks::EMPTY;
        for &(left, right) in sack {
            blocks.push(SackBlock { left: Seq(left), right: Seq(right) });
        }
        let clock = ms_now as u32 + 1;
        let segment = TcpSegment {
            seq: Seq(1001),
            ack: Seq(ack),
            window: self.window,
            flags: TcpFlags::ACK,
            timestamp: Some(TcpTimestamp { value: clock, echo: self.echo.unwrap_or(clock) }),
            sack: blocks,
            ..TcpSegment::default()
        };
        self.end.on_segment(self.now, &segment, Ecn::NotEct);
        data(&self.drain())
    }

    /// The next timer fires; answers when, in whole ms, and what we send.
    fn fire(&mut self) -> (u64, Vec<u32>) {
        self.now = self.end.next_timeout().expect("a timer runs");
        self.end.on_timeout(self.now);
        let sent = self.drain();
        (self.now.as_nanos() / 1_000_000, data(&sent))
    }

    /// Lets timers fire until something is retransmitted.
    fn timeout(&mut self) -> (u64, Vec<u32>) {
        loop {
            let (when, sent) = self.fire();
            if !sent.is_empty() {
                return (when, sent);
            }
        }
    }

    fn cwnd(&self) -> u64 {
        self.end.cwnd_bytes() / 1000
    }
}

/// With timers to the millisecond: how late the kernel's are is `wheel.rs`.
fn reno() -> TcpConfig {
    TcpConfig { timer_tick: None, ..TcpConfig::linux(Congestion::Reno) }
}

#[test]
fn a_timeout_comes_as_late_as_the_kernel_s_timer_wheel_has_it() {
    let mut talk = Talk::with_window(&TcpConfig::linux(Congestion::Reno), 10);
    talk.window = 0;
    talk.ack(120, 1, &[]);
    // PTO at 302 ms and RTO at 400 ms, in the wheel's finest level: the next tick but one, and the next.
    assert_eq!(talk.fire(), (308, vec![]));
    assert_eq!(talk.fire(), (404, vec![1]));
    // The next would be due 600 ms later: buckets of 32 ms.
    assert_eq!(talk.fire(), (1024, vec![1]));
}

#[test]
fn a_syn_s_timer_is_in_the_wheel_too() {
    let mut end = Endpoint::connect(&TcpConfig::linux(Congestion::Reno), Source::Bulk, Seq(0));
    end.poll_transmit(at(0)).expect("a SYN");
    assert_eq!(end.next_timeout(), Some(at(1024)), "1 s, in buckets of 32 ms");
}

#[test]
fn the_second_timeout_in_a_zero_window_forgets_the_window_that_the_first_saved() {
    // tcp_retransmit_timer does not count (icsk_retransmits) what it sends into a zero window, and
    // tcp_enter_loss saves prior_cwnd once more in the loss state when nothing is counted.
    for (window, timeouts, restored) in [(0, 1, 40), (0, 2, 1), (62_500, 2, 40)] {
        let mut talk = Talk::with_window(&reno(), 40);
        talk.ack(150, 1, &[]);
        talk.window = window;
        talk.ack(151, 1, &[]);
        let mut last = 0;
        for _ in 0..timeouts {
            let (when, sent) = talk.timeout();
            // Through an open window a probe goes first: new data, for no more than cwnd was out.
            let sent = if sent == [40_001] { talk.timeout().1 } else { sent };
            assert_eq!(sent, [1], "the head only");
            last = when;
        }
        assert_eq!(talk.cwnd(), 1);
        // The held original comes out: its echo is older than every retransmission (RFC 3522).
        talk.window = 62_500;
        talk.echo = Some(101);
        talk.ack(last + 1000, 1001, &[]);
        assert!(
            (restored..=restored + 2).contains(&talk.cwnd()),
            "window {window}, {timeouts} timeouts: {} segments, not {restored}",
            talk.cwnd()
        );
    }
}

#[test]
fn a_probe_that_a_closed_window_stops_does_not_put_the_timeout_off() {
    // tcp_send_loss_probe: __tcp_retransmit_skb refuses the last segment beyond the window, icsk_pending
    // stays ICSK_TIME_LOSS_PROBE, and tcp_rearm_rto counts from the head's transmission.
    let mut talk = Talk::with_window(&reno(), 10);
    talk.window = 0;
    talk.ack(120, 1, &[]);
    assert_eq!(talk.fire(), (302, vec![]), "PTO: 2 * SRTT + 2 ms after the last data");
    assert_eq!(talk.fire(), (400, vec![1]), "RTO: SRTT + 200 ms after the head, sent at 100 ms");
}

#[test]
fn a_timeout_after_progress_in_the_loss_state_reduces_again() {
    // tcp_enter_loss: icsk_ca_state == TCP_CA_Loss && !icsk_retransmits; an advancing ACK has zeroed the
    // count (tcp_ack).
    for (progress, expected) in [(false, 20), (true, 2)] {
        let mut talk = Talk::with_window(&TcpConfig { frto: false, ..reno() }, 40);
        talk.window = 62_500;
        talk.timeout();
        let (when, _) = talk.timeout();
        assert_eq!(talk.end.ssthresh_bytes() / 1000, 20);
        if progress {
            talk.ack(when + 100, 1001, &[]);
            assert_eq!(talk.end.ssthresh_bytes() / 1000, 20);
        }
        talk.timeout();
        assert_eq!(talk.end.ssthresh_bytes() / 1000, expected, "progress: {progress}");
    }
}

#[test]
fn a_retransmission_lost_in_the_loss_state_leads_to_recovery() {
    // tcp_fastretrans_alert: FLAG_LOST_RETRANS leaves the loss state for recovery, which reduces.
    let mut talk = Talk::with_window(&TcpConfig { frto: false, ..reno() }, 8);
    talk.timeout();
    let (rto, sent) = talk.timeout();
    assert_eq!(sent, [1]);
    // The head's retransmission arrives, two more go out; the first of them is lost, the second is SACKed.
    assert_eq!(talk.ack(rto + 100, 1001, &[]), [1001, 2001]);
    assert_eq!(talk.end.stats().fast_recoveries, 0);
    let sent = talk.ack(rto + 220, 1001, &[(2001, 3001)]);
    assert_eq!(sent[0], 1001, "again, at once: in the loss state RACK gives no time for reordering");
    assert!(sent.len() <= 2, "as much as is delivered: {sent:?}");
    assert_eq!(talk.end.stats().fast_recoveries, 1);
}

#[test]
fn the_reordering_timer_lets_one_retransmission_go_and_acks_clock_the_rest() {
    // tcp_rack_reo_timeout: tcp_cwnd_reduction (sk, 1, 1, 0).
    let mut talk = Talk::with_window(&reno(), 20);
    // Two of twenty arrive, the last: fewer than DupThresh, so RACK waits for reordering.
    assert_eq!(talk.ack(200, 1, &[(18_001, 20_001)]), [20_001, 21_001], "new data in their place");
    let (when, sent) = talk.fire();
    assert_eq!((when, sent), (227, vec![1]), "RTT / 4 + 2 ms after the SACK, one of eighteen");
}

#[test]
fn slow_start_counts_the_hole_and_not_what_was_sacked_behind_it() {
    // tcp_cong_avoid gets acked_sacked, what the ACK newly delivers; what was SACKed before was delivered
    // before.
    let mut talk = Talk::with_window(&TcpConfig { frto: false, ..reno() }, 20);
    talk.ack(200, 1, &[(1001, 20_001)]);
    assert_eq!(talk.end.stats().fast_recoveries, 1, "the head was lost, and its retransmission is lost too");
    while talk.end.stats().rto_events == 0 {
        talk.fire();
    }
    let rto = talk.now.as_nanos() / 1_000_000;
    let before = talk.cwnd();
    talk.ack(rto + 100, 20_001, &[]);
    assert!(talk.cwnd() <= before + 1, "{before} -> {}", talk.cwnd());
}

#[test]
fn a_sack_s_old_echo_does_not_make_a_retransmission_an_original() {
    // tcp_skb_spurious_retrans is asked for cumulative ACKs only: out of order, the echo is that of older
    // data (RFC 7323 section 4.3), and tcp_sacktag_one takes the retransmission for delivered.
    let mut talk = Talk::with_window(&reno(), 20);
    talk.echo = Some(101);
    // 0 and 5 are lost. Both are sent again; 0 is lost again, 5 arrives 100 ms after.
    let sent = talk.ack(200, 1, &[(1001, 5001), (6001, 20_001)]);
    assert_eq!(sent[..1], [1]);
    let mut resent = sent.contains(&5001);
    for ms in 201..210 {
        resent |= talk.ack(ms, 1, &[(1001, 5001), (6001, 20_001)]).contains(&5001);
    }
    while !resent {
        let (_, sent) = talk.fire();
        resent = sent.contains(&5001);
    }
    let now = talk.now.as_nanos() / 1_000_000;
    let again = talk.ack(now + 130, 1, &[(1001, 20_001)]);
    assert!(again.contains(&1), "RACK sees that the head's retransmission is lost: {again:?}");
}

#[test]
fn the_textbook_keeps_its_details() {
    // The dialogues above are the kernel's: the same two timeouts in a zero window, by RFC 5681 section 3.1.
    let mut talk = Talk::with_window(&TcpConfig { details: Details::Rfc, ..reno() }, 40);
    talk.window = 0;
    talk.ack(151, 1, &[]);
    talk.timeout();
    let (last, _) = talk.timeout();
    talk.window = 62_500;
    talk.echo = Some(101);
    talk.ack(last + 1000, 1001, &[]);
    assert!(talk.cwnd() >= 40, "{}", talk.cwnd());
}
