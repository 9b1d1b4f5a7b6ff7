//! Local recovery as the registry knows it: presets, settings with their names in files, and how its two
//! halves are built.

use super::{LocalRecovery, LocalRecoveryConfig, LocalResend, LocalResendConfig, ResendFrom};
use crate::mechanism::{Mechanism, Place};
use crate::settings::{
    Hint, Positive, Preset, Registered, RouterNeeds, Setting, SettingsError, Surroundings, Whole, settings,
    words,
};
use crate::time::Duration;
use crate::units::Bytes;

impl Registered for LocalRecoveryConfig {
    const NAME: &'static str = "local-recovery";
    const SUMMARY: &'static str = "Local recovery at the base station: sends downlink segments again that the radio lost, and reports \
         uplink losses to the station.";
    const PLACES: &'static [Place] = &[Place::BaseStation];
    const PRESETS: &'static [Preset<Self>] = &[
        Preset { name: "recommended", doc: "Both directions.", make: Self::default },
        Preset {
            name: "paper",
            doc: "Uplink only; a report is not repeated, as in the paper.",
            make: || Self { downlink: false, reports: 1, ..Self::default() },
        },
    ];
    const SETTINGS: &'static [Setting<Self>] = settings!(LocalRecoveryConfig {
        /// Keep copies of downlink segments and send them again when ACKs show that the radio lost them.
        downlink: bool => downlink;
        /// Most reports of the same hole in the uplink; 0: none is reported.
        reports: Whole<u8, 0, 20> => reports;
        /// From one report of a hole to the next.
        report_interval: Positive<Duration> => report_interval;
        /// Most copies sent of one segment.
        tries: Whole<u8, 1, 20> => tries;
        /// Least time without a word of the first segment before a copy of it is sent.
        least_patience: Positive<Duration> => least_patience;
        /// How long duplicate ACKs are kept from the sender while a copy is under way; zero: not at all.
        hide: Duration => hide;
        /// A copy is let go of after this long.
        keep_for: Positive<Duration> => keep_for;
        /// Most bytes of copies.
        max_bytes: Positive<Bytes> => max_bytes;
        /// Most copies of one connection.
        max_flow_packets: Whole<u32, 1, 65_536> => max_flow_packets;
        /// Most connections known.
        max_flows: Whole<u32, 1, 65_536> => max_flows;
    });

    fn validate(&self) -> Result<(), SettingsError> {
        Ok(())
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Mechanism>, SettingsError> {
        Ok(Box::new(LocalRecovery::new(&Self { flow_seed: seed, ..*self })))
    }

    fn needs(&self) -> RouterNeeds {
        let kept_bytes = if self.downlink { self.max_bytes } else { Bytes::ZERO };
        RouterNeeds { kept_bytes, reports: !self.downlink, ..RouterNeeds::default() }
    }
}

impl Registered for LocalResendConfig {
    const NAME: &'static str = "local-resend";
    const SUMMARY: &'static str =
        "The station's half of local recovery: sends again what the base station reports missing.";
    const PLACES: &'static [Place] = &[Place::Stations];
    const PRESETS: &'static [Preset<Self>] = &[
        Preset { name: "recommended", doc: "From copies kept at the link (PHY-LR).", make: Self::default },
        Preset {
            name: "phy-lr",
            doc: "The paper's PHY-LR: from copies kept at the link.",
            make: Self::default,
        },
        Preset {
            name: "tcp-lr",
            doc: "The paper's TCP-LR: from TCP's own buffer, at once and at every timeout.",
            make: || Self { from: ResendFrom::Tcp, ..Self::default() },
        },
    ];
    const SETTINGS: &'static [Setting<Self>] = settings!(LocalResendConfig {
        /// Whose buffer the segments are sent from.
        from: ResendFrom => from;
        /// Most copies sent of one segment.
        tries: Whole<u8, 1, 20> => tries;
        /// A segment is not sent again within this time.
        guard: Positive<Duration> => guard;
        /// A copy is let go of after this long.
        keep_for: Positive<Duration> => keep_for;
        /// Most bytes of copies.
        max_bytes: Positive<Bytes> => max_bytes;
        /// Most copies of one connection.
        max_flow_packets: Whole<u32, 1, 65_536> => max_flow_packets;
        /// Most connections known.
        max_flows: Whole<u32, 1, 65_536> => max_flows;
    });

    fn validate(&self) -> Result<(), SettingsError> {
        Ok(())
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Mechanism>, SettingsError> {
        Ok(Box::new(LocalResend::new(&Self { flow_seed: seed, ..*self })))
    }

    fn needs(&self) -> RouterNeeds {
        RouterNeeds { reports: true, ..RouterNeeds::default() }
    }

    fn hint(&self, around: &Surroundings<'_>) -> Option<Hint> {
        let (resend, recovery) = (Self::NAME, LocalRecoveryConfig::NAME);
        match around {
            Surroundings::Case { name, mechanisms, .. } if !mechanisms.contains(&recovery) => Some(Hint {
                key: None,
                what: format!("in case {name} nobody reports to {resend}"),
                instead: format!("put {recovery} beside it, at the base station"),
            }),
            Surroundings::Case { .. } | Surroundings::Host { .. } => None,
        }
    }
}

words!(ResendFrom {
    "link" => Link, "From copies that the link keeps (the paper's PHY-LR).";
    "tcp" => Tcp, "From TCP's own buffer (the paper's TCP-LR).";
});
