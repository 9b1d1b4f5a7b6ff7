//! What must hold for a sender of `linkhold_cubic` and `linkhold_reno`, whatever comes: freezes and thaws
//! doubled, lost and out of order, losses, undone recoveries, ECN echoes, idle times, timeouts, an entry of
//! the map that goes.

use std::collections::VecDeque;

use linkhold_core::time::Duration;
use proptest::prelude::*;

use super::super::kernel::{Quiet, begun, ended};
use super::sender::{CWR, Control, DISORDER, INFINITE, LOSS, OPEN, RECOVERY, Sender};
use super::{Board, FROZEN, MENDING, Program, SENDING};

/// `silence.max` of these hosts.
const AT_MOST_MS: u64 = 2_000;

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    Write(u16),
    Deliver {
        count: usize,
        lose: u64,
        ack_lost: bool,
        spurious: bool,
    },
    Advance(u64),
    /// The host is told; the radio need not be silent.
    Freeze,
    Thaw {
        wake: bool,
    },
    /// The radio falls silent or comes back; the host need not be told.
    Radio {
        silent: bool,
    },
    Echo,
    /// A loss probe.
    Probe,
    /// The map's entry goes.
    Forget,
}

/// `quiet`: with freezes and thaws.
fn step(quiet: bool) -> impl Strategy<Value = Step> {
    let lose =
        prop_oneof![3 => Just(0u64), 2 => any::<u64>().prop_map(|bits| 1 << (bits % 64)), 1 => any::<u64>()];
    let deliver = (1usize..120, lose, prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    let told = u32::from(quiet);
    prop_oneof![
        6 => (0u16..300).prop_map(Step::Write),
        9 => deliver
            .prop_map(|(count, lose, ack_lost, spurious)| Step::Deliver { count, lose, ack_lost, spurious }),
        4 => (1u64..900).prop_map(Step::Advance),
        4 * told => Just(Step::Freeze),
        4 * told => any::<bool>().prop_map(|wake| Step::Thaw { wake }),
        3 => any::<bool>().prop_map(|silent| Step::Radio { silent }),
        1 => Just(Step::Echo),
        1 => Just(Step::Probe),
        told => Just(Step::Forget),
    ]
}

fn control() -> impl Strategy<Value = Control> {
    any::<bool>().prop_map(|cubic| Control { cubic, shield: true })
}

/// A sequence number and jiffies: both wrap.
fn origin() -> impl Strategy<Value = (u32, u64)> {
    (
        prop_oneof![any::<u32>(), (0u32..400).prop_map(|back| u32::MAX - back)],
        prop_oneof![1u64 << 20..1 << 40, (1u64..2000).prop_map(|back| (1 << 32) - back)],
    )
}

fn told(sender: &Sender<'_>) -> Option<Quiet> {
    let board = &sender.board;
    (board.quiet_there != 0).then_some(Quiet { since: board.quiet_since, until: board.quiet_until })
}

fn tell(sender: &mut Sender<'_>, quiet: Quiet) {
    sender.board.quiet_there = 1;
    (sender.board.quiet_since, sender.board.quiet_until) = (quiet.since, quiet.until);
}

fn freeze(sender: &mut Sender<'_>) {
    let quiet = begun(told(sender), sender.board.now_ns, Duration::from_millis(AT_MOST_MS));
    tell(sender, quiet);
}

fn thaw(sender: &mut Sender<'_>) {
    if let Some(quiet) = ended(told(sender), sender.board.now_ns) {
        tell(sender, quiet);
    }
}

fn take(sender: &mut Sender<'_>, step: &Step) {
    match *step {
        Step::Write(segments) => sender.write(u64::from(segments)),
        Step::Deliver { count, lose, ack_lost, spurious } => sender.deliver(count, lose, ack_lost, spurious),
        Step::Advance(ms) => sender.advance(ms),
        Step::Freeze => freeze(sender),
        Step::Thaw { wake } => {
            thaw(sender);
            if wake {
                sender.wake();
            }
        }
        Step::Radio { silent } => sender.silent = silent,
        Step::Echo => sender.echo(),
        Step::Probe => sender.probe(),
        Step::Forget => sender.board.quiet_there = 0,
    }
}

/// The window that a sender has: in a reduction of its own, the one that this leads to.
fn window(sender: &Sender<'_>) -> u32 {
    let board = &sender.board;
    match sender.state() {
        CWR | RECOVERY => board.cwnd.max(board.ssthresh.min(board.prior_cwnd)),
        OPEN | DISORDER | LOSS => board.cwnd,
        other => panic!("state {other}"),
    }
}

/// A shielded sender that has lost nothing yet, its window grown by 1,200 segments that arrived.
fn after_slow_start(program: &Program, cubic: bool) -> Sender<'_> {
    let mut sender = Sender::new(program, Control { cubic, shield: true }, 1, 1 << 20);
    for _ in 0..6 {
        sender.write(200);
        sender.deliver(usize::MAX, 0, false, false);
    }
    sender
}

/// Delivers everything until nothing is left, or fails: the sender makes progress.
fn drain(sender: &mut Sender<'_>) -> Result<(), TestCaseError> {
    sender.silent = false;
    for _ in 0..20_000 {
        if sender.unacknowledged() == 0 && sender.backlog == 0 {
            return Ok(());
        }
        prop_assert!(sender.board.cwnd >= 1, "no window: {:?}", sender.board);
        if sender.under_way() == 0 {
            // Its timer has to send.
            sender.advance(1_000);
        } else {
            sender.deliver(50, 0, false, false);
        }
    }
    Err(TestCaseError::fail(format!("it stands still: {:?}", sender.board)))
}

/// One case in two hundred does not fit; the usual bound on those does not grow with `make soak`'s cases.
fn property() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        failure_persistence: None,
        max_global_rejects: usual.max_global_rejects.max(usual.cases),
        ..usual
    }
}

proptest! {
    #![proptest_config(property())]

    /// While a silence, or data that it lost, concerns a sender, its window is never above the one that it
    /// had when the silence began; in fast recovery never above what was outstanding when that began, either.
    #[test]
    fn a_silence_leaves_no_window_larger(
        control in control(),
        origin in origin(),
        steps in prop::collection::vec(step(true), 1..60),
    ) {
        let Some(program) = Program::get() else { return Ok(()) };
        let mut sender = Sender::new(program, control, origin.0, origin.1);
        let mut most = None;
        for (at, step) in steps.iter().enumerate() {
            let running = told(&sender).is_some_and(|quiet| sender.board.now_ns < quiet.until);
            if matches!(step, Step::Freeze) && !running && sender.board.kept.phase == SENDING {
                // Where a reduction is owed, the silence before still concerns the sender, whose window may
                // have grown since, if that silence ended before the sender noticed that it had begun.
                let had = window(&sender);
                most = if sender.board.kept.owed == 0 { Some(had) } else { most.map(|most: u32| most.max(had)) };
            }
            let frozen_before = sender.board.kept.phase;
            take(&mut sender, step);
            let phase = sender.board.kept.phase;
            if phase == SENDING && frozen_before != SENDING {
                most = None;
            }
            if let Some(most) = most.filter(|_| phase != SENDING) {
                // In a reduction the kernel's PRR sets the window, by what is in flight: that may be more
                // than the window was.
                let most = sender.most_by_prr(most).unwrap_or(most);
                prop_assert!(
                    sender.board.cwnd <= most,
                    "step {at}, {step:?}: {} > {most}: {:?}", sender.board.cwnd, sender.board
                );
            }
            let lent = sender.board.kept.owed != 0;
            prop_assert!(sender.board.cwnd >= 1, "{:?}", sender.board);
            prop_assert!(sender.board.ssthresh >= if lent { 1 } else { 2 }, "{:?}", sender.board);
            let counts = sender.board.counts;
            prop_assert!(counts.mended <= counts.frozen, "{counts:?}");
            // CUBIC's epoch did not begin in the future.
            let age = (sender.board.jiffies as u32).wrapping_sub(sender.board.epoch_start) as i32;
            prop_assert!(sender.board.epoch_start == 0 || age >= 0, "an epoch in {} jiffies", -age);
        }
    }

    /// After any sequence the sender delivers everything, even where nobody ever thaws it; then it is a plain
    /// sender again, which a loss of its own costs what it costs a plain one.
    #[test]
    fn a_sender_makes_progress_and_a_lost_thaw_heals(
        control in control(),
        origin in origin(),
        steps in prop::collection::vec(step(true), 1..60),
    ) {
        let Some(program) = Program::get() else { return Ok(()) };
        let mut sender = Sender::new(program, control, origin.0, origin.1);
        for step in &steps {
            take(&mut sender, step);
        }
        // No thaw: the maximum ends what is under way.
        sender.silent = false;
        sender.advance(AT_MOST_MS);
        drain(&mut sender)?;
        sender.write(50);
        drain(&mut sender)?;
        sender.write(1);
        drain(&mut sender)?;
        prop_assert_eq!(sender.board.kept.phase, SENDING);
        prop_assert_eq!(sender.board.kept.owed, 0, "{:?}", sender.board);
        // Slow start brings it to ten segments, then one of them is lost.
        while sender.board.cwnd < 10 {
            let before = sender.board.cwnd;
            sender.write(u64::from(before) * 2);
            drain(&mut sender)?;
            prop_assert!(sender.board.cwnd > before || before >= sender.board.ssthresh, "{:?}", sender.board);
            if before >= sender.board.ssthresh && sender.board.cwnd == before {
                return Ok(());
            }
        }
        let before = sender.board.cwnd;
        let reductions = sender.reductions;
        sender.write(u64::from(before));
        sender.deliver(1, 1, false, false);
        while sender.reductions == reductions {
            prop_assert!(sender.under_way() > 0, "a loss costs nothing: {:?}", sender.board);
            sender.deliver(1, 0, false, false);
        }
        let most = if control.cubic { before * 7 / 10 } else { before / 2 };
        prop_assert!(sender.board.ssthresh <= most + 1, "{} of {before}", sender.board.ssthresh);
    }

    /// Without a silence the programs are the algorithms that they wrap, call by call; so they are where the
    /// kernel has no memory for what they keep.
    #[test]
    fn without_a_silence_nothing_differs(
        cubic in any::<bool>(),
        origin in origin(),
        (memory, steps) in any::<bool>()
            .prop_flat_map(|memory| (Just(memory), prop::collection::vec(step(!memory), 1..60))),
    ) {
        let Some(program) = Program::get() else { return Ok(()) };
        let mut both = [true, false].map(|shield| {
            let mut sender = Sender::new(program, Control { cubic, shield }, origin.0, origin.1);
            if !memory {
                // As if it never had any.
                sender.board.memory = 0;
                sender.board.stored = 0;
                sender.board.kept = Default::default();
            }
            sender
        });
        for (at, step) in steps.iter().enumerate() {
            let seen = both.each_mut().map(|sender| {
                take(sender, step);
                let board = &sender.board;
                (board.cwnd, board.ssthresh, board.ca_state, board.snd_nxt, board.cwnd_stamp, board.epoch_start)
            });
            prop_assert_eq!(seen[0], seen[1], "step {}, {:?}", at, step);
        }
        prop_assert_eq!(both[0].board.counts, Default::default());
    }

    /// A whole silence: whatever is under way when it begins is lost, timeouts come, the sender is told of
    /// the end. Once the losses are mended, window and threshold are what they were.
    #[test]
    fn a_silence_costs_neither_window_nor_threshold(
        control in control(),
        origin in origin(),
        before in prop::collection::vec(step(false), 0..30),
        length_ms in 1u64..AT_MOST_MS,
        (under_way, written) in (1u64..200, 0u64..300),
        wake in any::<bool>(),
    ) {
        let Some(program) = Program::get() else { return Ok(()) };
        let mut sender = Sender::new(program, control, origin.0, origin.1);
        for step in &before {
            take(&mut sender, step);
        }
        drain(&mut sender)?;
        // A sender that is not idle, in no reduction of its own.
        sender.write(under_way);
        sender.deliver(1, 0, false, false);
        prop_assume!(sender.state() == OPEN && sender.unacknowledged() > 0);
        let had = (sender.board.cwnd, sender.board.ssthresh);
        freeze(&mut sender);
        sender.silent = true;
        // What the radio still had is lost.
        sender.deliver(usize::MAX, u64::MAX, false, false);
        sender.write(written);
        sender.advance(length_ms);
        prop_assert!(sender.state() != LOSS || sender.board.cwnd == had.0, "{had:?}: {:?}", sender.board);
        sender.silent = false;
        thaw(&mut sender);
        if wake {
            sender.wake();
        }
        let mut last = None;
        for _ in 0..20_000 {
            if sender.board.kept.phase == SENDING && sender.board.counts.frozen > 0 && sender.board.kept.owed == 0 {
                break;
            }
            if sender.board.kept.phase != SENDING {
                let now = &sender.board;
                prop_assert!(now.cwnd <= had.0, "{had:?}: {now:?}");
                // What a recovery from the silence's losses leads to is the whole window.
                let reducing = matches!(sender.state(), CWR | RECOVERY);
                prop_assert!(!reducing || now.ssthresh >= had.0.min(had.1), "{had:?}: {now:?}");
            }
            last = Some((sender.board.kept.cwnd, sender.board.kept.ssthresh, sender.board.kept.phase));
            if sender.unacknowledged() == 0 {
                sender.write(1);
            }
            if sender.under_way() == 0 {
                sender.advance(200);
            }
            sender.deliver(1, 0, false, false);
        }
        prop_assert_eq!(sender.board.kept.phase, SENDING, "{:?}", sender.board);
        prop_assert_eq!(last.map(|(cwnd, ssthresh, _)| (cwnd, ssthresh)), Some(had), "what was kept");
        // The last ACK may already have made it grow, by no more than it acknowledged.
        prop_assert!(sender.board.cwnd >= had.0, "{had:?}: {:?}", sender.board);
        prop_assert_eq!(sender.board.ssthresh, had.1, "{:?}", sender.board);
        prop_assert_eq!(sender.board.counts.frozen, 1);
    }
}

/// The acknowledgment injected at a thaw lets one segment out: more would find the queue as the silence left
/// it. The first news lets out all that is lost.
#[test]
fn a_thaw_lets_one_segment_out_until_there_is_news() {
    let Some(program) = Program::get() else { return };
    for cubic in [true, false] {
        let mut sender = after_slow_start(program, cubic);
        let had = sender.board.cwnd;
        assert!(had > 100, "{had}");
        sender.write(100);
        freeze(&mut sender);
        sender.silent = true;
        sender.deliver(usize::MAX, u64::MAX, true, false);
        sender.advance(750);
        assert_eq!((sender.timeouts, sender.board.cwnd), (2, had), "cubic: {cubic}");
        sender.silent = false;
        thaw(&mut sender);
        sender.wake();
        assert_eq!((sender.state(), sender.under_way()), (LOSS, 1), "cubic: {cubic}");
        sender.wake();
        assert_eq!(sender.under_way(), 2, "each such acknowledgment lets out one");
        sender.deliver(1, 0, false, false);
        assert_eq!(sender.board.cwnd, had, "cubic: {cubic}");
        assert!(sender.under_way() > 90, "{}: the rest follows at once", sender.under_way());
    }
}

/// A loss probe in a silence is judged when what was sent after it is acknowledged, and says that it mended a
/// loss: that costs nothing.
#[test]
fn a_loss_probe_in_a_silence_costs_no_window() {
    let Some(program) = Program::get() else { return };
    for cubic in [true, false] {
        let mut sender = after_slow_start(program, cubic);
        let had = (sender.board.cwnd, sender.board.ssthresh);
        sender.write(100);
        freeze(&mut sender);
        // The radio keeps what it has; the probe finds no room.
        sender.silent = true;
        sender.advance(150);
        sender.probe();
        assert!(sender.board.tlp_high_seq != 0);
        sender.advance(20);
        sender.silent = false;
        thaw(&mut sender);
        let reductions = sender.reductions;
        // All that was sent before the thaw but the last, and then what the first ACKs let out together with
        // the last.
        sender.deliver(99, 0, false, false);
        sender.write(300);
        sender.deliver(usize::MAX, 0, false, false);
        assert!(sender.reductions > reductions, "cubic: {cubic}: the probe was judged");
        assert_eq!(sender.board.ssthresh, had.1, "cubic: {cubic}");
        assert!(sender.board.cwnd >= had.0, "cubic: {cubic}: {} of {had:?}", sender.board.cwnd);
    }
}

/// What a connection sends first, and loses, in a silence: a server's first answer. Its first call comes in
/// the silence, wherever its sequence numbers begin.
#[test]
fn the_first_that_a_connection_sends_may_fall_into_a_silence() {
    let Some(program) = Program::get() else { return };
    for cubic in [true, false] {
        for seq in [0x3e8, 0x7fff_fff0, 0x8000_1000, 0xf000_0000] {
            let mut sender = Sender::new(program, Control { cubic, shield: true }, seq, 1_000_000);
            freeze(&mut sender);
            sender.silent = true;
            sender.write(5);
            sender.advance(120);
            sender.silent = false;
            thaw(&mut sender);
            sender.advance(500);
            assert!(sender.timeouts > 0, "cubic: {cubic}, from {seq:#x}");
            assert_eq!(sender.board.ssthresh, INFINITE, "cubic: {cubic}, from {seq:#x}: {:?}", sender.board);
        }
    }
}

/// A window that a loss has cut before the silence stays cut: the silence gives nothing back.
#[test]
fn a_timeout_before_a_silence_is_not_undone_by_it() {
    let Some(program) = Program::get() else { return };
    for cubic in [true, false] {
        let mut sender = after_slow_start(program, cubic);
        assert_eq!(sender.board.ssthresh, INFINITE);
        // Its own timeout: everything under way is lost, and nobody was told anything.
        sender.write(400);
        sender.deliver(usize::MAX, u64::MAX, true, false);
        sender.advance(250);
        assert_eq!((sender.state(), sender.board.cwnd), (LOSS, 1));
        let cut = sender.board.ssthresh;
        freeze(&mut sender);
        sender.silent = true;
        // The next timeout comes in the silence.
        sender.advance(500);
        assert_eq!(sender.board.kept.phase, FROZEN);
        assert_eq!((sender.board.cwnd, sender.board.ssthresh), (1, cut), "cubic: {cubic}");
    }
}

/// A path with silences in a period, whose gaps are no longer than a round trip, all in ms. The host is told
/// in time. What is sent into a silence is lost.
struct Periodic<'a> {
    sender: Sender<'a>,
    /// Round trip, period, length of a silence.
    path: (u64, u64, u64),
    /// When each transmission that is under way arrives.
    arrivals: VecDeque<u64>,
    /// Whether ACKs come in during a silence, too, so that new data leaves in it.
    acks_in_silence: bool,
}

impl<'a> Periodic<'a> {
    /// Each path with both algorithms.
    fn each(
        program: &'a Program,
        paths: [(u64, u64, u64); 4],
        acks_in_silence: bool,
    ) -> impl Iterator<Item = Self> {
        [true, false].into_iter().flat_map(move |cubic| {
            paths.map(|path| {
                let sender = Sender::new(program, Control { cubic, shield: true }, 1, 1 << 20);
                let mut this = Self { sender, path, arrivals: VecDeque::new(), acks_in_silence };
                // The first segments, and with them all later ones, are spread over a round trip.
                for _ in 0..10 {
                    this.sender.write(1);
                    this.note();
                    this.sender.advance(path.0 / 11);
                }
                this.sender.write(1_000_000);
                this
            })
        })
    }

    /// One millisecond; `lose`: the third that would arrive in it. Answers whether that was lost.
    fn step(&mut self, lose: bool) -> bool {
        let (_, period, length) = self.path;
        self.sender.advance(1);
        match self.sender.now_ms() % period {
            0 => {
                freeze(&mut self.sender);
                self.sender.silent = true;
            }
            end if end == length => {
                thaw(&mut self.sender);
                self.sender.silent = false;
                if self.sender.state() == LOSS {
                    self.sender.wake();
                }
            }
            _ => {}
        }
        self.note();
        let now = self.sender.now_ms();
        let due = self.arrivals.iter().take_while(|&&at| at <= now).count();
        if self.sender.silent && !self.acks_in_silence {
            return false;
        }
        for at in 0..due {
            self.arrivals.pop_front();
            self.sender.deliver(1, u64::from(lose && at == 2), false, false);
            self.note();
        }
        lose && due > 2
    }

    /// What was sent arrives a round trip later.
    fn note(&mut self) {
        let arrival = self.sender.now_ms() + self.path.0;
        self.arrivals.resize(self.sender.under_way().max(self.arrivals.len()), arrival);
    }
}

impl std::fmt::Debug for Periodic<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:?} at {} ms: {:?}", self.path, self.sender.now_ms(), self.sender.board)
    }
}

/// Where silences come more often than round trips, there is always data of the last one to mend. The window
/// grows all the same, and a loss that no silence made costs what it costs a plain sender.
#[test]
fn silences_within_a_round_trip_stop_neither_growth_nor_the_answer_to_a_loss() {
    let Some(program) = Program::get() else { return };
    let paths = [(92, 100, 10), (130, 100, 10), (170, 150, 20), (165, 60, 20)];
    for mut path in Periodic::each(program, paths, false) {
        let cubic = path.sender.control.cubic;
        for _ in 0..20 * path.path.0 {
            path.step(false);
            if path.sender.board.cwnd >= 100 {
                break;
            }
        }
        assert!(path.sender.board.cwnd >= 100, "cubic: {cubic}, {path:?}");
        assert_eq!(path.sender.reductions, 0, "nothing was lost: {path:?}");
        // Nothing that arrives was sent in a silence.
        let before = path.sender.board.cwnd;
        while !path.step(true) {
            assert!(path.sender.now_ms() < 60_000, "{path:?}");
        }
        for _ in 0..2 * path.path.0 {
            path.step(false);
        }
        let most = if cubic { before * 8 / 10 } else { before * 6 / 10 };
        let board = &path.sender.board;
        assert!(board.ssthresh <= most && board.cwnd <= most + 20, "cubic: {cubic}, {before}: {path:?}");
    }
}

/// What each of these silences loses costs nothing, nor does it stop growth for good.
#[test]
fn silences_within_a_round_trip_cost_neither_window_nor_threshold() {
    let Some(program) = Program::get() else { return };
    let paths = [(95, 100, 10), (98, 90, 15), (90, 60, 5), (70, 40, 5)];
    for mut path in Periodic::each(program, paths, true) {
        let cubic = path.sender.control.cubic;
        let mut most = 0;
        for _ in 0..25 * path.path.0 {
            path.step(false);
            if path.sender.state() == OPEN {
                let board = &path.sender.board;
                assert!(board.cwnd >= most, "cubic: {cubic}, {most}: {path:?}");
                assert_eq!(board.ssthresh, INFINITE, "cubic: {cubic}, {path:?}");
                most = board.cwnd;
            }
            if most >= 150 {
                break;
            }
        }
        assert!(path.sender.reductions > 0 && most >= 150, "cubic: {cubic}, {most}, {path:?}");
    }
}

/// Who has nothing to send is idle by itself from the silence's end on, whenever the socket sees that end:
/// its window restarts (RFC 5681, section 4.1). An idle time that was the silence's restarts nothing.
#[test]
fn a_connection_idle_since_long_after_a_silence_restarts_its_window() {
    let Some(program) = Program::get() else { return };
    for cubic in [true, false] {
        for (length_ms, idle_ms, restarts) in [(100, 600_000, true), (1_900, 500, false)] {
            let mut sender = after_slow_start(program, cubic);
            let had = sender.board.cwnd;
            assert!(had > 100, "{had}");
            freeze(&mut sender);
            sender.advance(length_ms);
            thaw(&mut sender);
            sender.advance(idle_ms);
            sender.write(50);
            let wanted = if restarts { (10, SENDING) } else { (had, MENDING) };
            assert_eq!((sender.board.cwnd, sender.board.kept.phase), wanted, "cubic: {cubic}, {idle_ms} ms");
        }
    }
}

/// Nor does a silence give back the window of a sender that was idle by itself before it began, whether the
/// sender goes on in the silence or soon after.
#[test]
fn a_connection_idle_since_long_before_a_silence_restarts_its_window() {
    let Some(program) = Program::get() else { return };
    for cubic in [true, false] {
        for (idle_ms, before_end, restarts) in [
            (600_000, 500, true),
            (600_000, 0, true),
            (600_000, -500, true),
            (600_000, -5_000, true),
            (300, 500, false),
            (300, -500, false),
        ] {
            let case = format!("cubic: {cubic}, idle for {idle_ms} ms, {before_end} ms before the end");
            let mut sender = after_slow_start(program, cubic);
            let had = sender.board.cwnd;
            // Silences that nothing was sent in, as a radio has that senses each second.
            for _ in 0..3 {
                sender.advance(idle_ms / 3);
                freeze(&mut sender);
                sender.advance(25);
                thaw(&mut sender);
            }
            sender.advance(idle_ms);
            freeze(&mut sender);
            sender.advance(u64::try_from(1_000 - before_end.max(0)).expect("positive"));
            if before_end > 0 {
                sender.silent = true;
                sender.write(5);
                sender.advance(u64::try_from(before_end).expect("positive"));
                sender.silent = false;
            }
            thaw(&mut sender);
            sender.wake();
            if before_end <= 0 {
                sender.advance(u64::try_from(-before_end).expect("positive"));
                sender.write(5);
            }
            let wanted = if restarts { 10 } else { had };
            let Board { cwnd, kept, .. } = sender.board;
            assert_eq!(if kept.phase == SENDING { cwnd } else { kept.cwnd }, wanted, "{case}");
            if before_end < -1_000 {
                assert_eq!(sender.board.kept.phase, SENDING, "{case}");
            }
            // Whatever the silence lost costs no more.
            drain(&mut sender).expect("it goes on");
            assert!(sender.board.cwnd >= wanted, "{case}: {}", sender.board.cwnd);
        }
    }
}

/// The last silence of a radio that packets come in by from now on took nothing of a connection.
#[test]
fn another_radios_past_silence_is_none_of_a_connections() {
    let Some(program) = Program::get() else { return };
    for cubic in [true, false] {
        let mut sender = after_slow_start(program, cubic);
        for turn in 0..4 {
            let (frozen, had) = (sender.board.counts.frozen, sender.board.cwnd);
            sender.board.ifindex = 4 + turn % 2;
            sender.board.radio = sender.board.ifindex;
            sender.board.quiet_there = 1;
            sender.board.quiet_since = 1_000_000_000 + u64::from(turn % 2);
            sender.board.quiet_until = 1_100_000_000;
            sender.write(500);
            sender.deliver(usize::MAX, 0, false, false);
            assert_eq!((sender.board.counts.frozen, sender.board.kept.phase), (frozen, SENDING), "{turn}");
            assert!(sender.board.cwnd >= had, "{turn}");
        }
        // A silence of the new radio counts.
        freeze(&mut sender);
        sender.write(1);
        assert_eq!(sender.board.kept.phase, FROZEN);
    }
}

/// A sender that waits for its timer is not idle, however long ago the silence ended.
#[test]
fn a_sender_that_waits_for_its_timer_after_a_silence_is_not_idle() {
    let Some(program) = Program::get() else { return };
    for cubic in [true, false] {
        let mut sender = after_slow_start(program, cubic);
        let had = (sender.board.cwnd, sender.board.ssthresh);
        sender.write(100);
        freeze(&mut sender);
        sender.silent = true;
        sender.deliver(usize::MAX, u64::MAX, true, false);
        // Timeouts after 200, 600 and 1,400 ms; the next is after 3,000 ms, and nothing wakes the sender.
        sender.advance(1_900);
        sender.silent = false;
        thaw(&mut sender);
        sender.advance(1_200);
        assert_eq!((sender.timeouts, sender.board.kept.phase), (4, MENDING), "cubic: {cubic}");
        assert_eq!((sender.board.cwnd, sender.board.kept.ssthresh), had, "cubic: {cubic}");
    }
}

/// A window that the application does not use up is cut by the kernel after an RTO in which it was not used,
/// and no callback says so. The silence does not count towards that RTO.
#[test]
fn a_silence_does_not_count_as_a_window_not_used() {
    let Some(program) = Program::get() else { return };
    for cubic in [true, false] {
        let mut sender = after_slow_start(program, cubic);
        let had = (sender.board.cwnd, sender.board.ssthresh);
        assert!(had.0 > 100, "{had:?}");
        freeze(&mut sender);
        sender.silent = true;
        sender.write(30);
        // Timeouts at 200 and 600 ms start the kernel's clock anew.
        sender.advance(750);
        assert_eq!(sender.timeouts, 2);
        sender.silent = false;
        thaw(&mut sender);
        sender.wake();
        sender.deliver(usize::MAX, 0, false, false);
        assert_eq!((sender.state(), sender.board.kept.phase), (OPEN, SENDING));
        sender.advance(60);
        sender.write(20);
        // The ACK that ended the mending acknowledged 30 segments in slow start.
        let grown = had.0..=had.0 + 30;
        assert!(grown.contains(&sender.board.cwnd), "cubic: {cubic}: {} of {had:?}", sender.board.cwnd);
        assert_eq!(sender.board.ssthresh, had.1, "cubic: {cubic}");
        // Not used for an RTO after the silence, it is cut, as any sender's.
        for _ in 0..3 {
            sender.deliver(usize::MAX, 0, false, false);
            sender.advance(80);
            sender.write(20);
        }
        assert!(sender.board.cwnd < had.0, "cubic: {cubic}");
    }
}
