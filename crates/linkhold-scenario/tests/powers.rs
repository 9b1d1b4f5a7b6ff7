//! `[radio.power]`: the powers that the project's scenarios state are those of their source.

use std::path::{Path, PathBuf};

use linkhold_scenario::Scenario;

/// Feeney and Nilsson, *Investigating the Energy Consumption of a Wireless Network Interface in an Ad Hoc
/// Networking Environment*, IEEE INFOCOM 2001, table 1, Lucent WaveLAN of 11 Mbit/s, mW: sending, receiving,
/// idle.
///
/// The table's currents of 284, 190 and 156 mA at 4.74 V are 1346.16, 900.60 and 739.44 mW, so the first
/// number is cut and not rounded.
const PRINTED_MW: [f64; 3] = [1346.1, 900.6, 739.4];
/// One step of the last digit that is printed, mW.
const LAST_DIGIT: f64 = 0.1;

/// The scenarios below a folder.
fn scenarios_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("part of the project") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(scenarios_below(&path));
        } else if path.extension().is_some_and(|end| end == "toml") && !path.ends_with("paper.toml") {
            found.push(path);
        }
    }
    found
}

#[test]
fn stated_powers_are_those_that_the_source_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut checked = Vec::new();
    let folders = ["scenarios", "reproductions/activation"];
    for path in folders.iter().flat_map(|folder| scenarios_below(&root.join(folder))) {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(&path).expect("a text");
        // What needs a recording that is not part of the project states none.
        let needs_a_recording = text.contains("${LINKHOLD_DATA}");
        assert!(!(needs_a_recording && text.contains("power = {")), "{file} is not checked here");
        if needs_a_recording {
            continue;
        }
        let scenario = Scenario::from_toml(&text, &file, &[]);
        let scenario = scenario.unwrap_or_else(|error| panic!("{file}: {error}"));
        for case in scenario.cases() {
            let Some(power) = case.scenario.radio.power else { continue };
            let watts = [power.transmit, power.receive, power.idle];
            for (watts, printed) in watts.into_iter().zip(PRINTED_MW) {
                let off = (1e3 * watts - printed).abs();
                assert!(off <= LAST_DIGIT / 2.0, "{file}: {watts} W, and {printed} mW is printed");
            }
            checked.push(file.clone());
        }
    }
    checked.dedup();
    // The walk, and the five figures of `activation`.
    assert_eq!(checked.len(), 6, "{checked:?}");
}
