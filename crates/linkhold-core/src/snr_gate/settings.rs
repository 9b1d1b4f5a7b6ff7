//! The SNR gate as the registry knows it: its presets, its settings with their names in files, and how it is
//! built.

use super::samples::{FEWEST, MOST};
use super::{Closed, Rule, SnrGate, SnrGateConfig};
use crate::mechanism::{Mechanism, Place};
use crate::quantity::ValueError;
use crate::settings::{
    Decibels, Hint, Positive, Preset, Registered, Setting, SettingsError, Surroundings, Whole, settings,
    words,
};
use crate::time::Duration;
use crate::units::Fraction;

impl Registered for SnrGateConfig {
    const NAME: &'static str = "snr-gate";
    const SUMMARY: &'static str =
        "SNR gate: closes the windows of its own host's senders while the signal is bad.";
    const PLACES: &'static [Place] = &[Place::Stations];

    const PRESETS: &'static [Preset<Self>] = &[
        Preset {
            name: "recommended",
            doc: "The rule of the paper, on single samples: it costs least where no rule helps.",
            make: Self::default,
        },
        Preset {
            name: "paper",
            doc: "The rule of the paper at 5 dB, and its zero windows.",
            make: Self::paper,
        },
        Preset { name: "hysteresis", doc: "A threshold with a margin.", make: Self::hysteresis },
        Preset { name: "adaptive", doc: "A threshold that follows what gets lost.", make: Self::adaptive },
    ];

    const SETTINGS: &'static [Setting<Self>] = settings!(SnrGateConfig {
        /// Which decision process runs.
        rule: Rule => rule;
        /// SNR below which sending stops; with rule = "adaptive" the one to start from.
        threshold: Decibels => threshold;
        /// rule = "hysteresis" and "adaptive": how far above the threshold the signal must be to send again.
        margin: Decibels => margin;
        /// Samples whose mean is compared with the threshold.
        averaged: Whole<u32, 1, 64> => averaged;
        /// rule = "threshold": time over which the SNR's change is measured to tell whether the host moves.
        window: Positive<Duration> => window;
        /// rule = "threshold": change of the SNR in `window` from which on the host counts as moving.
        noticeable: Decibels => noticeable;
        /// rule = "adaptive": share of segments sent again above which a signal is too weak.
        target_loss: Positive<Fraction> => target_loss;
        /// rule = "adaptive": the lowest threshold.
        least: Decibels => least;
        /// rule = "adaptive": the highest threshold.
        most: Decibels => most;
        /// The window behind a shut gate.
        closed: Closed => closed;
        /// A gate that stood shut this long opens.
        max_gate: Positive<Duration> => max_gate;
        /// A shut gate that has heard no sample for this long opens.
        lost_signal: Positive<Duration> => lost_signal;
        /// Most connections known.
        max_flows: Whole<u32, 1, 65_536> => max_flows;
    });

    fn validate(&self) -> Result<(), SettingsError> {
        let wrong =
            |keys, what: String, right| Err(SettingsError { keys, error: ValueError::new(what, right) });
        if self.margin < 0.0 {
            return wrong(
                vec!["margin"],
                format!("a margin of {} dB is negative", self.margin),
                "write 0dB or more",
            );
        }
        if self.noticeable < 0.0 {
            let what = format!("a change of {} dB is no size", self.noticeable);
            return wrong(vec!["noticeable"], what, "write 0dB or more");
        }
        if self.least > self.most {
            let what = format!("least ({} dB) is above most ({} dB)", self.least, self.most);
            return wrong(vec!["least", "most"], what, "make least at most as high as most");
        }
        Ok(())
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Mechanism>, SettingsError> {
        self.validate()?;
        Ok(Box::new(SnrGate::new(&Self { flow_seed: seed, ..*self })))
    }

    fn hint(&self, around: &Surroundings<'_>) -> Option<Hint> {
        let (gate, Self { threshold, max_gate, .. }) = (Self::NAME, self);
        match around {
            Surroundings::Case { highest_snr: None, .. } => Some(Hint {
                key: None,
                what: format!("{gate} hears no SNR on this radio"),
                instead: "write [radio.snr]".to_owned(),
            }),
            Surroundings::Case { highest_snr: Some(most), .. } if threshold >= most => Some(Hint {
                key: Some("threshold"),
                what: format!(
                    "{gate}'s threshold of {threshold} dB is above every SNR of the trace (at most {most} dB)"
                ),
                instead: format!(
                    "once shut it opens only after max_gate ({max_gate}), or by an error of the samples"
                ),
            }),
            Surroundings::Case { snr_every: every, .. } | Surroundings::Host { snr_every: Some(every) } => {
                self.too_rare(*every)
            }
            Surroundings::Host { snr_every: None } => None,
        }
    }
}

impl SnrGateConfig {
    /// What samples so far apart make pointless.
    fn too_rare(&self, every: Duration) -> Option<Hint> {
        let (gate, Self { rule, window, lost_signal, .. }) = (Self::NAME, self);
        let hint = |key, what, instead| Some(Hint { key: Some(key), what, instead });
        let needed = every * (FEWEST as u32 - 1);
        if *rule == Rule::Threshold && needed >= *window {
            let what = format!(
                "{gate} tells motion by {FEWEST} samples in {window}, but one comes every {every}: it never shuts"
            );
            return hint("window", what, format!("write window = \"{}\" or more", every * FEWEST as u32));
        }
        if every >= *lost_signal {
            let what = format!(
                "{gate} takes the signal for lost {lost_signal} after a sample, and one comes every {every}"
            );
            return hint("lost_signal", what, format!("write lost_signal = \"{}\" or more", every * 3));
        }
        let kept = every * MOST as u32;
        if *rule == Rule::Threshold && *window > kept {
            let what =
                format!("{gate} keeps {MOST} samples, which come every {every}: motion is told in {kept}");
            return hint("window", what, format!("write window = \"{kept}\" or less"));
        }
        None
    }
}

words!(Rule {
    "threshold" => Threshold, "The paper's: stop if the signal falls and is below the threshold, send above it.";
    "hysteresis" => Hysteresis, "Stop below the threshold whoever moves, send from a margin above it.";
    "adaptive" => Adaptive, "Hysteresis, with a threshold that follows what gets lost.";
});

words!(Closed {
    "full" => Full, "It ends with what was sent; zero where nothing is under way or a SYN was not seen.";
    "zero" => Zero, "The paper's. Behind it Linux reduces ssthresh at each timeout.";
});
