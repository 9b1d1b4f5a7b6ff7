//! The mechanisms there are: the one list that scenario files, the simulator, the agent, the testbed and the
//! documentation ask.
//!
//! A mechanism declares itself in its own folder by implementing [`Registered`] for its settings; a line in
//! [`registry!`] below makes it known everywhere else. The plain router has no entry: it is the absence of a
//! mechanism, and files call it [`NONE`].

use std::sync::LazyLock;

use crate::mechanism::{Mechanism, Place};
use crate::mirror::Mirror;
use crate::quantity::ValueError;
use crate::settings::{
    Format, Hint, Key, Registered, RouterNeeds, Setting, SettingsError, Surroundings, Value, unknown_word,
};
use crate::time::Duration;

/// What files write where no mechanism is to run.
pub const NONE: &str = "none";

/// A mechanism as the registry knows it.
#[derive(Debug)]
pub struct MechanismEntry {
    /// Its name in files and results.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Where it can stand; its natural place first.
    pub places: &'static [Place],
    /// Its presets, as name and meaning; what is recommended first.
    pub presets: Vec<(&'static str, &'static str)>,
    /// Its keys, in the order in which they are applied.
    pub keys: Vec<Key>,
    /// It changes no packet and commands no sender ([`Registered::ONLY_WATCHES`]).
    pub only_watches: bool,
    /// It freezes the senders of its own host ([`Registered::FREEZES_SENDERS`]).
    pub freezes_senders: bool,
    /// The key of its own limit of a silence ([`Registered::SILENCE_LIMIT`]).
    pub silence_limit: Option<&'static str>,
    preset: fn(usize) -> MechanismSettings,
}

impl MechanismEntry {
    fn of<C: Registered>(preset: fn(usize) -> MechanismSettings) -> Self {
        Self {
            name: C::NAME,
            summary: C::SUMMARY,
            places: C::PLACES,
            presets: C::PRESETS.iter().map(|preset| (preset.name, preset.doc)).collect(),
            keys: C::SETTINGS.iter().map(|setting| setting.key).collect(),
            only_watches: C::ONLY_WATCHES,
            freezes_senders: C::FREEZES_SENDERS,
            silence_limit: C::SILENCE_LIMIT,
            preset,
        }
    }

    /// Where it stands if nothing else is said.
    #[must_use]
    pub const fn natural_place(&self) -> Place {
        self.places[0]
    }

    /// The recommended settings.
    #[must_use]
    pub fn recommended(&self) -> MechanismSettings {
        (self.preset)(0)
    }

    /// The settings of a preset; `None` if there is none of that name.
    #[must_use]
    pub fn preset(&self, name: &str) -> Option<MechanismSettings> {
        let index = self.presets.iter().position(|(known, _)| *known == name)?;
        Some((self.preset)(index))
    }

    /// The place of that name, if the mechanism can stand there.
    ///
    /// # Errors
    /// [`ValueError`] that names the places where it can.
    pub fn place(&self, value: &Value<'_>) -> Result<Place, ValueError> {
        let places = self.places.iter().map(|place| place.name());
        match value {
            Value::Text(text) => match Place::ALL.into_iter().find(|place| place.name() == text) {
                Some(place) if self.places.contains(&place) => Ok(place),
                Some(place) => {
                    let words: Vec<String> = places.map(|word| format!("{word:?}")).collect();
                    let what = format!("{} cannot stand at {:?}", self.name, place.name());
                    Err(ValueError::new(what, format!("it can stand at {}", words.join(", "))))
                }
                None => Err(unknown_word(value, places)),
            },
            other => Err(unknown_word(other, places)),
        }
    }
}

/// Every mechanism, in the order of the list in this file.
#[must_use]
pub fn entries() -> &'static [MechanismEntry] {
    &ENTRIES
}

/// The mechanism that runs at a place where files name none: the first in the list that has it for its
/// natural place.
#[must_use]
pub fn usual_at(place: Place) -> Option<&'static MechanismEntry> {
    entries().iter().find(|entry| entry.natural_place() == place)
}

/// The mechanism of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static MechanismEntry> {
    entries().iter().find(|entry| entry.name == name)
}

/// The mechanisms: variant of [`MechanismSettings`], and the type of its settings.
macro_rules! registry {
    ($($variant:ident($config:ty);)+) => {
        /// The settings of one of the mechanisms.
        #[derive(Clone, Debug, PartialEq)]
        pub enum MechanismSettings {
            $(
                #[doc = concat!("Settings of type [`", stringify!($config), "`].")]
                $variant($config),
            )+
        }

        $(impl From<$config> for MechanismSettings {
            fn from(config: $config) -> Self {
                Self::$variant(config)
            }
        })+

        static ENTRIES: LazyLock<Vec<MechanismEntry>> = LazyLock::new(|| {
            vec![$(MechanismEntry::of::<$config>(|index| {
                MechanismSettings::$variant((<$config as Registered>::PRESETS[index].make)())
            })),+]
        });

        impl MechanismSettings {
            /// The mechanism that these are settings of.
            #[must_use]
            pub fn entry(&self) -> &'static MechanismEntry {
                let name = match self { $(Self::$variant(_) => <$config as Registered>::NAME),+ };
                find(name).expect("every variant has its entry: both come from one list")
            }

            /// Sets one key. A key's value may move another's default, so keys are to be set in the order of
            /// [`MechanismEntry::keys`].
            ///
            /// # Errors
            /// [`ValueError`] for a key that there is not, and for a value that the key does not take.
            pub fn set(&mut self, key: &str, value: &Value<'_>) -> Result<(), ValueError> {
                match self { $(Self::$variant(config) => set(config, key, value)),+ }
            }

            /// Every key with its value, in the order in which they are to be set. Set on any preset they
            /// give these settings again.
            #[must_use]
            pub fn values(&self) -> Vec<(&'static str, Value<'static>)> {
                match self { $(Self::$variant(config) => values(config)),+ }
            }

            /// Checks what no setting can check alone.
            ///
            /// # Errors
            /// The first [`SettingsError`] found.
            pub fn validate(&self) -> Result<(), SettingsError> {
                match self { $(Self::$variant(config) => Registered::validate(config)),+ }
            }

            /// Makes the mechanism. `seed` is for the hash of its tables: secret and random on a router,
            /// fixed in a simulation.
            ///
            /// # Errors
            /// What [`validate`](Self::validate) finds.
            pub fn build(&self, seed: u64) -> Result<Box<dyn Mechanism>, SettingsError> {
                match self { $(Self::$variant(config) => Registered::build(config, seed)),+ }
            }

            /// Makes the mechanism for its place: as [`build`](Self::build) does, and turned around at a
            /// station if it was written for a base station.
            ///
            /// # Errors
            /// What [`validate`](Self::validate) finds.
            pub fn build_at(&self, place: Place, seed: u64) -> Result<Box<dyn Mechanism>, SettingsError> {
                let turned = match self { $(Self::$variant(_) => <$config as Registered>::TURNED_AT_STATIONS),+ };
                let mechanism = self.build(seed)?;
                Ok(match place {
                    Place::Stations if turned => Box::new(Mirror::new(mechanism)),
                    Place::Stations | Place::BaseStation | Place::Correspondent => mechanism,
                })
            }

            /// What the mechanism needs of a router.
            #[must_use]
            pub fn needs(&self) -> RouterNeeds {
                match self { $(Self::$variant(config) => Registered::needs(config)),+ }
            }

            /// What of the settings is valid in `around`, and still probably not meant.
            #[must_use]
            pub fn hint(&self, around: &Surroundings<'_>) -> Option<Hint> {
                match self { $(Self::$variant(config) => Registered::hint(config, around)),+ }
            }
        }
    };
}

registry! {
    DsaSync(crate::dsasync::DsaSyncConfig);
    CrAware(crate::cr_aware::CrAwareConfig);
    LocalRecovery(crate::local_recovery::LocalRecoveryConfig);
    LocalResend(crate::local_recovery::LocalResendConfig);
    SnrGate(crate::snr_gate::SnrGateConfig);
    LookAhead(crate::look_ahead::LookAheadConfig);
}

impl MechanismSettings {
    /// The mechanism's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.entry().name
    }

    /// The longest silence that the mechanism believes in, if it has such a limit
    /// ([`MechanismEntry::silence_limit`]).
    #[must_use]
    pub fn silence_limit(&self) -> Option<Duration> {
        let key = self.entry().silence_limit?;
        let (_, value) = self.values().into_iter().find(|(name, _)| *name == key)?;
        Duration::read(&value).ok()
    }

    /// The settings in the fewest words: the preset that is nearest to them, and the keys whose value is
    /// another.
    #[must_use]
    pub fn nearest_preset(&self) -> (&'static str, Vec<(&'static str, Value<'static>)>) {
        let entry = self.entry();
        let presets = entry.presets.iter().enumerate().map(|(index, (name, _))| {
            let usual = (entry.preset)(index).values();
            let values = self.values().into_iter().zip(usual);
            (
                *name,
                values.filter(|(value, usual)| value != usual).map(|(value, _)| value).collect::<Vec<_>>(),
            )
        });
        presets.min_by_key(|(_, changed)| changed.len()).expect("a mechanism has a preset")
    }
}

fn set<C: Registered>(config: &mut C, key: &str, value: &Value<'_>) -> Result<(), ValueError> {
    match C::SETTINGS.iter().find(|setting| setting.key.name == key) {
        Some(setting) => (setting.set)(config, value),
        None => Err(ValueError::new(
            format!("{} has no setting `{}`", C::NAME, crate::text::shorten(key)),
            format!("its settings are {}", names(C::SETTINGS)),
        )),
    }
}

fn names<C>(settings: &[Setting<C>]) -> String {
    settings.iter().map(|setting| setting.key.name).collect::<Vec<_>>().join(", ")
}

fn values<C: Registered>(config: &C) -> Vec<(&'static str, Value<'static>)> {
    C::SETTINGS.iter().map(|setting| (setting.key.name, (setting.get)(config))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::action::Actions;
    use crate::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
    use crate::packet::StationId;
    use crate::time::{Duration, Instant};
    use crate::units::{BitRate, Bytes, Fraction};

    #[test]
    fn names_are_unique_and_nothing_is_left_undocumented() {
        let names: BTreeSet<&str> = entries().iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), entries().len());
        for entry in entries() {
            assert!(entry.name != NONE && !entry.summary.is_empty() && !entry.places.is_empty());
            assert!(!entry.presets.is_empty(), "{}: a recommended preset", entry.name);
            let keys: BTreeSet<&str> = entry.keys.iter().map(|key| key.name).collect();
            assert_eq!(keys.len(), entry.keys.len(), "{}: a key stands twice", entry.name);
            // These mean something else in a mechanism's table.
            for reserved in ["name", "preset", "at"] {
                assert!(!keys.contains(reserved), "{}: `{reserved}` is no setting", entry.name);
            }
            for key in &entry.keys {
                assert!(!key.doc.trim().is_empty(), "{}.{}", entry.name, key.name);
            }
        }
    }

    #[test]
    fn every_preset_is_valid_and_builds_the_mechanism_of_its_name() {
        for entry in entries() {
            for (preset, _) in &entry.presets {
                let settings = entry.preset(preset).expect("listed");
                assert_eq!(settings.validate(), Ok(()), "{preset}");
                assert_eq!(settings.name(), entry.name);
                assert_eq!(settings.build(1).expect("valid").name(), entry.name);
            }
            assert!(entry.preset("no such preset").is_none());
            assert_eq!(entry.recommended().nearest_preset(), (entry.presets[0].0, Vec::new()));
        }
    }

    /// One event of every kind, silences of every cause, scope and two lengths among them.
    fn every_kind_of_event() -> Vec<LinkEventKind> {
        let (station, bytes, period) = (StationId(3), Bytes(1500), Duration::from_millis(5));
        let mut kinds = vec![
            LinkEventKind::ChannelSwitched { capacity: BitRate(1_000_000), efficiency: Fraction::ONE },
            LinkEventKind::SensingSchedule {
                scope: Scope::Network,
                period: Duration::from_millis(100),
                duration: period,
                next: Instant::from_millis(50),
            },
            LinkEventKind::Snr { station, db: -20.0 },
            LinkEventKind::Grant { station, at: Instant::from_millis(20), bytes },
            LinkEventKind::GrantUnused { station, bytes },
            LinkEventKind::GrantFrames { period },
            LinkEventKind::TransmitRoom { packets: 3, bytes },
            LinkEventKind::StationLeft { station },
        ];
        for scope in [Scope::Network, Scope::Station(station)] {
            for cause in Cause::ALL {
                for expected in [None, Some(period)] {
                    kinds.push(LinkEventKind::FreezeStarted { scope, cause, expected });
                    kinds.push(LinkEventKind::FreezeEnded { scope, cause });
                }
            }
        }
        kinds
    }

    #[test]
    fn what_no_mechanism_listens_to_changes_nothing() {
        for entry in entries() {
            for (place, kind) in entry
                .places
                .iter()
                .flat_map(|place| every_kind_of_event().into_iter().map(move |kind| (place, kind)))
            {
                let mut mechanism = entry.recommended().build_at(*place, 1).expect("valid");
                let now = Instant::from_millis(10);
                let mut out = Actions::new();
                let state = |mechanism: &dyn Mechanism| (mechanism.metrics(), mechanism.next_timeout());
                let before = state(&*mechanism);
                let listens = mechanism.listens_to(&kind);
                mechanism.on_link(now, LinkEvent::at(now, kind), &mut out);
                let changed = state(&*mechanism) != before || !out.as_slice().is_empty();
                assert!(listens || !changed, "{} passes over {kind:?}", entry.name);
                out.clear();
            }
        }
    }

    #[test]
    fn a_mechanism_says_what_it_listens_to() {
        let listens = |name: &str, kind| {
            let settings = find(name).expect("registered").recommended();
            settings.build(1).expect("valid").listens_to(&kind)
        };
        let freeze = |scope, cause, expected| LinkEventKind::FreezeStarted { scope, cause, expected };
        let (network, station) = (Scope::Network, StationId(3));
        let turn = Some(Duration::from_millis(5));
        let snr = LinkEventKind::Snr { station, db: 3.0 };
        let grant = LinkEventKind::Grant { station, at: Instant::ZERO, bytes: Bytes(1500) };
        for (name, kind, heard) in [
            ("dsasync", freeze(network, Cause::Fade, turn), true),
            ("dsasync", freeze(network, Cause::Grant, None), true),
            ("dsasync", freeze(network, Cause::Grant, turn), false),
            ("dsasync", freeze(Scope::Station(station), Cause::Grant, None), false),
            ("dsasync", snr, false),
            ("dsasync", grant, false),
            ("snr-gate", snr, true),
            ("snr-gate", freeze(network, Cause::Fade, None), false),
            ("look-ahead", grant, true),
            ("local-resend", freeze(network, Cause::Fade, None), false),
        ] {
            assert_eq!(listens(name, kind), heard, "{name}, {kind:?}");
        }
        // Who hears of a start hears of its end.
        for name in entries().iter().map(|entry| entry.name) {
            for scope in [network, Scope::Station(station)] {
                for cause in Cause::ALL {
                    let end = LinkEventKind::FreezeEnded { scope, cause };
                    let starts = [None, turn].map(|expected| listens(name, freeze(scope, cause, expected)));
                    assert!(listens(name, end) || starts == [false; 2], "{name}, {end:?}");
                }
            }
        }
    }

    #[test]
    fn values_set_on_any_preset_give_the_same_settings() {
        for entry in entries() {
            for (from, _) in &entry.presets {
                for (to, _) in &entry.presets {
                    let wanted = entry.preset(from).expect("listed");
                    let mut settings = entry.preset(to).expect("listed");
                    for (key, value) in wanted.values() {
                        settings.set(key, &value).unwrap_or_else(|error| panic!("{key}: {error}"));
                    }
                    assert_eq!(settings, wanted, "{from} onto {to}");
                }
            }
        }
    }

    #[test]
    fn settings_are_named_by_the_nearest_preset_and_what_differs() {
        let mut paper = find("dsasync").and_then(|entry| entry.preset("paper")).expect("registered");
        let off = Value::Text("off".into());
        paper.set("capacity", &off).expect("a word of it");
        assert_eq!(paper.nearest_preset(), ("paper", vec![("capacity", off)]));
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        let entry = find("dsasync").expect("registered");
        let error = entry.recommended().set("clmp", &Value::Truth(true)).unwrap_err();
        assert!(error.to_string().starts_with("dsasync has no setting `clmp`; its settings are mode, "));
        let error = entry.recommended().set("clamp", &Value::Text("alwys".into())).unwrap_err();
        assert_eq!(error.to_string(), "\"alwys\" is not known here; did you mean \"always\"?");
        let at = |place: &'static str| entry.place(&Value::Text(place.into())).map_err(|e| e.to_string());
        assert_eq!(at("base-station"), Ok(Place::BaseStation));
        assert_eq!(at("stations"), Ok(Place::Stations));
        let refused =
            "dsasync cannot stand at \"correspondent\"; it can stand at \"base-station\", \"stations\"";
        assert_eq!(at("correspondent"), Err(refused.to_owned()));
        assert!(at("base-staton").unwrap_err().ends_with("did you mean \"base-station\"?"));
    }
}
