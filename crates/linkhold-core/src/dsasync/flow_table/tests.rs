//! The flow table: its size, and who makes room.

use super::*;
use crate::packet::Endpoint;

fn key(n: u16) -> FlowKey {
    let addr = IpAddr::from([10, 0, 0, 1]);
    FlowKey {
        correspondent: Endpoint { addr, port: 80 },
        station: Endpoint { addr: IpAddr::from([10, 0, 1, 1]), port: n },
    }
}

fn add(table: &mut FlowTable, n: u16) -> u32 {
    match table.touch(Transport::Tcp, &key(n), StationId(0)) {
        Touched::Known(slot) | Touched::New(slot) => slot,
        Touched::Full => panic!("full"),
    }
}

#[test]
fn a_flow_takes_at_most_512_bytes() {
    let size = core::mem::size_of::<Slot>();
    // The hash table keeps a 4-byte slot and a control byte at a load of at least 7/16; the free list 4 more.
    assert!(size + 16 <= 512, "{size} bytes");
}

#[test]
fn the_longest_idle_flow_makes_room() {
    let mut table = FlowTable::new(3, 7);
    for n in 0..3 {
        add(&mut table, n);
    }
    add(&mut table, 0);
    assert_eq!(table.touch(Transport::Tcp, &key(9), StationId(0)), Touched::Full);
    let oldest = table.oldest(Transport::Tcp).unwrap();
    assert_eq!(table.get(oldest).unwrap().key, key(1));
    table.remove(oldest);
    assert_eq!(table.find(&key(1)), None);
    assert!(
        matches!(table.touch(Transport::Tcp, &key(9), StationId(0)), Touched::New(slot) if slot == oldest)
    );
    assert_eq!(table.len(), 3);
    // 2, then 0, then 9 are left in order of idleness.
    for n in [2, 0, 9] {
        let oldest = table.oldest(Transport::Tcp).unwrap();
        assert_eq!(table.get(oldest).unwrap().key, key(n));
        table.remove(oldest);
    }
    assert_eq!((table.len(), table.oldest(Transport::Tcp)), (0, None));
}

#[test]
fn strangers_make_room_before_the_connections_that_somebody_has() {
    let mut table = FlowTable::new(4, 7);
    let real = add(&mut table, 0);
    table.at(real).note_answer();
    assert_eq!(table.touch_newest(&key(0), StationId(0)), None, "it is in the wrong list yet");
    assert_eq!(add(&mut table, 0), real);
    assert_eq!(table.touch_newest(&key(0), StationId(0)), Some(real));
    for n in 1..20 {
        if table.touch(Transport::Tcp, &key(n), StationId(0)) == Touched::Full {
            let oldest = table.oldest(Transport::Tcp).unwrap();
            assert_eq!(table.get(oldest).unwrap().key, key(n - 3), "the stranger that is idle longest");
            table.remove(oldest);
            add(&mut table, n);
        }
        assert_eq!(table.touch_newest(&key(n), StationId(0)), table.find(&key(n)));
    }
    assert_eq!((table.find(&key(0)), table.len()), (Some(real), 4));
    // Where there are no strangers, it is the one that is idle longest.
    for n in 17..20 {
        let slot = add(&mut table, n);
        table.at(slot).note_answer();
        assert_eq!(add(&mut table, n), slot);
    }
    assert_eq!(table.oldest(Transport::Tcp), Some(real));
}

/// Connections that ended unseen fill the table; those that begin do not push each other out.
#[test]
fn a_table_full_of_connections_leaves_strangers_a_quarter() {
    let mut table = FlowTable::new(8, 7);
    for n in 0..8 {
        let slot = add(&mut table, n);
        table.at(slot).note_answer();
        add(&mut table, n);
    }
    for n in [10, 11] {
        assert_eq!(table.touch(Transport::Tcp, &key(n), StationId(0)), Touched::Full);
        let oldest = table.oldest(Transport::Tcp).unwrap();
        assert_eq!(table.get(oldest).unwrap().key, key(n - 10), "a connection");
        table.remove(oldest);
        add(&mut table, n);
    }
    assert!(table.find(&key(10)).is_some() && table.find(&key(11)).is_some());
}

/// Many whose last packet made them real lie at the old end of the strangers.
#[test]
fn who_has_become_real_unseen_is_no_stranger() {
    let mut table = FlowTable::new(40, 7);
    for n in 0..20 {
        let slot = add(&mut table, n);
        table.at(slot).note_answer();
    }
    for n in 20..200 {
        if table.touch(Transport::Tcp, &key(n), StationId(0)) == Touched::Full {
            table.remove(table.oldest(Transport::Tcp).unwrap());
            add(&mut table, n);
        }
    }
    assert!((0..20).all(|n| table.find(&key(n)).is_some()));
}

#[test]
fn a_busy_flow_is_not_evicted_before_an_idle_one_that_is_nearly_as_old() {
    let mut table = FlowTable::new(4, 7);
    for n in 0..4 {
        add(&mut table, n);
    }
    let busy = table.find(&key(0)).unwrap();
    table.at(busy).held = 1;
    let oldest = table.oldest(Transport::Tcp).unwrap();
    assert_eq!(table.get(oldest).unwrap().key, key(1));
}

/// A driver gives the numbers of idle stations back: one that returns has another number.
#[test]
fn a_flow_follows_its_station_to_a_new_number() {
    let mut table = FlowTable::new(4, 1);
    let Touched::New(slot) = table.touch(Transport::Tcp, &key(1), StationId(3)) else {
        panic!("the table is empty")
    };
    assert_eq!(table.touch_newest(&key(1), StationId(3)), Some(slot));
    assert_eq!(table.touch_newest(&key(1), StationId(8)), None);
    assert!(
        matches!(table.touch(Transport::Tcp, &key(1), StationId(8)), Touched::Known(found) if found == slot)
    );
    assert_eq!(table.at(slot).station, StationId(8));
    assert_eq!(table.touch_newest(&key(1), StationId(8)), Some(slot));
}

#[test]
fn datagrams_have_flows_and_places_of_their_own() {
    let mut table = FlowTable::new(8, 1);
    let connection = add(&mut table, 1);
    let touch = |table: &mut FlowTable, n| table.touch(Transport::Udp, &key(n), StationId(0));
    let Touched::New(slot) = touch(&mut table, 1) else {
        panic!("a connection of that name is another flow")
    };
    assert_ne!(slot, connection);
    assert_eq!(touch(&mut table, 1), Touched::Known(slot));
    assert_eq!(
        (table.find(&key(1)), table.touch_newest(&key(1), StationId(0))),
        (Some(connection), Some(connection))
    );
    // A quarter of the places, whatever is free among the others; and nobody else's are taken.
    assert!(matches!(touch(&mut table, 2), Touched::New(_)));
    assert_eq!(touch(&mut table, 3), Touched::Full);
    assert_eq!(table.oldest(Transport::Udp), Some(slot));
    assert_eq!(table.oldest(Transport::Tcp), Some(connection));
    table.remove(slot);
    assert!(matches!(touch(&mut table, 3), Touched::New(_)));
    assert_eq!((table.len(), table.find(&key(1))), (3, Some(connection)));
}
