//! `told`: what each source of silences tells, as the file says it.

use linkhold_core::packet::StationId;
use linkhold_core::time::Duration;
use linkhold_core::units::Fraction;
use linkhold_radio::{SignalsConfig, ToldConfig};
use linkhold_scenario::{NoFiles, Scenario};

const HEAD: &str = "schema = \"linkhold.scenario/1\"\nname = \"told\"\nduration = \"20s\"\n[[flows]]\ndirection = \"downlink\"\n";
const MS: fn(u64) -> Duration = Duration::from_millis;

fn parse(radio: &str, overrides: &[String]) -> Result<Scenario, String> {
    let text = format!("{HEAD}[radio]\nstations = 2\n{radio}");
    Scenario::parse(&text, "s.toml", overrides, &NoFiles).map_err(|error| error.to_string())
}

fn signals(radio: &str) -> SignalsConfig {
    parse(radio, &[]).expect("the file is right").cases()[0].scenario.radio.signals.clone()
}

fn refused(radio: &str) -> String {
    parse(radio, &[]).expect_err("the file is wrong")
}

const CELL: &str = "phy_rate = \"24Mbit/s\"\n";
/// Silences as the radio notices them, and nothing more of them.
const BARE: ToldConfig = ToldConfig { start_known: false, length_known: false, ..ToldConfig::EXACT };
const USER: &str = "on_mean = \"300ms\"\noff_mean = \"1200ms\"\n";

#[test]
fn without_a_word_a_burst_is_noticed_late_and_all_is_told_as_it_is_noticed() {
    let text = format!("{CELL}[radio.primary_user]\n{USER}");
    let scenario = parse(&text, &[]).expect("the file is right");
    let user = scenario.cases()[0].scenario.radio.channels[0].primary_user.expect("there is one");
    assert_eq!((user.detection_delay, user.end_detection_delay), (MS(20), Duration::ZERO));
    let told = signals(&text);
    assert_eq!(told.users, [BARE]);
    assert_eq!(told.switching, BARE);
    assert!(told.of_user(0).is_exact() && told.sensing.is_exact());
}

/// Quiet periods over a trace are told as anywhere; only its gaps are noticed by their length first.
#[test]
fn the_summary_of_a_trace_counts_nothing_from_a_gap_but_the_gap() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("down"), "1\n2\n500\n").expect("written");
    let path = folder.path().join("s.toml");
    let told = |more: &str| {
        let trace = "mac = \"trace\"\n[radio.trace]\ndown = \"down\"\ndetection_delay = \"20ms\"\n";
        let text = format!(
            "{HEAD}[radio]\nstations = 2\n{trace}{more}[[cases]]\nname = \"d\"\nmechanism = \"dsasync\"\n"
        );
        std::fs::write(&path, text).expect("written");
        let scenario = Scenario::load(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
        let facts = scenario.facts();
        facts.into_iter().find(|(label, _)| label == "told").expect("a mechanism is told").1
    };
    let gaps = "20ms after it begins, its end 20ms late";
    assert_eq!(told(""), format!("a silence {gaps}; nobody tells the rate"));
    let sensing = "[radio.sensing]\nperiod = \"500ms\"\nduration = \"25ms\"\n";
    let quiet = told(&format!("{sensing}told = {{ late = \"5ms\" }}\n"));
    let wanted = format!("a gap of the trace {gaps}; quiet periods ahead, quiet periods 5ms late");
    assert!(quiet.starts_with(&wanted), "{quiet}");
    assert!(!quiet.contains("counted from then"), "{quiet}");
}

#[test]
fn each_source_has_its_own_table_and_takes_from_the_common_one_what_it_leaves_out() {
    let told = signals(&format!(
        "{CELL}switches = [{{ at = \"3s\", to_channel = 0 }}]\n\
         [radio.told]\nlate = \"20ms\"\nend_late = \"2ms\"\nlate_spread = \"5ms\"\nstart_known = false\nmissed = 0.01\nfalse_alarms = \"1/min\"\n\
         [radio.primary_user]\n{USER}told = {{ late = \"40ms\", false_length = \"250ms\" }}\n\
         [radio.sensing]\nperiod = \"500ms\"\nduration = \"25ms\"\ntold = {{ missed = 0, false_alarms = \"off\" }}\n\
         [[radio.station_sensing]]\nstation = 1\nperiod = \"500ms\"\nduration = \"25ms\"\ntold.end_late = \"9ms\"\n\
         [radio.switching.told]\nlate = \"0s\"\nend_late_spread = \"7ms\"\nstart_known = true\n"
    ));
    let common = ToldConfig {
        late: MS(20),
        end_late: MS(2),
        late_spread: MS(5),
        end_late_spread: MS(0),
        start_known: false,
        length_known: false,
        missed: Fraction::clamped(0.01),
        false_per_minute: 1.0,
        false_length: MS(100),
    };
    assert_eq!(told.users, [ToldConfig { late: MS(40), false_length: MS(250), ..common }]);
    // Their schedules are announced.
    let announced = ToldConfig { length_known: true, ..common };
    assert_eq!(told.sensing, ToldConfig { missed: Fraction::ZERO, false_per_minute: 0.0, ..announced });
    assert_eq!(told.station_sensing, [(StationId(1), ToldConfig { end_late: MS(9), ..announced })]);
    assert_eq!(
        told.switching,
        ToldConfig { late: MS(0), end_late_spread: MS(7), start_known: true, ..common }
    );
}

#[test]
fn how_long_a_silence_will_be_is_told_where_its_schedule_is_or_a_key_says_so() {
    let sensing = "[radio.sensing]\nperiod = \"500ms\"\nduration = \"25ms\"\n";
    let known = |more: &str| {
        let told = signals(&format!("{CELL}switches = [{{ at = \"3s\", to_channel = 0 }}]\n{sensing}{more}"));
        (told.sensing.length_known, told.switching.length_known)
    };
    assert_eq!(known(""), (true, false));
    assert_eq!(known("announced = false\n"), (false, false));
    assert_eq!(known("told.length_known = false\n"), (false, false));
    assert_eq!(known("announced = false\n[radio.told]\nlength_known = true\n"), (true, true));
    assert_eq!(known("[radio.switching.told]\nlength_known = true\n"), (true, true));
    let summary = |more: &str| {
        let text = format!("{CELL}{sensing}{more}[[cases]]\nname = \"x\"\nmechanism = \"dsasync\"\n");
        parse(&text, &[]).expect("the file is right").summary()
    };
    for (more, told) in [
        ("", "quiet periods ahead, every other silence at its first moment"),
        ("announced = false\n", "  every silence at its first moment"),
        (
            "announced = false\ntold.length_known = true\n",
            "quiet periods as they begin, their end at once, with how long they will be",
        ),
        (
            "told.start_known = true\n",
            "quiet periods ahead, quiet periods as they begin, their end at once, each with its time",
        ),
    ] {
        assert!(summary(more).contains(told), "{told}\nin\n{}", summary(more));
    }
}

#[test]
fn common_false_silences_are_told_as_switches_only_where_the_radio_switches() {
    let rate = |radio: &str| signals(&format!("{CELL}{radio}")).switching.false_per_minute;
    let common = "[radio.told]\nfalse_alarms = \"60/min\"\n";
    let user = format!("[radio.primary_user]\n{USER}");
    let two = "channels = [{ phy_rate = \"24Mbit/s\", primary_user = { on_mean = \"300ms\", off_mean = \"1s\" } }, \
               { phy_rate = \"12Mbit/s\" }]\n";
    assert_eq!(rate(&format!("{common}{user}")), 0.0);
    assert_eq!(rate(&format!("{common}[radio.sensing]\nperiod = \"500ms\"\nduration = \"25ms\"\n")), 0.0);
    let leaving = signals(&format!("{two}switch_policy = \"on-primary-user\"\n{common}"));
    assert_eq!(leaving.switching.false_per_minute, 60.0);
    assert_eq!(rate(&format!("switches = [{{ at = \"3s\", to_channel = 0 }}]\n{common}{user}")), 60.0);
    assert_eq!(rate(&format!("{user}[radio.switching.told]\nfalse_alarms = \"1/s\"\n")), 60.0);
    // They are told as something where nothing else can silence the radio.
    assert_eq!(rate(common), 60.0);
}

#[test]
fn every_channels_user_has_its_own() {
    let told = signals(
        "channels = [{ phy_rate = \"24Mbit/s\", primary_user = { on_mean = \"1s\", off_mean = \"1s\", told = { late = \"5ms\" } } }, \
         { phy_rate = \"12Mbit/s\" }]\n",
    );
    assert_eq!(
        (told.of_user(0).late, told.of_user(1), told.of_user(7)),
        (MS(5), ToldConfig::EXACT, ToldConfig::EXACT)
    );
}

#[test]
fn a_case_may_be_told_otherwise_and_the_summary_says_what_each_is_told() {
    let text = format!(
        "{CELL}[radio.primary_user]\n{USER}detection_delay = \"20ms\"\n[radio.told]\nlate = \"5ms\"\nmissed = 0.02\nfalse_alarms = \"2/min\"\n\
         [[cases]]\nname = \"late\"\nmechanism = \"dsasync\"\n\
         [[cases]]\nname = \"oracle\"\nmechanism = \"dsasync\"\n\
         set = {{ \"radio.rate_told\" = true, \"radio.told\" = {{ late = \"0s\", missed = 0, false_alarms = \"off\" }}, \"radio.primary_user.detection_delay\" = \"0s\" }}\n"
    );
    let scenario = parse(&text, &[]).expect("the file is right");
    assert!(scenario.cases()[1].scenario.radio.signals.of_user(0).is_exact());
    let summary = scenario.summary();
    for part in [
        "a primary user 20ms after its burst begins, its end at once, and from then 5ms late, their end at once, 2 % \
         not at all, and 2 false ones of 100ms a minute",
        "case oracle: every silence at its first moment, and the channel's exact rate",
    ] {
        assert!(summary.contains(part), "{part}\nin\n{summary}");
    }
    let text = format!(
        "{CELL}[radio.primary_user]\n{USER}detection_delay = \"20ms\"\n[radio.told]\nstart_known = true\n\
         [[cases]]\nname = \"known\"\nmechanism = \"dsasync\"\n"
    );
    let summary = parse(&text, &[]).expect("the file is right").summary();
    let part = "a primary user 20ms after its burst begins, its end at once, each with its time; nobody tells the \
                rate\n";
    assert!(summary.contains(part), "{part}\nin\n{summary}");
    // Of each station what its own table says, in whatever order the file has them.
    let own = |station, announced, late| {
        format!(
            "[[radio.station_sensing]]\nstation = {station}\nperiod = \"500ms\"\nduration = \"25ms\"\nannounced = \
             {announced}\ntold.late = \"{late}\"\n"
        )
    };
    let case = "[[cases]]\nname = \"x\"\nmechanism = \"dsasync\"\n";
    let text = format!("{CELL}{}{}{case}", own(1, true, "3ms"), own(0, false, "7ms"));
    let summary = parse(&text, &[]).expect("the file is right").summary();
    let (known, unknown) =
        ("stations' quiet periods 3ms late, their end at once", "stations' quiet periods 7ms late");
    assert!(summary.contains(known) && summary.contains(unknown), "{summary}");
    assert!(!summary.contains("with how long"), "{summary}");
}

#[test]
fn what_is_wrong_or_does_nothing_is_named_with_what_would_be_right() {
    for (radio, message) in [
        (format!("{CELL}[radio.told]\nlate = \"soon\"\n"), "radio.told.late: \"soon\""),
        (format!("{CELL}[radio.told]\nearly = \"1s\"\n"), "radio.told.early"),
        (format!("{CELL}[radio.told]\nmissed = 1.5\n"), "radio.told.missed"),
        (
            format!("{CELL}[radio.told]\nfalse_length = \"1s\"\n"),
            "radio.told.false_length: does nothing without false silences; write radio.told.false_alarms, or remove it",
        ),
        (
            format!("{CELL}[radio.told]\nfalse_alarms = \"off\"\nfalse_length = \"1s\"\n"),
            "radio.told.false_length: does nothing without false silences; write radio.told.false_alarms, or remove it",
        ),
        (
            format!("{CELL}[radio.told]\nfalse_alarms = \"0/s\"\n"),
            "radio.told.false_alarms: \"0/s\" is never; write a rate above 0, or \"off\" where the key knows it",
        ),
        (
            format!("{CELL}[radio.primary_user]\n{USER}told = {{ false_length = \"1s\" }}\n"),
            "radio.primary_user.told.false_length: does nothing without false silences; write false_alarms, or remove it",
        ),
        (
            format!("{CELL}[radio.primary_user]\n{USER}told = {{ false_alarms = \"101/s\" }}\n"),
            "radio.primary_user.told.false_alarms: too many false silences; write at most 100/s",
        ),
        (
            format!("mac = \"802.15.4\"\n[radio.primary_user]\n{USER}told = {{ late = \"1ms\" }}\n"),
            "radio.primary_user.told.late: does nothing with mac = \"802.15.4\"; write radio.primary_user.overhear",
        ),
        (
            "mac = \"802.15.4\"\n[radio.told]\nmissed = 0.1\n".to_owned(),
            "radio.told.missed: does nothing with mac = \"802.15.4\"",
        ),
        (
            format!("{CELL}[radio.told]\nlate = \"1ms\"\n"),
            "radio.told.late: does nothing without silences; write radio.primary_user or radio.sensing, or remove it",
        ),
        (
            format!("{CELL}[radio.told]\nend_late = \"1ms\"\n"),
            "radio.told.end_late: does nothing without silences",
        ),
        (
            format!("{CELL}[radio.told]\nlate_spread = \"1ms\"\n"),
            "radio.told.late_spread: does nothing without silences",
        ),
        (format!("{CELL}[radio.told]\nmissed = 0.5\n"), "radio.told.missed: does nothing without silences"),
        (
            format!("{CELL}[radio.told]\nstart_known = false\n"),
            "radio.told.start_known: does nothing without silences",
        ),
        (
            format!("{CELL}switching_delay = \"30ms\"\n"),
            "radio.switching_delay: does nothing with one channel and no switches; write [[radio.channels]], or remove it",
        ),
        (
            format!("{CELL}switch_policy = \"on-primary-user\"\n[radio.primary_user]\n{USER}"),
            "radio.switch_policy: does nothing with one channel and no switches",
        ),
        (
            format!("{CELL}[radio.switching.told]\nlate = \"20ms\"\n[radio.primary_user]\n{USER}"),
            "radio.switching.told.late: does nothing with one channel and no switches",
        ),
    ] {
        let told = refused(&radio);
        assert!(told.contains(message), "{radio}\nshould tell: {message}\nbut told:    {told}");
    }
}

#[test]
fn what_does_something_somewhere_is_accepted() {
    let two = "channels = [{ phy_rate = \"24Mbit/s\" }, { phy_rate = \"12Mbit/s\" }]\n";
    for radio in [
        // A figure that stays on its channel keeps the delay of the one that switches.
        format!(
            "{two}switching_delay = \"30ms\"\nswitch_policy = \"scripted\"\n[radio.switching.told]\nlate = \"1ms\"\n"
        ),
        format!(
            "{CELL}switches = [{{ at = \"3s\", to_channel = 0 }}]\nswitching_delay = \"30ms\"\n[radio.told]\nlate = \"1ms\"\n"
        ),
        format!("{CELL}switch_policy = \"scripted\"\n"),
        format!("{CELL}[radio.told]\nfalse_alarms = \"1/s\"\nstart_known = false\n"),
        format!("{CELL}[radio.told]\nlate = \"1ms\"\n[radio.primary_user]\n{USER}"),
    ] {
        parse(&radio, &[]).unwrap_or_else(|error| panic!("{radio}: {error}"));
    }
}
