use proptest::prelude::*;

use super::*;

const GOOD: &str = "\
# two bands of two channels
<1, 1, 2000000, 1e-12>
<2, 1, 1000000, 0>
1 2 1500000 2e-12
2, 2, 1000000, 4e-12
interval 0.5
<1, 1, 5e-12>
<2, 2, 6e-12>
<1, 1, 7e-12>
<2, 2, 8e-12>
";

#[test]
fn capacities_and_noise_over_time_are_read() {
    let log = ChannelLog::parse(GOOD.as_bytes()).unwrap();
    assert_eq!(log.bands(), Bands::new(2, 2).unwrap());
    let rates: Vec<u64> = (0..5).map(|channel| log.bandwidth(channel).as_bps()).collect();
    assert_eq!(rates, [2_000_000, 1_500_000, 1_000_000, 1_000_000, 0]);
    for (millis, noise) in
        [(0, 5e-12), (499, 5e-12), (500, 7e-12), (999, 7e-12), (1000, 1e-12), (90_000, 1e-12)]
    {
        assert_eq!(log.noise(0, Instant::from_millis(millis)), noise, "{millis} ms");
    }
    assert_eq!(log.noise(3, Instant::from_millis(600)), 8e-12);
    assert_eq!(log.noise(1, Instant::from_millis(600)), 2e-12, "a channel without values has its average");
    assert_eq!((log.noise(9, Instant::ZERO), log.mean_noise(3)), (0.0, 4e-12));
    let changes: Vec<_> =
        [0, 499, 500, 999, 1000].map(|millis| log.next_change(Instant::from_millis(millis))).into();
    let at = |millis| Some(Instant::from_millis(millis));
    assert_eq!(changes, [at(500), at(500), at(1000), at(1000), None]);
    assert_eq!(ChannelLog::parse(b"1 1 1e6 0").unwrap().next_change(Instant::ZERO), None);
}

#[test]
fn equation_5_alternates_around_gamma() {
    let bands = Bands::new(5, 1).unwrap();
    let log = ChannelLog::heterogeneous(bands, BitRate::from_mbps(1), 1.6, 1e-12).unwrap();
    let rates: Vec<u64> = (0..5).map(|channel| log.bandwidth(channel).as_bps()).collect();
    assert_eq!(rates, [1_800_000, 200_000, 1_800_000, 200_000, 1_800_000]);
    assert_eq!(log.noise(4, Instant::from_millis(5)), 1e-12);
    let same = ChannelLog::heterogeneous(bands, BitRate::from_mbps(1), 0.0, 0.0).unwrap();
    assert!((0..5).all(|channel| same.bandwidth(channel) == BitRate::from_mbps(1)));
    for (gamma, m, noise) in
        [(1, 2.0, 0.0), (1, -0.1, 0.0), (1, f64::NAN, 0.0), (0, 0.2, 0.0), (1, 0.2, -1.0)]
    {
        assert!(
            ChannelLog::heterogeneous(bands, BitRate::from_mbps(gamma), m, noise).is_err(),
            "{gamma} {m}"
        );
    }
    assert_eq!(ChannelLog::parse(log.to_string().as_bytes()), Ok(log));
}

#[test]
fn each_kind_of_bad_log_is_named_with_its_line() {
    for (text, line, told) in [
        ("", 1, "no channel"),
        ("interval 1\n", 1, "no channel"),
        ("1 1 1e6\n", 1, "needs a line `interval SECONDS`"),
        ("1 1 1e6 0 0\n", 1, "5 fields"),
        ("1\n", 1, "1 field means nothing"),
        ("0 1 1e6 0\n", 1, "spectrum \"0\" is not"),
        ("1 0 1e6 0\n", 1, "id \"0\" is not"),
        ("1 1 0 0\n", 1, "bandwidth \"0\" is not"),
        ("1 1 nan 0\n", 1, "bandwidth \"nan\" is not"),
        ("1 1 1e6 -1\n", 1, "noise \"-1\" is not"),
        ("1 1 1e6 inf\n", 1, "noise \"inf\" is not"),
        ("1 1 1e6 0\n1 2 1e6 0\n1 1 2e6 0\n", 3, "channel 1 of band 1 is described twice, first in line 1"),
        (
            "1 1 1e6 0\n1 1 1e6 0\n\ninterval 1\n",
            2,
            "channel 1 of band 1 is described twice, first in line 1",
        ),
        ("1 1 1e6 0\n1 3 1e6 0\n", 3, "channel 2 of band 1 is not described"),
        ("1 1 1e6 0\n1 2 1e6 0\n2 1 1e6 0", 3, "channel 2 of band 2 is not described"),
        ("2 1 1e6 0\ninterval 1\n", 2, "channel 1 of band 1 is not described"),
        ("1 1 1e6 0\ninterval 0\n", 2, "interval \"0\" is not a time above"),
        ("1 1 1e6 0\ninterval -1\n", 2, "interval \"-1\" is not a time"),
        ("1 1 1e6 0\ninterval 1\ninterval 1\n", 3, "a second interval"),
        ("1 1 1e6 0\ninterval 1\n1 2 1e6 0\n", 3, "all channels come first"),
        ("1 1 1e6 0\ninterval 1\n1 2 0\n", 3, "no channel 2 of band 1"),
        ("1 1 1e6 0\n1 2 1e6 0\ninterval 1\n1 1 0\n1 1 0\n1 2 0", 6, "has 1 noise values and another one 2"),
    ] {
        let error = ChannelLog::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error.line, line, "{text:?}: {error}");
        assert!(error.to_string().contains(told), "{text:?}: {error}");
    }
    let error = ChannelLogError { line: 8, kind: ChannelLogErrorKind::TooLong };
    assert_eq!(ChannelLog::parse_bounded(GOOD.as_bytes(), 1), Err(error));
}

proptest! {
    #[test]
    fn a_log_that_is_written_is_read_again(
        bands in 1_u16..4, per_band in 1_u16..4, values in 0_usize..5, seed: u64,
        interval in 1_u64..5_000_000_000,
    ) {
        let bands = Bands::new(bands, per_band).unwrap();
        let mut stream = crate::rng::Stream::new(seed, "test", 0);
        let channels = (0..bands.channels()).map(|channel| Entry {
            bandwidth: BitRate(1 + stream.bits() % 1_000_000_000),
            noise: stream.unit() * 1e-9,
            over_time: (0..if channel % 3 == 1 { 0 } else { values }).map(|_| stream.unit()).collect(),
        });
        let channels: Box<[Entry]> = channels.collect();
        let interval = if values == 0 { Duration::ZERO } else { Duration::from_nanos(interval) };
        let log = ChannelLog { bands, channels, interval };
        prop_assert_eq!(ChannelLog::parse(log.to_string().as_bytes()), Ok(log));
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = ChannelLog::parse(&bytes);
    }

    #[test]
    fn nothing_that_looks_like_a_log_makes_the_parser_panic(text in "((interval )?[-0-9.,<>e ]{0,16}\n){0,12}") {
        let _ = ChannelLog::parse(text.as_bytes());
    }
}
