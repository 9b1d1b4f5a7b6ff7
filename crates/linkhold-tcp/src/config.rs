//! What an endpoint is made of, and the three profiles that name a whole stack.
//!
//! - `linux`: a 2020s kernel. RACK-TLP (RFC 8985), SACK, PRR (6937), F-RTO (5682), timestamp and D-SACK undo
//!   (3522, 4015), initial window 10 (6928), RTO floor 200 ms on the variance term, adaptive delayed ACK,
//!   receive window autotuning up to 6 MiB, CUBIC and HyStart as `tcp_cubic.c` has them, and
//!   [`Details::Linux`].
//! - `linux-2009`: Linux 2.6.2x as the dsasync paper used it. SACK recovery (6675), timestamps, initial
//!   window per RFC 3390, 256 KB of fixed window, the window update rule of that time, one ACK one step of
//!   growth. F-RTO is on (`sysctl_tcp_frto = 2` since 2.6.24) and answers a spurious timeout with one
//!   ordinary decrease (`sysctl_tcp_frto_response = 0`, `tcp_ratehalving_spur_to_response`); where it gives
//!   up, timestamps and D-SACKs undo (`tcp_may_undo`). Read in `net/ipv4/tcp_input.c` of 2.6.3x. Deviations:
//!   loss detection is RFC 6675's, not FACK with its search for lost retransmissions; the decrease is at
//!   once, not by one segment each second ACK; a timeout in fast recovery lowers ssthresh once more, as RFC
//!   5681 has it (`tcp_enter_loss` does not); an undo is not held to three segments more than are in flight
//!   (`tcp_moderate_cwnd`); there is no HyStart (2.6.29).
//! - `classic`: RFC 5681/6582 as a textbook has it. No SACK, no timestamps, RTO floor 1 s.

use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Bytes};

/// How losses are found and repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recovery {
    /// Fast retransmit and fast recovery, RFC 5681 section 3.2.
    Reno,
    /// The same with partial ACKs, RFC 6582.
    NewReno,
    /// Conservative SACK-based recovery, RFC 6675. Falls back to NewReno when the peer has no SACK.
    Sack,
    /// RACK-TLP, RFC 8985. Falls back to NewReno when the peer has no SACK.
    RackTlp,
}

impl Recovery {
    /// True if it works on SACK. The others count duplicate ACKs, as RFC 5681 and 6582 have it: the sender
    /// does not look at the blocks then, which would count each of those segments a second time.
    #[must_use]
    pub const fn uses_sack(self) -> bool {
        match self {
            Self::Reno | Self::NewReno => false,
            Self::Sack | Self::RackTlp => true,
        }
    }

    /// Its name in scenario files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::NewReno => "newreno",
            Self::Sack => "sack",
            Self::RackTlp => "rack-tlp",
        }
    }
}

/// How the congestion window grows and shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Congestion {
    /// Slow start and AIMD, RFC 5681.
    Reno,
    /// TCP Vegas (Brakmo and Peterson 1995).
    Vegas,
    /// CUBIC, RFC 9438.
    Cubic,
    /// TP-CRAHN (Chowdhury, Di Felice and Akyildiz 2009): as Reno, and the path's nodes tell of sensing,
    /// handoffs and broken routes ([`crate::Endpoint::on_path`]). Meant for [`Recovery::NewReno`].
    TpCrahn,
    /// BBR, version 1 (draft-cardwell-iccrg-bbr-congestion-control-00), as Linux has it: paced, and cwnd from
    /// a model of the path.
    Bbr,
}

impl Congestion {
    /// Its name in scenario files; that of Linux, where Linux has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Vegas => "vegas",
            Self::Cubic => "cubic",
            Self::TpCrahn => "tp-crahn",
            Self::Bbr => "bbr",
        }
    }
}

/// When the receiver acknowledges in-order data. Out-of-order data is always acknowledged at once (RFC 5681
/// 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayedAck {
    /// Every segment at once.
    Off,
    /// Every second full-sized segment, or this long after the first unacknowledged one (RFC 1122 4.2.3.2).
    Timer(Duration),
    /// Every second full-sized segment, or at the next tick of a free-running clock of this period (BSD's 200
    /// ms).
    Heartbeat(Duration),
    /// At the next tick of such a clock only, however much has arrived. RFC 5681 section 4.2 asks for more,
    /// but it is what lookahead's figure 3 shows: ACKs 200 ms apart under a stream of some seven segments
    /// each.
    HeartbeatOnly(Duration),
    /// Linux: at once for the first 16 segments, after idling and after duplicates; then every second
    /// full-sized segment, or 40 ms.
    Linux,
}

/// What one ACK counts for when the window grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckCounting {
    /// At most one segment, however much it acknowledges (RFC 5681 equations 2 and 3; Linux before 3.x).
    PerAck,
    /// The bytes that it newly reports as arrived, cumulatively or by SACK (RFC 3465 without a limit; Linux's
    /// `acked_sacked`). An ACK that fills a hole below SACKed data counts the hole.
    Bytes,
}

/// How a zero window is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowProbe {
    /// One byte of new data (RFC 9293 section 3.8.6.1).
    OneByte,
    /// An empty segment with sequence number SND.UNA - 1 (Linux `tcp_xmit_probe_skb`).
    OldSequence,
}

/// What happens to cwnd when a connection sends again after having been quiet for longer than an RTO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleRestart {
    /// cwnd stays as it was.
    Off,
    /// Straight back to the restart window, RFC 5681 section 4.1, whatever kept the sender quiet.
    RestartWindow,
    /// Halved per RTO of quiet, never below the restart window, whatever kept the sender quiet: a closed
    /// window counts (Linux 2.6.2x checked when it transmitted, `tcp_event_data_sent`).
    HalveAtSend,
    /// The same, but only when the application had nothing to send (Linux since 4.x checks in `tcp_sendmsg`,
    /// which a sender with a full send queue does not reach).
    HalveAtWrite,
}

/// What follows a timeout that F-RTO finds spurious.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpuriousResponse {
    /// The window from before the timeout (RFC 4015; Linux since 3.10).
    Undo,
    /// One ordinary decrease from the window before the timeout (Linux before, `tcp_frto_response` 0). While
    /// F-RTO has not decided, timestamps and D-SACKs are not asked.
    Decrease,
}

/// Whose rules fill what the RFCs leave open, and where the two differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Details {
    /// The RFCs as written.
    Rfc,
    /// Linux 6.x. Each difference is a method in `linux.rs`, with the kernel's function and the RFC's rule.
    Linux,
}

/// What a multiplicative decrease starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowReduction {
    /// FlightSize (RFC 5681 equation 4).
    FromFlight,
    /// cwnd (Linux; cwnd-limited growth keeps it honest).
    FromCwnd,
}

/// Everything that decides how an endpoint behaves. Make one with a profile and change what differs.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpConfig {
    /// Maximum segment size announced and used, bytes, not counting options. 1460 on Ethernet with IPv4.
    pub mss: u16,
    /// Loss recovery.
    pub recovery: Recovery,
    /// Congestion control.
    pub congestion: Congestion,
    /// Offer and accept SACK (RFC 2018), and send D-SACK (RFC 2883). The sender's recovery uses SACKs if
    /// [`Recovery::uses_sack`] says so.
    pub sack: bool,
    /// Offer and accept timestamps (RFC 7323).
    pub timestamps: bool,
    /// Window scale shift to offer; `None` does not offer the option.
    pub window_scale: Option<u8>,
    /// Receive buffer: the largest window offered before autotuning.
    pub receive_buffer: Bytes,
    /// Grow the receive buffer with what arrives per round trip, up to this much (Linux
    /// `tcp_rcv_space_adjust`).
    pub receive_autotune: Option<Bytes>,
    /// How fast the receiving application reads; `None` reads at once.
    pub application_read_rate: Option<BitRate>,
    /// Most bytes in flight, whatever the windows say.
    pub send_buffer: Bytes,
    /// Initial congestion window in segments; `None` is RFC 3390's formula.
    pub initial_window_segments: Option<u32>,
    /// Floor of the retransmission timeout.
    pub rto_min: Duration,
    /// True: the floor is under the variance term, RTO = SRTT + max(4 RTTVAR, floor), as Linux has it. False:
    /// the floor is under the sum (RFC 6298 rule 2.4).
    pub rto_min_on_variance: bool,
    /// RTO before the first RTT sample.
    pub rto_initial: Duration,
    /// Ceiling of the RTO and of the persist timer.
    pub rto_max: Duration,
    /// Delayed acknowledgments.
    pub delayed_ack: DelayedAck,
    /// F-RTO (RFC 5682).
    pub frto: bool,
    /// What F-RTO does about a spurious timeout.
    pub spurious_response: SpuriousResponse,
    /// Undo a window reduction that the timestamps (Eifel, RFC 3522) prove needless.
    pub timestamp_undo: bool,
    /// Undo one that D-SACKs prove needless (RFC 3708).
    pub dsack_undo: bool,
    /// Proportional rate reduction (RFC 6937) in fast recovery; needs a recovery that uses SACK.
    pub prr: bool,
    /// HyStart with CUBIC.
    pub hystart: bool,
    /// Negotiate and use ECN (RFC 3168).
    pub ecn: bool,
    /// Accept a zero window in an ACK that repeats sequence and acknowledgment number (Linux since 6.6).
    pub accept_window_shrink_same_ack: bool,
    /// How a zero window is probed.
    pub window_probe: WindowProbe,
    /// What one ACK counts for when cwnd grows.
    pub ack_counting: AckCounting,
    /// What happens to cwnd after a time without sending.
    pub idle_restart: IdleRestart,
    /// What a decrease starts from.
    pub window_reduction: WindowReduction,
    /// CUBIC's time goes on while nothing is in flight, where cwnd was the limit before, as in Linux before
    /// 4.3; RFC 9438 section 5.8 leaves that time out.
    pub cubic_counts_idle: bool,
    /// Whose rules fill what the RFCs leave open.
    pub details: Details,
    /// Tick of the timers: they fire late, by the timer wheel's rounding (Linux `calc_wheel_index`); 4 ms is
    /// a kernel of 250 Hz, Debian's. `None`: to the nanosecond.
    pub timer_tick: Option<Duration>,
}

impl TcpConfig {
    /// A 2020s Linux; see the head of this file.
    #[must_use]
    pub fn linux(congestion: Congestion) -> Self {
        Self {
            mss: 1460,
            recovery: Recovery::RackTlp,
            congestion,
            sack: true,
            timestamps: true,
            // Linux picks the smallest shift that can express tcp_rmem[2] = 6 MiB.
            window_scale: Some(7),
            receive_buffer: Bytes(64 << 10),
            receive_autotune: Some(Bytes(6 << 20)),
            application_read_rate: None,
            send_buffer: Bytes(4 << 20),
            initial_window_segments: Some(10),
            rto_min: Duration::from_millis(200),
            rto_min_on_variance: true,
            rto_initial: Duration::from_secs(1),
            rto_max: Duration::from_secs(120),
            delayed_ack: DelayedAck::Linux,
            frto: true,
            spurious_response: SpuriousResponse::Undo,
            timestamp_undo: true,
            dsack_undo: true,
            prr: true,
            hystart: true,
            ecn: false,
            accept_window_shrink_same_ack: true,
            window_probe: WindowProbe::OldSequence,
            ack_counting: AckCounting::Bytes,
            idle_restart: IdleRestart::HalveAtWrite,
            window_reduction: WindowReduction::FromCwnd,
            cubic_counts_idle: false,
            details: Details::Linux,
            timer_tick: Some(Duration::from_millis(4)),
        }
    }

    /// Linux 2.6.2x with the paper's 256 KB window; see the head of this file.
    #[must_use]
    pub fn linux_2009(congestion: Congestion) -> Self {
        Self {
            recovery: Recovery::Sack,
            // 256 KB needs a shift of 3 at least: 65535 << 2 falls one byte short.
            window_scale: Some(3),
            receive_buffer: Bytes(256 << 10),
            receive_autotune: None,
            send_buffer: Bytes(256 << 10),
            initial_window_segments: None,
            // RFC 1122's and 2988's initial RTO, in use until RFC 6298 (2011).
            rto_initial: Duration::from_secs(3),
            spurious_response: SpuriousResponse::Decrease,
            timestamp_undo: true,
            dsack_undo: true,
            prr: false,
            hystart: false,
            accept_window_shrink_same_ack: false,
            ack_counting: AckCounting::PerAck,
            idle_restart: IdleRestart::HalveAtSend,
            cubic_counts_idle: true,
            details: Details::Rfc,
            timer_tick: None,
            ..Self::linux(congestion)
        }
    }

    /// The textbook: RFC 5681/6582; see the head of this file. With [`Recovery::Sack`] or
    /// [`Recovery::RackTlp`] SACK is on, and with the latter timestamps too.
    #[must_use]
    pub fn classic(recovery: Recovery, congestion: Congestion) -> Self {
        Self {
            recovery,
            sack: recovery.uses_sack(),
            timestamps: recovery == Recovery::RackTlp,
            window_scale: Some(3),
            receive_buffer: Bytes(256 << 10),
            receive_autotune: None,
            send_buffer: Bytes(4 << 20),
            initial_window_segments: None,
            rto_min: Duration::from_secs(1),
            rto_min_on_variance: false,
            rto_max: Duration::from_secs(60),
            delayed_ack: DelayedAck::Timer(Duration::from_millis(200)),
            frto: false,
            timestamp_undo: false,
            dsack_undo: false,
            prr: false,
            hystart: false,
            accept_window_shrink_same_ack: false,
            window_probe: WindowProbe::OneByte,
            ack_counting: AckCounting::PerAck,
            idle_restart: IdleRestart::RestartWindow,
            window_reduction: WindowReduction::FromFlight,
            details: Details::Rfc,
            timer_tick: None,
            ..Self::linux(congestion)
        }
    }

    /// Initial window in bytes for a segment of `mss` payload bytes.
    pub(crate) fn initial_window(&self, mss: u32) -> u64 {
        let mss = u64::from(mss);
        match self.initial_window_segments {
            Some(segments) => u64::from(segments.max(1)) * mss,
            // RFC 3390 equation 1: min (4*MSS, max (2*MSS, 4380 bytes)).
            None => (4 * mss).min((2 * mss).max(4380)),
        }
    }
}
