use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

const GOOD: &str = "# a comment\n<1, 100, 250.5, 3, 0.2818>\r\n2 -5 0 1 1e-3\n\n<1, 0, 1.5>\n2, 3, 4 # and another\n<1, 1.5, 2>";

#[test]
fn the_papers_tuples_and_a_shell_scripts_columns_are_read() {
    let log = PuLog::parse(GOOD.as_bytes(), None).unwrap();
    let band = |number| Band::new(number).unwrap();
    assert_eq!(
        log.users(),
        [
            User { id: 1, x: 100.0, y: 250.5, band: band(3), power: 0.2818 },
            User { id: 2, x: -5.0, y: 0.0, band: band(1), power: 1e-3 },
        ]
    );
    assert_eq!((log.bands(), log.bursts()), (3, 3));
    assert_eq!(PuLog::parse(GOOD.as_bytes(), Some(5)).unwrap().bands(), 5);
    let second = Instant::from_secs_f64;
    assert_eq!(
        log.bursts_of(0).collect::<Vec<_>>(),
        [(second(0.0), second(1.5)), (second(1.5), second(2.0))]
    );
}

#[test]
fn each_kind_of_bad_log_is_named_with_its_line() {
    let user = "1 0 0 1 1\n";
    for (text, bands, line, told) in [
        ("", None, 1, "no PU"),
        ("# nothing\n\n", None, 3, "no PU"),
        ("1 0 0 1\n", None, 1, "4 fields"),
        ("x 0 0 1 1\n", None, 1, "i \"x\" is not"),
        ("-1 0 0 1 1\n", None, 1, "i \"-1\" is not"),
        ("4294967296 0 0 1 1\n", None, 1, "below 2^32"),
        ("1 nan 0 1 1\n", None, 1, "x \"nan\" is not a place"),
        ("1 0 inf 1 1\n", None, 1, "y \"inf\" is not a place"),
        ("1 0 0 0 1\n", None, 1, "spectrum \"0\" is not"),
        ("1 0 0 1025 1\n", None, 1, "spectrum \"1025\" is not"),
        ("1 0 0 1.5 1\n", None, 1, "spectrum \"1.5\" is not"),
        ("1 0 0 6 1\n", Some(5), 1, "no band 6; the bands are 1 to 5"),
        ("1 0 0 1 0\n", None, 1, "tpower \"0\" is not a power"),
        ("1 0 0 1 -3\n", None, 1, "tpower \"-3\" is not"),
        ("1 0 0 1 NaN\n", None, 1, "tpower \"NaN\" is not"),
        ("1 0 0 1 1\n2 0 0 1 1\n1 5 5 1 1\n", None, 3, "PU 1 is described twice, first in line 1"),
        ("1 0 0 1 1\n<1, 2, 3\n", None, 2, "`<` and `>`"),
        ("1 0 0 1 1\n1 2 3\n2 0 0 1 1\n", None, 3, "all PUs come first"),
    ] {
        let error = PuLog::parse(text.as_bytes(), bands).unwrap_err();
        assert_eq!(error.line, line, "{text:?}: {error}");
        assert!(error.to_string().contains(told), "{text:?}: {error}");
    }
    for (burst, told) in [
        ("2 0 1", "there is no PU 2"),
        ("1 5 4", "not after the arrival"),
        ("1 5 5", "not after the arrival"),
        ("1 -1 4", "arrival \"-1\" is not a time"),
        ("1 nan 4", "arrival \"nan\" is not a time"),
        ("1 0 inf", "departure \"inf\" is not a time"),
        ("1 0 1e10", "departure \"1e10\" is not a time"),
    ] {
        let error = PuLog::parse(format!("{user}\n{burst}\n").as_bytes(), None).unwrap_err();
        assert_eq!(error.line, 3, "{burst}: {error}");
        assert!(error.to_string().contains(told), "{burst}: {error}");
    }
    let overlap = PuLog::parse(b"1 0 0 1 1\n1 4 6\n1 0 2\n1 5 9\n", None).unwrap_err();
    assert_eq!(
        overlap.to_string(),
        "line 4: the burst overlaps that of line 2; bursts of one PU (here 1) follow each other"
    );
    assert_eq!(
        PuLog::parse(b"1 0 0 1 1\n\xff\n", None).unwrap_err().to_string(),
        "line 2: this is not text (UTF-8)"
    );
}

#[test]
fn a_log_that_is_too_long_is_refused_at_the_first_line_too_many() {
    let text = b"1 0 0 1 1\n2 0 0 1 1\n1 0 1\n2 0 1\n2 2 3\n";
    assert!(PuLog::parse_bounded(text, None, 2, 3).is_ok());
    let error = |line| Err(PuLogError { line, kind: PuLogErrorKind::TooLong });
    assert_eq!(PuLog::parse_bounded(text, None, 1, 3), error(2));
    assert_eq!(PuLog::parse_bounded(text, None, 2, 2), error(5));
}

#[test]
fn a_thousand_users_with_a_hundred_bursts_each_are_read() {
    let mut text = String::new();
    for id in 0..1000 {
        writeln!(text, "<{id}, {}, {}, {}, 0.5>", id % 32, id / 32, id % 5 + 1).unwrap();
    }
    // By time, not by user, so that the sorting has work to do.
    for index in 0..100 {
        for id in 0..1000 {
            let start = f64::from(index) + f64::from(id) / 2000.0;
            writeln!(text, "<{id}, {start}, {}>", start + 0.25).unwrap();
        }
    }
    let log = PuLog::parse(text.as_bytes(), Some(5)).unwrap();
    assert_eq!((log.users().len(), log.bursts()), (1000, 100_000));
    // At 50.3 s, those are on that began between 50.05 s and 50.3 s: users 101 to 600, a fifth of them on
    // band 2.
    let mut count = 0;
    let at = Instant::from_secs_f64(50.3);
    log.for_each_on(Band::new(2).unwrap(), at, at, |_, _, _| count += 1);
    assert_eq!(count, 100);
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = PuLog::parse(&bytes, None);
    }

    #[test]
    fn nothing_that_looks_like_a_log_makes_the_parser_panic(text in "([-0-9.,<>e# ]{0,24}\n){0,12}", bands in 0_u16..9) {
        let _ = PuLog::parse(text.as_bytes(), Some(bands));
    }
}
