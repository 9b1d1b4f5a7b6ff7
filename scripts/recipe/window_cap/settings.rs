//! The window cap as the registry knows it.

use super::{WindowCap, WindowCapConfig};
use crate::mechanism::{Mechanism, Place};
use crate::settings::{Preset, Registered, Setting, SettingsError, Whole, settings};

impl Registered for WindowCapConfig {
    const NAME: &'static str = "window-cap";
    const SUMMARY: &'static str =
        "Window cap: makes no window larger than a number; for CONTRIBUTING's recipe.";
    const PLACES: &'static [Place] = &[Place::BaseStation];

    const PRESETS: &'static [Preset<Self>] =
        &[Preset { name: "recommended", doc: "64 units of the window's scale.", make: Self::default }];

    const SETTINGS: &'static [Setting<Self>] = settings!(WindowCapConfig {
        /// The largest window field that passes, in units of the window's scale.
        most: Whole<u16, 1, 65_535> => most;
    });

    fn validate(&self) -> Result<(), SettingsError> {
        Ok(())
    }

    fn build(&self, _seed: u64) -> Result<Box<dyn Mechanism>, SettingsError> {
        Ok(Box::new(WindowCap::new(*self)))
    }
}
