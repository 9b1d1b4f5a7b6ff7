//! Whether the parameters of each standard fit together, and what is refused.

use super::*;

const US: fn(u64) -> Duration = Duration::from_micros;
const UPLINK: BitRate = BitRate::from_mbps(4);

#[test]
fn the_parameters_of_each_standard_fit_together() {
    for standard in [Standard::Ieee80216, Standard::Docsis, Standard::FiveG] {
        assert_eq!(GrantsConfig::of(standard).check(50, UPLINK), Ok(()), "{standard:?}");
    }
    for us in FRAMES_802_16 {
        let config = GrantsConfig { frame: US(us), t3: US(8 * us), ..GrantsConfig::default() };
        assert_eq!(config.check(50, UPLINK), Ok(()), "{us} us");
    }
    for us in [500, 2500, 10_000] {
        let config = GrantsConfig { t3: US(10 * us), ..GrantsConfig::five_g(US(us), true) };
        assert_eq!(config.check(10, UPLINK), Ok(()), "{us} us");
    }
}

#[test]
fn a_wibro_frame_has_the_symbols_that_it_should() {
    let layout = GrantsConfig::default().layout();
    // 27 and 15 symbols of 115.2 us, to a symbol's tenth, since the share is a round number.
    assert!((layout.down_end.as_secs_f64() - 27.0 * 115.2e-6).abs() < 11e-6, "{}", layout.down_end);
    let up = layout.up_end.as_secs_f64() - layout.up_start.as_secs_f64();
    assert!((up - 15.0 * 115.2e-6).abs() < 11e-6, "{up}");
    assert_eq!(layout.up_end + Duration::from_nanos(40_400), US(5000));
    assert_eq!(layout.bursts, layout.up_start + Duration::from_nanos(345_600));
}

#[test]
fn the_access_takes_four_frames_and_the_implementation_four_more() {
    let at = |implementation_delay| GrantsConfig { implementation_delay, ..GrantsConfig::default() };
    // To the burst's frame; the burst itself is the fourth, or eighth.
    for (delay, first, second) in [(0, 2, 1), (4, 4, 3), (3, 4, 2)] {
        let config = at(delay);
        assert_eq!((config.first_answer(), config.second_answer()), (first, second), "{delay}");
    }
    assert_eq!((at(0).heard_ahead(), at(4).heard_ahead()), (0, 1));
    assert_eq!(GrantsConfig::of(Standard::Docsis).first_answer(), 3);
}

#[test]
fn what_does_not_fit_is_named() {
    let fine = GrantsConfig::default();
    let contention = |codes, backoff_start| {
        let (subchannels, slots, backoff) = (1, 3, Backoff::Standard);
        let backoff_end = 6;
        Requesting::Contention { codes, subchannels, slots, backoff, backoff_start, backoff_end }
    };
    let gaps = Duplexing::Tdd { downlink_share: Fraction::clamped(0.5), ttg: US(4000), rtg: US(1000) };
    let grants = |bytes| Some(Proactive { bytes: Bytes(bytes), period: 1 });
    let cases = [
        (
            GrantsConfig { frame: US(3000), ..fine },
            "802.16 has no frame of 3ms; it has 2, 2.5, 4, 5, 8, 10 and 12 ms",
        ),
        (GrantsConfig { requesting: contention(257, 0), ..fine }, "there are 256 codes, not 257"),
        (GrantsConfig { requesting: contention(0, 0), ..fine }, "codes is out of range"),
        (GrantsConfig { requesting: contention(1, 7), ..fine }, "backoff_start is out of range"),
        (GrantsConfig { duplexing: gaps, ..fine }, "the gaps of 5ms leave nothing of a frame of 5ms"),
        (GrantsConfig { maps: US(4000), ..fine }, "has no room beside its 4ms of maps"),
        (GrantsConfig { contention: US(4000), ..fine }, "has no room beside its 4ms of contention slots"),
        (
            GrantsConfig { proactive: grants(500), ..fine },
            "1000 B of grants do not fit into an uplink subframe of 690 B",
        ),
        (
            GrantsConfig { t3: US(19_000), implementation_delay: 8, ..fine },
            "is over before the answer, which comes after 30ms",
        ),
        (GrantsConfig { success: Fraction::ZERO, ..fine }, "success is out of range"),
        (GrantsConfig { assignment: 0, implementation_delay: 0, ..fine }, "the least is 1"),
        (
            GrantsConfig { frame: US(700), ..GrantsConfig::of(Standard::FiveG) },
            "5g has no frame of 700us; it has slots of",
        ),
    ];
    for (config, message) in cases {
        let told = config.check(2, UPLINK).expect_err(message).to_string();
        assert!(told.contains(message), "{message}: {told}");
    }
}
