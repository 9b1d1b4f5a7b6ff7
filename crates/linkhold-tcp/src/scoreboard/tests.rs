//! The scoreboard's counters and orders, by hand.

use super::*;

fn board(segments: u64) -> Scoreboard {
    let mut board = Scoreboard::new();
    for i in 0..segments {
        board.push(1 + i * 1000, 1 + (i + 1) * 1000, Instant::from_millis(i));
    }
    board
}

fn sack(board: &mut Scoreboard, left: u64, right: u64) -> AckSummary {
    let mut summary = AckSummary::default();
    board.sack(&[(left, right), (0, 0), (0, 0), (0, 0)], &mut summary);
    summary
}

fn chain_ids(board: &Scoreboard) -> Vec<u32> {
    let mut ids = Vec::new();
    let mut at = board.oldest();
    while let Some(id) = at {
        ids.push(id);
        at = board.after(id);
    }
    ids
}

#[test]
fn pipe_counts_what_is_in_the_network() {
    let mut b = board(10);
    assert_eq!(b.pipe(1, 10_001), 10_000);
    assert_eq!(sack(&mut b, 4001, 7001).delivered, 3000);
    assert_eq!(b.pipe(1, 10_001), 7_000);
    assert!(b.mark_lost_below_sacked(3));
    assert_eq!((b.lost_bytes(), b.pipe(1, 10_001)), (4000, 3000));
    b.retransmitted(0, Instant::from_millis(20));
    assert_eq!(b.pipe(1, 10_001), 4000);
    let mut summary = AckSummary::default();
    b.acknowledge(1001, &mut summary);
    assert_eq!(
        (summary.delivered, summary.first_sent),
        (1000, None),
        "Karn: no sample from a retransmission"
    );
    assert_eq!(b.pipe(1001, 10_001), 3000);
}

#[test]
fn a_repeated_block_is_counted_once_and_its_extension_is_new() {
    let mut b = board(10);
    assert_eq!(sack(&mut b, 4001, 6001).sacked, 2000);
    assert_eq!(sack(&mut b, 4001, 6001).sacked, 0);
    assert_eq!(sack(&mut b, 4001, 8001).sacked, 2000);
    assert_eq!(b.sacked_segments(), 4);
}

#[test]
fn a_segment_that_was_first_reported_in_part_counts_once_it_is_whole() {
    let mut b = board(10);
    assert_eq!(sack(&mut b, 4001, 6501).sacked, 2000);
    assert_eq!(sack(&mut b, 4001, 7001).sacked, 1000);
    assert_eq!((sack(&mut b, 4001, 7001).sacked, b.sacked_segments()), (0, 3));
    // A block that begins in the middle of a segment does not cover it.
    assert_eq!(sack(&mut b, 8501, 9501).sacked, 0);
    assert_eq!(sack(&mut b, 8501, 10_001).sacked, 1000);
}

#[test]
fn the_chain_is_in_order_of_last_transmission() {
    let mut b = board(5);
    b.mark_lost(1);
    assert_eq!(chain_ids(&b), [0, 2, 3, 4]);
    assert_eq!(b.next_lost(), Some(1));
    b.retransmitted(1, Instant::from_millis(30));
    assert_eq!(chain_ids(&b), [0, 2, 3, 4, 1]);
    assert_eq!(b.next_lost(), None);
    sack(&mut b, 2001, 4001);
    assert_eq!(chain_ids(&b), [0, 4, 1]);
    b.acknowledge(4001, &mut AckSummary::default());
    assert_eq!(chain_ids(&b), [4]);
}

#[test]
fn a_lost_retransmission_waits_again() {
    let mut b = board(3);
    assert!(b.mark_lost(0));
    assert!(!b.mark_lost(0), "it is no news twice");
    b.retransmitted(0, Instant::from_millis(9));
    assert_eq!(b.pipe(1, 3001), 3000);
    assert!(b.mark_lost(0));
    assert_eq!((b.pipe(1, 3001), b.next_lost()), (2000, Some(0)));
}

#[test]
fn unmarking_puts_every_segment_back_in_the_network() {
    let mut b = board(4);
    b.mark_all_lost(|_| false);
    assert_eq!(b.pipe(1, 4001), 0);
    b.retransmitted(0, Instant::from_millis(9));
    b.unmark_lost();
    assert_eq!(b.pipe(1, 4001), 5000, "one segment is in the network twice");
    assert_eq!(b.next_lost(), None);
    assert_eq!(chain_ids(&b).len(), 4);
}

#[test]
fn records_keep_their_ids_while_the_ring_turns_and_grows() {
    let mut b = Scoreboard::new();
    let mut sent = 0u64;
    // Two segments are sent for each one acknowledged: the ring grows while its first record is not in slot
    // 0.
    for acknowledged in 1..200u64 {
        for _ in 0..2 {
            b.push(1 + sent * 1000, 1 + (sent + 1) * 1000, Instant::from_millis(sent));
            sent += 1;
        }
        b.acknowledge(1 + acknowledged * 1000, &mut AckSummary::default());
        assert_eq!(u64::from(b.segments()), sent - acknowledged);
        for id in acknowledged..sent {
            assert_eq!(b.get(id as u32).map(|record| record.start), Some(1 + id * 1000));
        }
        assert!(b.get(acknowledged as u32 - 1).is_none() && b.get(sent as u32).is_none());
    }
    let ids: Vec<u32> = (199..sent as u32).collect();
    assert_eq!(chain_ids(&b), ids);
}

#[test]
fn one_ack_of_many_segments_tells_the_first_and_the_last_transmission() {
    let mut b = board(6);
    let mut summary = AckSummary::default();
    b.acknowledge(4001, &mut summary);
    let (first, last) = (Instant::from_millis(0), Instant::from_millis(3));
    assert_eq!((summary.first_sent, summary.last_sent), (Some(first), Some(last)));
    let newest = summary.newest.map(|newest| (newest.end, newest.sent));
    assert_eq!((summary.delivered, newest), (4000, Some((4001, last))));
    assert!(!summary.reordered && !summary.original_delivered);
    assert_eq!(chain_ids(&b), [4, 5]);
}
