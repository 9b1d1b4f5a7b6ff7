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

#[test]
fn a_file_that_cannot_be_played_is_refused_with_its_line() {
    for (text, told) in [
        ("", "line 1: there is no column `time`; there are "),
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
