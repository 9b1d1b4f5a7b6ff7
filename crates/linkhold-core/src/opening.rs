//! How a connection begins: a SYN, and the SYN-ACK that answers it (RFC 9293 section 3.5).
//!
//! A SYN-ACK counts only as the answer to a SYN that was seen: who does not see a connection can still send
//! one that looks like it. A SYN beside another, or on a connection under way, begins a new one only when the
//! other end answers it with the right number, and a reset before the answer counts only if it has that SYN's
//! number.
//!
//! An opening: nothing seen → asked (one SYN was believed) → agreed (it was answered). SYNs that come beside
//! the first wait as rivals; the first of them that is answered takes its place.

use crate::packet::{SynOptions, TcpFlags, TcpSegment};
use crate::units::Seq;

/// A SYN of a connection, answered or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Syn {
    pub downlink: bool,
    pub flags: TcpFlags,
    pub seq: Seq,
    /// Sequence number after it, and after the data that it may carry (RFC 7413).
    pub end: Seq,
    pub options: SynOptions,
    pub signed: bool,
}

impl Syn {
    pub fn new(tcp: &TcpSegment, downlink: bool) -> Self {
        let (seq, end) = (tcp.seq, tcp.seq_end());
        Self { downlink, flags: tcp.flags, seq, end, options: tcp.syn, signed: tcp.signed }
    }

    /// True if this SYN-ACK answers it.
    pub fn is_answered_by(&self, tcp: &TcpSegment, downlink: bool) -> bool {
        // With TCP Fast Open (RFC 7413) data of the SYN may be acknowledged, too.
        self.downlink != downlink && tcp.ack.after(self.seq) && !tcp.ack.after(self.end)
    }

    /// True if this reset refuses it, or is from the end that sent it: the number that it must have (RFC 9293
    /// section 3.10.7.3 and 3.5.2).
    pub fn is_reset_by(&self, tcp: &TcpSegment, downlink: bool) -> bool {
        if self.downlink == downlink {
            tcp.seq == self.end
        } else {
            tcp.flags.contains(TcpFlags::ACK) && self.is_answered_by(tcp, downlink)
        }
    }
}

/// How far a connection has come, for a SYN that meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing but SYNs is known of it.
    Fresh,
    /// It carries segments.
    UnderWay,
    /// Both ends have closed it, or one has reset it.
    Over,
}

/// What a SYN is to the connection on its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The one that is believed, sent again before an answer; perhaps with fewer options.
    Again,
    /// The one that was answered already, so it changes nothing.
    Late,
    /// There is another, or the connection goes on. The answer decides: of two SYNs that cross (RFC 9293
    /// section 3.5), too.
    Beside,
    /// It begins a connection.
    First,
}

/// What a SYN-ACK is to the connection on its ports.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answered {
    /// It answers the SYN that is believed.
    First(Syn),
    /// It answers a rival, with which another connection begins.
    Rival(Syn),
    /// It repeats the believed SYN's number, as the end that sent that does where two SYNs crossed.
    Crossed,
    /// No SYN was seen, and nothing contradicts it.
    Unasked,
    /// It answers nothing that was seen.
    Nothing,
}

/// The SYNs of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opening {
    /// The SYN of the present handshake, as it was believed.
    syn: Option<Syn>,
    /// Both SYNs were seen and fit together.
    agreed: bool,
    /// SYNs though another came first, or the connection is under way. On the heap: hardly any connection has
    /// one.
    rivals: Option<Box<Rivals>>,
}

impl Opening {
    /// One whose SYN was answered.
    pub fn agreed(syn: Syn) -> Self {
        Self { syn: Some(syn), agreed: true, rivals: None }
    }

    /// True if a SYN was believed.
    pub fn is_asked(&self) -> bool {
        self.syn.is_some()
    }

    /// True if a SYN was believed and answered.
    pub fn is_agreed(&self) -> bool {
        self.agreed
    }

    /// Says what a SYN is, and keeps it as a rival if it is one. Of the first, the caller
    /// [`ask`](Self::ask)s.
    pub fn on_syn(&mut self, syn: Syn, stage: Stage) -> Asked {
        if self.syn.is_some_and(|old| (old.downlink, old.seq) == (syn.downlink, syn.seq)) {
            return if self.agreed { Asked::Late } else { Asked::Again };
        }
        let goes_on = match stage {
            Stage::Fresh => self.syn.is_some(),
            Stage::UnderWay => true,
            Stage::Over => false,
        };
        if !goes_on {
            return Asked::First;
        }
        self.rivals.get_or_insert_default().note(syn);
        Asked::Beside
    }

    /// A connection begins with this SYN.
    pub fn ask(&mut self, syn: Syn) {
        self.syn = Some(syn);
    }

    /// Says what a SYN-ACK is. Of an answer, the caller [`agree`](Self::agree)s, or begins anew with
    /// [`agreed`](Self::agreed).
    pub fn on_syn_ack(&mut self, tcp: &TcpSegment, downlink: bool, stage: Stage) -> Answered {
        let rival = self.rivals.as_mut().and_then(|rivals| rivals.take_answered(tcp, downlink));
        match (rival, self.syn) {
            (Some(rival), _) => Answered::Rival(rival),
            (None, Some(syn)) if !self.agreed && syn.is_answered_by(tcp, downlink) => Answered::First(syn),
            (None, Some(syn)) if !self.agreed && syn.downlink == downlink && syn.seq == tcp.seq => {
                Answered::Crossed
            }
            (None, Some(_)) => Answered::Nothing,
            (None, None) if stage == Stage::Fresh => Answered::Unasked,
            (None, None) => Answered::Nothing,
        }
    }

    /// The SYN that was believed is answered.
    pub fn agree(&mut self) {
        self.agreed = true;
    }

    /// True if a reset can be of this connection. While SYNs wait for an answer, whoever does not see them
    /// cannot refuse them.
    pub fn may_be_reset_by(&self, tcp: &TcpSegment, downlink: bool) -> bool {
        let rivals = self.rivals.iter().flat_map(|rivals| rivals.all());
        let mut waiting = self.syn.iter().chain(rivals).peekable();
        self.agreed || waiting.peek().is_none() || waiting.any(|syn| syn.is_reset_by(tcp, downlink))
    }
}

/// SYNs that came though there was another, each of which the other end may yet answer. Somebody who makes
/// SYNs up can push the real one out only with as many as there are places.
#[derive(Clone, Copy, Debug, Default)]
struct Rivals {
    syns: [Option<Syn>; Self::MOST],
    next: usize,
}

impl Rivals {
    const MOST: usize = 4;

    /// Notes a SYN in the place of the oldest, or of its own copy.
    fn note(&mut self, syn: Syn) {
        let is_copy =
            |old: &Option<Syn>| old.is_some_and(|old| (old.downlink, old.seq) == (syn.downlink, syn.seq));
        let place = self.syns.iter().position(is_copy).unwrap_or_else(|| {
            let oldest = self.next;
            self.next = (oldest + 1) % Self::MOST;
            oldest
        });
        self.syns[place] = Some(syn);
    }

    fn all(&self) -> impl Iterator<Item = &Syn> {
        self.syns.iter().flatten()
    }

    /// Takes out the SYN that this SYN-ACK answers.
    fn take_answered(&mut self, tcp: &TcpSegment, downlink: bool) -> Option<Syn> {
        let answered = |syn: &mut Syn| syn.is_answered_by(tcp, downlink);
        self.syns.iter_mut().find_map(|syn| syn.take_if(answered))
    }
}
