//! The sending half: its state, and what the other files ask of it. What to send now is in
//! `sender/transmit.rs`, what ACKs and timers do in `sender/ack.rs`, `sender/states.rs` and
//! `sender/timers.rs`, what a changed path does in `sender/path.rs`.
//!
//! Source: RFC 9293 section 3.8 (windows), RFC 5681 (congestion window).
//! Deviations: no Nagle (as with TCP_NODELAY): the sources write in large pieces, and a held-back tail would
//! only blur completion times. The receiver's RFC 9293 3.8.6.2.1 override timer is the persist timer, as in
//! Linux.
//!
//! Positions are 64-bit offsets into the stream: SYN at 0, data from 1, FIN after the data.

mod ack;
mod ack_in;
mod by_model;
mod model;
mod path;
mod states;
mod timers;
mod transmit;
mod usage;

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{Bytes, Seq};

use crate::config::{Congestion, TcpConfig, WindowReduction};
use crate::congestion::{Controller, Window};
use crate::linux::Quirks;
use crate::persist::SendWindow;
use crate::recovery::frto::Frto;
use crate::recovery::prr::Prr;
use crate::recovery::rack::Tlp;
use crate::recovery::undo::Undo;
use crate::recovery::{CaState, Detector};
use crate::rtt::RttEstimator;
use crate::scoreboard::Scoreboard;
use crate::source::Source;

use model::Model;
use usage::Usage;

pub(crate) use ack_in::AckIn;

/// The sender's one timer (Linux `icsk_pending`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    Idle,
    /// RFC 6298 retransmission timeout.
    Retransmit(Instant),
    /// RFC 8985 section 7 tail loss probe.
    LossProbe(Instant),
    /// RFC 8985 section 6 reordering timer.
    Reorder(Instant),
    /// RFC 9293 section 3.8.6.1 zero-window probe.
    Persist(Instant),
}

impl Timer {
    #[inline]
    pub fn at(self) -> Option<Instant> {
        match self {
            Self::Idle => None,
            Self::Retransmit(at) | Self::LossProbe(at) | Self::Reorder(at) | Self::Persist(at) => Some(at),
        }
    }
}

/// What the timer that fired last asks to be sent before anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    /// RFC 9293 section 3.8.6.1.
    WindowProbe,
    /// RFC 8985 section 7.3.
    TailProbe,
}

/// What goes first, lost segments or new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Lost segments, as far as cwnd allows (RFC 6675 NextSeg).
    LostFirst,
    /// The next lost segment at once, whatever cwnd is: fast retransmit, partial ACK, timeout. Then
    /// `LostFirst`.
    LostAtOnce,
    /// All lost segments at once, whatever cwnd is: a base station has said that they are missing. Then
    /// `LostFirst`.
    AllLostAtOnce,
    /// New data: F-RTO waits for its ACKs (RFC 5682 section 2.1 step 2.b).
    NewFirst,
}

/// Whether the sender stands still, and what is left of having done so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Motion {
    Running,
    Frozen {
        since: Instant,
    },
    /// Runs again. Echoes of timestamps before this one are from before the freeze and give no RTT sample.
    Thawed {
        first_echo: u32,
    },
}

impl Motion {
    #[inline]
    fn is_frozen(self) -> bool {
        matches!(self, Self::Frozen { .. })
    }

    /// What time it is for the sender: a frozen one's clock stands still.
    #[inline]
    fn clock(self, now: Instant) -> Instant {
        match self {
            Self::Frozen { since } => since,
            Self::Running | Self::Thawed { .. } => now,
        }
    }
}

/// How fast recovery brings cwnd down to ssthresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reduction {
    /// When recovery begins (RFC 5681, RFC 6675).
    AtOnce,
    /// With what is delivered (RFC 6937).
    Proportional,
    /// With what is delivered, and by packet conservation while losses go on (Linux `tcp_cwnd_reduction`).
    Conserving,
    /// Not at all: cwnd is the model's.
    ByModel,
}

/// Why a segment is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Data that was never sent before.
    New,
    Retransmission,
    /// RFC 9293 section 3.8.6.1.
    WindowProbe,
}

/// What to put into the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Offset of its first byte.
    pub start: u64,
    pub payload: u32,
    pub fin: bool,
    pub kind: Kind,
    /// Carries CWR (RFC 3168 section 6.1.2).
    pub cwr: bool,
}

/// The first byte beyond a closed window, sent as a probe.
#[derive(Clone, Copy, Debug)]
struct ByteProbe {
    /// When it was first sent.
    sent: Instant,
    /// It was sent again since (RFC 6298 section 3, Karn), or the sender stood still: what its answer takes
    /// is not known.
    untimed: bool,
}

/// What the handshake agreed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreed {
    /// Payload bytes of a full segment.
    pub mss: u32,
    pub sack: bool,
    pub ecn: bool,
    /// The peer's window, from a segment with sequence number `seq`.
    pub window: u64,
    pub seq: Seq,
    /// Our initial sequence number.
    pub iss: Seq,
}

#[derive(Clone, Debug)]
pub(crate) struct Sender {
    cfg: TcpConfig,
    source: Source,
    /// End of what may be sent, FIN included, unless the source writes by the clock.
    end: u64,
    /// Most bytes in flight, whatever the windows say.
    send_buffer: u64,
    /// When the connection came up.
    started: Instant,
    board: Scoreboard,
    /// SND.UNA and SND.NXT.
    una: u64,
    nxt: u64,
    window: Window,
    controller: Controller,
    /// BBR, and what it needs; `None` with any other congestion control.
    model: Option<Box<Model>>,
    peer: SendWindow,
    state: CaState,
    quirks: Quirks,
    /// Timeouts since SND.UNA last moved, those in a zero window apart (Linux `icsk_retransmits`).
    timeouts: u32,
    /// SND.NXT at the last reduction (RFC 6675 RecoveryPoint, Linux high_seq).
    high_seq: u64,
    detector: Detector,
    prr: Prr,
    frto: Frto,
    undo: Undo,
    tlp: Tlp,
    /// Segments that D-SACKs have told of (Linux `dsack_dups`).
    dsacked: u64,
    rtt: RttEstimator,
    timer: Timer,
    /// The timer as it was last put into the wheel, and when it fires there.
    wheel: (Timer, Option<Instant>),
    reduction: Reduction,
    /// SACKs come, and the detector uses them.
    hears_sacks: bool,
    ecn_ok: bool,
    due: Due,
    order: Order,
    /// A base station reports what is missing ([`Sender::missing`]): timeouts send all that is lost.
    hears_base_station: bool,
    /// A window probe of one byte has gone: the peer may acknowledge the byte beyond SND.NXT.
    byte_probe: Option<ByteProbe>,
    cwr_due: bool,
    usage: Usage,
    /// New data has gone since `usage` was last told.
    sent_new: bool,
    last_sent: Instant,
    /// The application had nothing to send since `last_sent`.
    starved: bool,
    motion: Motion,
}

impl Sender {
    pub fn new(cfg: &TcpConfig, source: Source) -> Self {
        let mss = u64::from(cfg.mss);
        Self {
            end: end_of(source),
            source,
            send_buffer: cfg.send_buffer.0.max(mss),
            started: Instant::ZERO,
            board: Scoreboard::new(),
            una: 0,
            nxt: 0,
            window: Window { cwnd: cfg.initial_window(u32::from(cfg.mss)), ssthresh: u64::MAX, mss },
            controller: Controller::new(cfg),
            model: None,
            peer: SendWindow::new(cfg.accept_window_shrink_same_ack),
            state: CaState::Open,
            quirks: Quirks::new(cfg.details),
            timeouts: 0,
            high_seq: 0,
            detector: Detector::new(cfg.recovery, false),
            prr: Prr::default(),
            frto: Frto::default(),
            undo: Undo::NONE,
            tlp: Tlp::default(),
            dsacked: 0,
            rtt: RttEstimator::new(cfg.rto_initial, cfg.rto_min, cfg.rto_min_on_variance, cfg.rto_max),
            timer: Timer::Idle,
            wheel: (Timer::Idle, None),
            reduction: Reduction::AtOnce,
            hears_sacks: false,
            ecn_ok: false,
            due: Due::Nothing,
            order: Order::LostFirst,
            hears_base_station: false,
            byte_probe: None,
            cwr_due: false,
            usage: Usage::default(),
            sent_new: false,
            last_sent: Instant::ZERO,
            starved: true,
            motion: Motion::Running,
            cfg: cfg.clone(),
        }
    }

    /// The handshake is done, which `agreed` on this.
    pub fn establish(&mut self, now: Instant, agreed: &Agreed) {
        let Agreed { mss, sack, ecn, window, seq, iss } = *agreed;
        self.started = now;
        self.last_sent = now;
        self.una = 1;
        self.nxt = 1;
        self.high_seq = 0;
        self.usage.begin(1);
        self.hears_sacks = sack && self.cfg.recovery.uses_sack();
        self.ecn_ok = ecn;
        self.reduction = match (self.hears_sacks && self.cfg.prr, self.quirks.reduction_conserves_packets()) {
            (false, _) => Reduction::AtOnce,
            (true, false) => Reduction::Proportional,
            (true, true) => Reduction::Conserving,
        };
        let mss = mss.max(1);
        self.window.mss = u64::from(mss);
        self.send_buffer = self.cfg.send_buffer.0.max(self.window.mss);
        self.window.cwnd = self.cfg.initial_window(mss);
        self.peer.open(window, seq, 1);
        self.detector = Detector::new(self.cfg.recovery, sack);
        if self.cfg.congestion == Congestion::Bbr {
            self.reduction = Reduction::ByModel;
            self.model = Some(Box::new(Model::new(now, &mut self.window, u64::from(iss.0))));
        }
    }

    /// RTT of the handshake.
    pub fn handshake_rtt(&mut self, now: Instant, rtt: Duration) {
        self.rtt.sample(now, rtt, self.una, self.nxt);
        if let Some(model) = &mut self.model {
            model.on_handshake(now, &self.window, rtt);
        }
    }

    /// The SYN was sent again: RFC 5681 section 3.1 starts with one segment, RFC 6298 (5.7) with an RTO of 3
    /// s. `first_echoed` if the answer is one to the first. Comes after
    /// [`handshake_rtt`](Self::handshake_rtt).
    pub fn syn_went_again(&mut self, again: u32, timeouts: u32, first_echoed: bool) {
        if self.quirks.handshake_costs_window(again, timeouts, first_echoed) {
            self.window.cwnd = self.window.mss;
        }
        if self.rtt.srtt().is_none() || !self.quirks.handshake_rtt_spares_fallback() {
            self.rtt.fall_back();
        }
    }

    /// Answers the peer's FIN with one, where the application has nothing to send, or writes only in answer.
    pub fn close(&mut self) {
        match self.source {
            Source::None => self.set_source(Source::Finite(Bytes(0))),
            Source::Written(bytes) => self.set_source(Source::Finite(bytes)),
            Source::Bulk | Source::Finite(_) | Source::Scheduled(_) => {}
        }
    }

    /// The application writes `more` bytes. False if the source is not one that it writes to.
    pub fn write(&mut self, more: Bytes) -> bool {
        let Source::Written(bytes) = self.source else { return false };
        self.set_source(Source::Written(bytes + more));
        true
    }

    /// The application stops: what it has written so far is all there will be, and a FIN follows. A bulk
    /// source has written what was sent, and one by the clock nothing before the connection is up.
    pub fn end_source(&mut self, now: Instant) {
        let written = match self.source {
            Source::None | Source::Finite(_) => return,
            // A window probe's byte may have been taken: it is data, and the FIN comes after it.
            Source::Bulk => self.nxt.saturating_sub(1) + u64::from(self.byte_probe.is_some()),
            Source::Written(bytes) => bytes.0,
            Source::Scheduled(_) if self.nxt == 0 => 0,
            Source::Scheduled(_) => self.source.written(self.started, now),
        };
        self.set_source(Source::Finite(Bytes(written)));
    }

    fn set_source(&mut self, source: Source) {
        self.source = source;
        self.end = end_of(source);
    }

    /// True while the application sends nothing and never has. Then nothing is sent, no timer runs, and an
    /// ACK can tell of nothing but the window.
    #[inline]
    pub fn is_silent(&self) -> bool {
        matches!(self.source, Source::None)
    }

    /// End of what may be sent: data written, and the FIN.
    #[inline]
    fn limit(&self, now: Instant) -> u64 {
        match self.source {
            Source::Scheduled(_) => 1 + self.source.written(self.started, now),
            Source::None | Source::Bulk | Source::Finite(_) | Source::Written(_) => self.end,
        }
    }

    #[inline]
    fn has_fin(&self) -> bool {
        self.source.ends()
    }

    /// Offset of the FIN, if there will be one. A source that ends has written everything from the start.
    #[inline]
    fn fin_at(&self) -> Option<u64> {
        if self.has_fin() { Some(self.end - 1) } else { None }
    }

    #[inline]
    fn pipe(&self) -> u64 {
        self.board.pipe(self.una, self.nxt)
    }

    /// cwnd and what duplicate ACKs add to it.
    #[inline]
    fn usable_window(&self) -> u64 {
        let recovering = self.state == CaState::Recovery;
        self.window.cwnd.saturating_add_signed(self.detector.allowance(recovering, self.window.mss))
    }

    #[inline]
    fn window_end(&self) -> u64 {
        self.una + self.peer.window()
    }

    /// What a decrease starts from.
    fn reduction_basis(&self) -> u64 {
        match self.cfg.window_reduction {
            WindowReduction::FromCwnd => self.window.cwnd,
            WindowReduction::FromFlight => (self.nxt - self.una).min(self.window.cwnd),
        }
    }

    pub fn source(&self) -> Source {
        self.source
    }
    pub fn una(&self) -> u64 {
        self.una
    }
    pub fn nxt(&self) -> u64 {
        self.nxt
    }
    pub fn window(&self) -> &Window {
        &self.window
    }
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }
    pub fn in_flight(&self) -> u64 {
        self.pipe()
    }
    pub fn peer_window(&self) -> u64 {
        self.peer.window()
    }

    /// True once a FIN is sent and acknowledged.
    pub fn fin_acknowledged(&self) -> bool {
        self.fin_at().is_some_and(|at| self.una > at)
    }

    /// Application bytes acknowledged.
    pub fn acknowledged(&self) -> u64 {
        let end = self.fin_at().map_or(self.una, |at| self.una.min(at));
        end.saturating_sub(1)
    }
}

/// End of what a source writes when the connection comes up, as an offset, with its FIN.
fn end_of(source: Source) -> u64 {
    1 + source.written(Instant::ZERO, Instant::ZERO) + u64::from(source.ends())
}
