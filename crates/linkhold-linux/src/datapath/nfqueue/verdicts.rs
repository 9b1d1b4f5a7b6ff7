//! Verdicts on their way to the kernel. They are gathered in order, many to a system call. While no packet of
//! a queue is held, a run of accepts is one message (`NFQNL_MSG_VERDICT_BATCH`).

use core::ops::Range;

use linkhold_core::packet::PacketId;

use super::message::{
    NF_ACCEPT, NF_DROP, NFQA_VERDICT_HDR, NFQNL_MSG_VERDICT, NFQNL_MSG_VERDICT_BATCH, NLM_F_REQUEST,
    kernel_id, put_accept_everything, put_message, queue_index, token, verdict_header,
};

/// Verdicts are due when so many bytes of them have gathered. A verdict takes 32 bytes, a rewritten packet up
/// to a whole uplink packet more.
const BATCH_BYTES: usize = 16 * 1024;

/// What is known of one kernel queue.
#[derive(Debug)]
struct Queue {
    number: u16,
    held: u32,
    /// Every packet up to this id is accepted, and no message says so yet.
    accept_up_to: Option<u32>,
}

/// Verdicts of all queues that are not [sent](Self::clear) yet.
#[derive(Debug)]
pub(super) struct Verdicts {
    /// Downlink and uplink of every radio.
    queues: Box<[Queue]>,
    numbers: Range<u16>,
    messages: Vec<u8>,
}

impl Verdicts {
    pub(super) fn new(numbers: Range<u16>) -> Self {
        Self {
            queues: numbers.clone().map(|number| Queue { number, held: 0, accept_up_to: None }).collect(),
            numbers,
            messages: Vec::with_capacity(2 * BATCH_BYTES),
        }
    }

    /// Numbers of the queues: downlink and uplink of every radio.
    pub(super) fn queue_numbers(&self) -> Range<u16> {
        self.numbers.clone()
    }

    /// The packet that came last in its queue goes on.
    pub(super) fn accept(&mut self, id: PacketId) {
        let queue = self.queue_of(id);
        if queue.held == 0 {
            queue.accept_up_to = Some(kernel_id(id));
        } else {
            self.write(id, NF_ACCEPT, &[]);
        }
    }

    /// A packet goes on as `packet`.
    pub(super) fn replace(&mut self, id: PacketId, packet: &[u8]) {
        self.write(id, NF_ACCEPT, packet);
    }

    /// A packet is thrown away.
    pub(super) fn discard(&mut self, id: PacketId) {
        self.write(id, NF_DROP, &[]);
    }

    /// The packet that came last in its queue stays: the run of accepts ends before it.
    pub(super) fn hold(&mut self, id: PacketId) {
        self.settle(id);
        self.queue_of(id).held += 1;
    }

    /// A held packet goes on as it is.
    pub(super) fn release(&mut self, id: PacketId) {
        self.write(id, NF_ACCEPT, &[]);
        self.queue_of(id).held -= 1;
    }

    /// A held packet goes on as `packet`.
    pub(super) fn replace_held(&mut self, id: PacketId, packet: &[u8]) {
        self.replace(id, packet);
        self.queue_of(id).held -= 1;
    }

    /// A held packet is thrown away.
    pub(super) fn discard_held(&mut self, id: PacketId) {
        self.discard(id);
        self.queue_of(id).held -= 1;
    }

    /// Everything in all queues goes on, seen or not.
    pub(super) fn accept_everything(&mut self) {
        self.settle_all();
        let numbers = self.queue_numbers();
        put_accept_everything(&mut self.messages, numbers);
    }

    /// True if so many verdicts have gathered that they should be sent.
    pub(super) fn is_due(&self) -> bool {
        self.messages.len() >= BATCH_BYTES
    }

    /// Writes the pending runs of accepts as messages, too.
    pub(super) fn settle_all(&mut self) {
        for index in 0..self.queues.len() {
            self.settle(token(index, 0));
        }
    }

    /// The messages written so far, oldest first.
    pub(super) fn messages(&self) -> &[u8] {
        &self.messages
    }

    /// Forgets the messages: they are sent.
    pub(super) fn clear(&mut self) {
        self.messages.clear();
    }

    fn queue_of(&mut self, id: PacketId) -> &mut Queue {
        &mut self.queues[queue_index(id)]
    }

    /// Writes the pending run of accepts of a packet's queue as one message.
    fn settle(&mut self, id: PacketId) {
        let queue = self.queue_of(id);
        let number = queue.number;
        if let Some(last) = queue.accept_up_to.take() {
            let header = verdict_header(NF_ACCEPT, last);
            let attributes: [(u16, &[u8]); 1] = [(NFQA_VERDICT_HDR, &header)];
            put_message(&mut self.messages, NFQNL_MSG_VERDICT_BATCH, NLM_F_REQUEST, number, &attributes, &[]);
        }
    }

    fn write(&mut self, id: PacketId, verdict: u32, packet: &[u8]) {
        self.settle(id);
        let number = self.queue_of(id).number;
        let header = verdict_header(verdict, kernel_id(id));
        let attributes: [(u16, &[u8]); 1] = [(NFQA_VERDICT_HDR, &header)];
        put_message(&mut self.messages, NFQNL_MSG_VERDICT, NLM_F_REQUEST, number, &attributes, packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOWN: usize = 0;
    const UP: usize = 1;

    /// What is said to the kernel, message by message: queue, "up to" or "one", verdict, id.
    fn told(verdicts: &mut Verdicts) -> Vec<(u16, &'static str, u32, u32)> {
        let mut said = Vec::new();
        let mut rest = verdicts.messages();
        while let Some((length, _)) = rest.split_first_chunk::<4>() {
            let (message, next) = rest.split_at(u32::from_ne_bytes(*length) as usize);
            let number = |at: usize| u32::from_be_bytes(message[at..at + 4].try_into().unwrap());
            let kind = match u16::from_ne_bytes([message[4], message[5]]) {
                NFQNL_MSG_VERDICT => "one",
                NFQNL_MSG_VERDICT_BATCH => "up to",
                other => panic!("message type {other:#x}"),
            };
            said.push((u16::from_be_bytes([message[18], message[19]]), kind, number(24), number(28)));
            rest = next;
        }
        verdicts.clear();
        said
    }

    #[test]
    fn a_run_of_accepts_is_one_message_a_queue() {
        let mut verdicts = Verdicts::new(10..12);
        for id in 1..=500 {
            verdicts.accept(token(DOWN, id));
            verdicts.accept(token(UP, 2 * id));
        }
        assert!(verdicts.messages().is_empty());
        verdicts.settle_all();
        assert_eq!(told(&mut verdicts), [(10, "up to", NF_ACCEPT, 500), (11, "up to", NF_ACCEPT, 1000)]);
        verdicts.settle_all();
        assert_eq!(told(&mut verdicts), []);
    }

    #[test]
    fn a_hold_ends_the_run_before_it_and_until_it_is_over_every_packet_is_named() {
        let mut verdicts = Verdicts::new(10..12);
        verdicts.accept(token(DOWN, 1));
        verdicts.accept(token(DOWN, 2));
        verdicts.hold(token(DOWN, 3));
        verdicts.hold(token(DOWN, 4));
        verdicts.accept(token(DOWN, 5));
        // The other queue holds nothing.
        verdicts.accept(token(UP, 1));
        verdicts.accept(token(UP, 2));
        verdicts.release(token(DOWN, 3));
        verdicts.accept(token(DOWN, 6));
        verdicts.discard_held(token(DOWN, 4));
        verdicts.accept(token(DOWN, 7));
        verdicts.accept(token(DOWN, 8));
        verdicts.settle_all();
        assert_eq!(
            told(&mut verdicts),
            [
                (10, "up to", NF_ACCEPT, 2),
                (10, "one", NF_ACCEPT, 5),
                (10, "one", NF_ACCEPT, 3),
                (10, "one", NF_ACCEPT, 6),
                (10, "one", NF_DROP, 4),
                (10, "up to", NF_ACCEPT, 8),
                (11, "up to", NF_ACCEPT, 2),
            ]
        );
    }

    #[test]
    fn a_packet_replaced_or_discarded_follows_the_accepts_before_it() {
        let mut verdicts = Verdicts::new(10..12);
        verdicts.accept(token(UP, 1));
        verdicts.replace(token(UP, 2), &[0x45; 40]);
        verdicts.accept(token(UP, 3));
        verdicts.discard(token(UP, 4));
        verdicts.settle_all();
        assert_eq!(
            told(&mut verdicts),
            [
                (11, "up to", NF_ACCEPT, 1),
                (11, "one", NF_ACCEPT, 2),
                (11, "up to", NF_ACCEPT, 3),
                (11, "one", NF_DROP, 4),
            ]
        );
    }

    #[test]
    fn a_batch_is_due_when_it_is_large() {
        let mut verdicts = Verdicts::new(10..12);
        let mut id = 0;
        while !verdicts.is_due() {
            verdicts.discard(token(DOWN, id));
            id += 1;
        }
        assert_eq!(id, 512);
        assert_eq!(told(&mut verdicts).len(), 512);
        assert!(!verdicts.is_due());
    }
}
