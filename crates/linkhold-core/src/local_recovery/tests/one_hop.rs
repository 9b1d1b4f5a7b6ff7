//! A radio hop that loses some of what goes over it and keeps the order of the rest, and a receiver that
//! leaves some of its ACKs out.

use std::collections::VecDeque;

use super::*;

/// From the base station to the receiver, ms.
const HOP: u64 = 20;
/// No copy goes because nothing was heard, and none goes twice.
const NEVER: Duration = Duration::from_secs(1000);

/// What goes down: the number of a segment.
#[derive(Debug)]
struct Transmission {
    arrives: u64,
    segment: u32,
}

/// The receiver, by RFC 2018 section 4: first the block of what came last, then those it has told of.
#[derive(Debug, Default)]
struct Receiver {
    received: BTreeSet<u32>,
    /// What came, the latest first.
    recent: VecDeque<u32>,
    next: u32,
    d_sack: bool,
}

impl Receiver {
    fn block(&self, segment: u32) -> (u32, u32) {
        let left = (0..segment).rev().take_while(|before| self.received.contains(before)).last();
        let right = (segment..).find(|after| !self.received.contains(after)).unwrap_or(segment);
        (left.unwrap_or(segment), right)
    }

    fn takes(&mut self, segment: u32) -> TcpSegment {
        let mut blocks = Vec::new();
        if !self.received.insert(segment) && self.d_sack {
            blocks.push((segment, segment + 1));
        }
        while self.received.contains(&self.next) {
            self.next += 1;
        }
        self.recent.retain(|&before| before != segment && before > self.next);
        if segment > self.next {
            self.recent.push_front(segment);
        }
        for block in self.recent.iter().map(|&recent| self.block(recent)) {
            if blocks.len() < 3 && !blocks.contains(&block) {
                blocks.push(block);
            }
        }
        ack(self.next, &blocks)
    }
}

linkhold_testing::properties! {
    #![cases(linkhold_testing::costly(250))]

    /// What is still under way is never sent again, whatever the receiver leaves out of its ACKs and whatever
    /// the sender sends again itself.
    #[test]
    fn nothing_is_sent_again_that_is_still_under_way(
        lost in prop::collection::vec(prop::bool::weighted(0.2), 1..97),
        told in prop::collection::vec(prop::bool::weighted(0.4), 1..89),
        again in prop::collection::vec(prop::option::weighted(0.1, 0u32..40), 1..83),
        d_sack: bool,
    ) {
        let config = LocalRecoveryConfig { least_patience: NEVER, keep_for: NEVER, ..Default::default() };
        let mut talk = Talk::new(LocalRecovery::new(&config));
        let syn = SynOptions { sack_permitted: true, ..SynOptions::default() };
        let (before, flags) = (Seq(u32::MAX), TcpFlags::SYN);
        let ask = TcpSegment { seq: before, flags, syn, ..TcpSegment::default() };
        let answer = TcpSegment { flags: flags | TcpFlags::ACK, ..ask };
        let _ = talk.packet(0, Direction::Downlink, 1, &ask);
        let _ = talk.packet(0, Direction::Uplink, 1, &answer);
        let mut receiver = Receiver { d_sack, ..Receiver::default() };
        let mut under_way: VecDeque<Transmission> = VecDeque::new();
        let mut segments: BTreeMap<u64, u32> = BTreeMap::new();
        let mut lost = lost.iter().copied().cycle();
        let mut told = told.iter().copied().cycle();
        for now in 0..250 {
            while under_way.front().is_some_and(|first| first.arrives <= now) {
                let Some(Transmission { segment, .. }) = under_way.pop_front() else { break };
                let answer = receiver.takes(segment);
                if !told.next().unwrap_or(true) {
                    continue;
                }
                for id in talk.up(now, &answer).0 {
                    let segment = segments[&id];
                    let same = under_way.iter().find(|other| other.segment == segment);
                    prop_assert!(same.is_none(), "{same:?} is under way at {now} ms, by {answer:?}");
                    if !lost.next().unwrap_or(false) {
                        under_way.push_back(Transmission { arrives: now + HOP, segment });
                    }
                }
            }
            let behind = again.get(now as usize % again.len()).copied().flatten();
            let sends = (now as u32).checked_sub(behind.unwrap_or_default()).filter(|_| now < 200);
            if let Some(segment) = sends {
                let (id, _, _) = talk.packet(now, Direction::Downlink, 1, &data(segment));
                segments.insert(id, segment);
                if !lost.next().unwrap_or(false) {
                    under_way.push_back(Transmission { arrives: now + HOP, segment });
                }
            }
        }
    }
}
