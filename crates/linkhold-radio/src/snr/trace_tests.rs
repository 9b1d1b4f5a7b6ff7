//! What an SNR trace takes and what it refuses.

use proptest::prelude::*;

use super::*;

const COLUMNS: Columns<'_> = Columns { time: "time", snr: "snr", max_gap: Duration::from_secs(60) };

fn parsed(text: &str) -> SnrTrace {
    SnrTrace::parse(text, COLUMNS).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> String {
    SnrTrace::parse(text, COLUMNS).expect_err("the file is wrong").to_string()
}

#[test]
fn the_snr_goes_straight_between_rows_and_begins_anew_after_the_last() {
    let trace = parsed("note,time,snr\n\"a, b\",10.5,4\r\n\n,12.5,8\n,13.5,-2\n");
    let at = |ms| trace.db_at(Instant::from_millis(ms), Duration::ZERO);
    assert_eq!((trace.rows(), trace.duration()), (3, Duration::from_secs(3)));
    assert_eq!([at(0), at(500), at(2000), at(2500)], [4.0, 5.0, 8.0, 3.0]);
    assert_eq!([at(3000), at(3500), at(300_500)], [4.0, 5.0, 5.0]);
    assert_eq!(trace.db_at(Instant::ZERO, Duration::from_millis(2500)), 3.0);
    assert_eq!(trace.range_db(), (-2.0, 8.0));
}

#[test]
fn a_time_may_be_a_date() {
    let trace = parsed("time,snr\n2024-02-29 23:59:59.25,1\n2024-03-01T00:00:01.000000001,2\n");
    assert_eq!(trace.duration(), Duration::from_nanos(1_750_000_001));
    assert_eq!(nanoseconds("1970-01-01 00:00:00"), Some(0));
    assert_eq!(nanoseconds("2025-01-21 09:41:58"), Some(1_737_452_518_000_000_000));
}

/// Three lines in the form of the measured link that `reproductions/activation` plays, with numbers of our
/// own: dates with nanoseconds, whole decibels in columns far to the right, and a list at the end, whose
/// commas would stand in quotes.
#[test]
fn the_measured_links_form_is_read() {
    let text = "timestamp,packet_drop_percentage,bits_per_second,jitter_ms,seconds,receiver_txpower,\
        sender_txpower,receiver_sender_SNR,sender_receiver_SNR,receiver_sender_RSSI,sender_receiver_RSSI,\
        receiver_noise,sender_noise,route\n\
        2024-12-31 23:59:58.250000000,0.25,9000000.5,1.5,4.25,17,17,-1,9,-92,-82,-91,-91,[]\n\
        2025-01-01 00:00:03.000000128,12.5,8500000.125,0.75,4.5,17,17,4,10,-87,-81,-91,-91,\"['a', 'b']\"\n\
        2025-01-01 00:00:08.125000000,0.0,9500000.0,2.25,4.0,17,17,2,8,-89,-83,-91,-91,[]\n";
    let columns = Columns { time: "timestamp", snr: "receiver_sender_SNR", ..COLUMNS };
    let trace = SnrTrace::parse(text, columns).expect("it is such a file");
    assert_eq!((trace.rows(), trace.duration()), (3, Duration::from_millis(9875)));
    assert_eq!(trace.range_db(), (-1.0, 4.0));
    let at = |nanoseconds| trace.db_at(Instant::from_nanos(nanoseconds), Duration::ZERO);
    assert_eq!([at(0), at(4_750_000_128), at(9_874_999_999).round()], [-1.0, 4.0, 2.0]);
    // The other direction's column, and the scenario's own names, which this file does not have.
    let other = Columns { snr: "sender_receiver_SNR", ..columns };
    let other = SnrTrace::parse(text, other).expect("it is there");
    assert_eq!(other.range_db(), (8.0, 10.0));
    let told = SnrTrace::parse(text, COLUMNS).expect_err("there is no `time`").to_string();
    assert!(told.contains("no column `time`; there are timestamp, packet_drop_percentage"), "{told}");
    assert!(told.ends_with(", sender_noise, route"), "{told}");
}

#[test]
fn a_file_that_cannot_be_played_is_refused_with_its_line() {
    for (text, told) in [
        ("", "line 1: the file is empty"),
        (" \n\r\n", "line 1: the file is empty"),
        ("time,SNR\n", "line 1: there is no column `snr`; there are time, SNR"),
        ("time,snr\n0,5\n", "line 2: an SNR trace needs at least two rows below its heading"),
        ("time,snr\n0,5\n1\n", "line 3: the row has no value in the column `snr`"),
        ("time,snr\n0,5\n1,\n", "line 3: the row has no value in the column `snr`"),
        ("time,snr\n0,5\n\n1,weak\n", "line 4: \"weak\" is not an SNR in dB"),
        ("time,snr\n0,nan\n", "line 2: \"nan\" is not an SNR in dB"),
        ("time,snr\n0,inf\n", "line 2: no radio measures an SNR of inf dB (-50 to 120)"),
        ("time,snr\nnoon,5\n", "line 2: \"noon\" is no time: neither seconds nor a date"),
        ("time,snr\n2025-13-01 00:00:00,5\n", "line 2: \"2025-13-01 00:00:00\" is no time"),
        ("time,snr\n1,5\n1,6\n", "line 3: the time is not after that of the row before"),
        ("time,snr\n2,5\n1,6\n", "line 3: the time is not after that of the row before"),
        ("time,snr\n0,5\n61,6\n", "line 3: there is a gap of 61s before this row"),
    ] {
        let said = refused(text);
        assert!(said.starts_with(told), "{text:?}: {said}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "(time,snr\n)?[0-9a-z,.:\" \n-]{0,200}") {
        let _ = SnrTrace::parse(&text, COLUMNS);
    }

    #[test]
    fn the_snr_stays_between_its_rows(rows in prop::collection::vec((1u64..60_000, -40i32..100), 2..40), at in 0u64..1_000_000_000_000, entered in 0u64..1_000_000_000_000) {
        let mut now = 0;
        let mut text = "time,snr\n".to_owned();
        for (step, db) in &rows {
            now += step;
            text += &format!("{}.{:03},{db}\n", now / 1000, now % 1000);
        }
        let trace = parsed(&text);
        let (least, most) = trace.range_db();
        let db = trace.db_at(Instant::from_nanos(at), Duration::from_nanos(entered));
        prop_assert!(least - 1e-9 <= db && db <= most + 1e-9);
    }
}
