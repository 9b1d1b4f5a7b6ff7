//! What stands around the agent: interfaces that come and go, bridges, offloaded flows. The agent looks when
//! it starts, and again and again, because hostapd puts a radio into a bridge long after the router's start.

use std::collections::BTreeSet;

use linkhold_core::time::{Duration, Instant};

use super::error::AgentError;
use crate::datapath::crossing::{BridgeNetfilter, Crossings, Offload, look, offloads};
use crate::interfaces::Kernel;

/// From one look at the interfaces to the next: a few questions to the kernel, each of some microseconds.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What was found.
#[derive(Debug)]
pub struct Surroundings {
    wired: Vec<String>,
    radio: Vec<String>,
    kernel: Option<Kernel>,
    crossings: Crossings,
    /// In words, each with what to change.
    offloads: Vec<String>,
    /// The rules could not follow a change.
    rules_trouble: Option<String>,
    next_look: Instant,
}

impl Surroundings {
    /// Looks for the first time, and logs what is amiss.
    ///
    /// # Errors
    /// [`AgentError::Hidden`] if packets of a wired and a radio interface would never come to the agent. That
    /// an interface is not there yet is no error.
    pub fn explore(wired: &[String], radio: &[String], now: Instant) -> Result<Self, AgentError> {
        let kernel = Kernel::open();
        if let Err(error) = &kernel {
            tracing::warn!(%error, "cannot look at the interfaces: a bridge or a missing interface goes unseen");
        }
        let mut this = Self {
            wired: wired.to_vec(),
            radio: radio.to_vec(),
            kernel: kernel.ok(),
            crossings: Crossings::default(),
            offloads: Vec::new(),
            rules_trouble: None,
            next_look: now + LOOK_EVERY,
        };
        this.crossings = this.look().unwrap_or_default();
        if !this.crossings.hidden.is_empty() {
            let reasons: Vec<String> = this.crossings.hidden.iter().map(ToString::to_string).collect();
            return Err(AgentError::Hidden(reasons.join("; ")));
        }
        let own: Vec<String> = wired.iter().chain(radio).cloned().collect();
        let concerned = offloads().into_iter().filter(|offload| offload.concerns(&own));
        this.offloads =
            concerned.map(|offload| format!("{}: {}", offload.reason(), Offload::REMEDY)).collect();
        for trouble in this.troubles() {
            tracing::warn!("{trouble}");
        }
        Ok(this)
    }

    fn look(&self) -> Option<Crossings> {
        let kernel = self.kernel.as_ref()?;
        match look(&self.wired, &self.radio, kernel, BridgeNetfilter::read()) {
            Ok(crossings) => Some(crossings),
            Err(error) => {
                tracing::debug!(%error, "the interfaces cannot be looked at");
                None
            }
        }
    }

    /// When to look again.
    #[must_use]
    pub fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Looks again if it is time, and logs what changed; true if the rules must change with it.
    pub fn look_again(&mut self, now: Instant) -> bool {
        if now < self.next_look {
            return false;
        }
        self.next_look = now + LOOK_EVERY;
        let Some(found) = self.look().filter(|found| *found != self.crossings) else { return false };
        let before = std::mem::replace(&mut self.crossings, found);
        for name in before.absent.iter().filter(|name| !self.crossings.absent.contains(name)) {
            tracing::info!(interface = name, "the interface is there now");
        }
        let old = Self::words(&before);
        for trouble in Self::words(&self.crossings).iter().filter(|trouble| !old.contains(trouble)) {
            tracing::warn!("{trouble}");
        }
        self.crossings.bridged != before.bridged
    }

    /// Pairs of a wired and a radio interface that are ports of one bridge.
    #[must_use]
    pub fn bridged(&self) -> &BTreeSet<(String, String)> {
        &self.crossings.bridged
    }

    /// The rules did, or did not, follow a change.
    pub fn note_rules(&mut self, trouble: Option<String>) {
        if let Some(trouble) = &trouble {
            tracing::error!("{trouble}");
        }
        self.rules_trouble = trouble;
    }

    /// What keeps packets from the agent, each with what to change.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let mut all = Self::words(&self.crossings);
        all.extend(self.offloads.iter().cloned());
        all.extend(self.rules_trouble.clone());
        all
    }

    fn words(crossings: &Crossings) -> Vec<String> {
        let absent = crossings.absent.iter().map(|name| {
            format!("there is no interface {name} (yet); what crosses it is managed as soon as it appears")
        });
        let hidden = crossings.hidden.iter().map(ToString::to_string);
        absent.chain(hidden).chain(crossings.doubts.iter().cloned()).collect()
    }
}
