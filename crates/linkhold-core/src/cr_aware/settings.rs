//! CR-aware TCP as the registry knows it: its presets, its settings with their names in files, and how it is
//! built.

use super::{CrAware, CrAwareConfig, Trigger};
use crate::action::Resend;
use crate::mechanism::{Mechanism, Place};
use crate::settings::{
    Format, Hint, Positive, Preset, Registered, Setting, SettingsError, Surroundings, Whole, settings, words,
};
use crate::time::Duration;

impl Registered for CrAwareConfig {
    const NAME: &'static str = "cr-aware";
    const SUMMARY: &'static str =
        "CR-aware TCP: freezes the senders of its own host while the radio is silent.";
    const PLACES: &'static [Place] = &[Place::Stations, Place::Correspondent];
    const FREEZES_SENDERS: bool = true;
    const SILENCE_LIMIT: Option<&'static str> = Some("max_freeze");

    const PRESETS: &'static [Preset<Self>] = &[
        Preset { name: "recommended", doc: "Freezes in every silence.", make: Self::default },
        // The paper has no maximum: the radio alone ends a freeze. Two minutes stand for that.
        Preset {
            name: "paper",
            doc: "Freezes for a primary user only, until the radio tells that it has gone (for 2 minutes at most), \
                  and then sends all again that is not acknowledged.",
            make: || Self {
                trigger: Trigger::PrimaryUser,
                resend: Resend::All,
                max_freeze: Duration::from_secs(120),
                ..Self::default()
            },
        },
    ];

    const SETTINGS: &'static [Setting<Self>] = settings!(CrAwareConfig {
        /// Which silences freeze the senders.
        trigger: Trigger => trigger;
        /// What goes again at once when the senders thaw: its acknowledgment may be lost with the silence.
        resend: Resend => resend;
        /// A freeze that nobody ended after this long is over.
        max_freeze: Positive<Duration> => max_freeze;
        /// Most connections known.
        max_flows: Whole<u32, 1, 65_536> => max_flows;
    });

    fn validate(&self) -> Result<(), SettingsError> {
        Ok(())
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Mechanism>, SettingsError> {
        Ok(Box::new(CrAware::new(&Self { flow_seed: seed, ..*self })))
    }

    /// No kernel's sender can be told what goes again at a thaw. `first` is nearest to what it does by
    /// itself, and so needs no word.
    fn hint(&self, around: &Surroundings<'_>) -> Option<Hint> {
        match (around, self.resend) {
            (Surroundings::Case { .. }, _) | (Surroundings::Host { .. }, Resend::First) => None,
            (Surroundings::Host { .. }, asked @ (Resend::All | Resend::Nothing)) => Some(Hint {
                key: Some("resend"),
                what: format!(
                    "resend = \"{}\" does nothing here: Linux chooses by itself what goes again at the end of a \
                     silence",
                    Resend::write(&asked)
                ),
                instead: "write resend = \"first\", which is nearest to what it does (docs/host.md)"
                    .to_owned(),
            }),
        }
    }
}

words!(Resend {
    "all" => All, "All that is not acknowledged, as far as the window allows.";
    "first" => First, "The first segment that is not acknowledged.";
    "nothing" => Nothing, "Nothing: ACKs and the timer tell what was lost.";
});

words!(Trigger {
    "primary-user" => PrimaryUser, "A primary user's transmissions.";
    "any-silence" => AnySilence, "Every silence.";
});
