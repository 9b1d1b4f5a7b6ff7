//! Silences that a Wi-Fi radio announces itself: the agent reads nl80211, the kernel's interface to wireless
//! drivers.
//!
//! bytes → [`message`] → [`translator`] → [`RadioSignal`]s, each with its radio. [`Nl80211`] is the socket
//! around them. Messages and translator know neither clock nor kernel: tests feed them recorded messages.

pub mod message;
mod socket;
pub mod strength;
#[cfg(test)]
mod tests;
pub mod translator;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;

use linkhold_core::time::{Duration, Instant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use message::{Event, messages};
use socket::{EventSocket, Read};
pub use translator::{Radio, RadioSignal, SignalKind, Translator};

/// Datagrams read between two looks at packets and timers.
const DATAGRAMS_PER_TURN: usize = 32;

/// What nl80211 has told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nl80211Status {
    /// Times that the kernel dropped events because the agent was too slow.
    pub lost: u64,
    /// The radio interfaces of the configuration.
    pub interfaces: Vec<InterfaceStatus>,
}

/// A radio interface, as nl80211 knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceStatus {
    /// Its name.
    pub name: String,
    /// The Wi-Fi port that is heard for it, where it is a bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Index of the one that is heard; none: nl80211 knows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// True while it serves stations.
    pub serving: bool,
    /// Messages that concerned it.
    pub events: u64,
}

/// The event source.
pub struct Nl80211 {
    socket: EventSocket,
    translator: Translator,
    signals: Vec<RadioSignal>,
    lost: u64,
}

impl Nl80211 {
    /// Listens for what concerns the interfaces of these names, in the calling thread's network namespace;
    /// `None` where the kernel has no nl80211. No silence lasts longer than `max_silence`.
    ///
    /// An interface that is missing, or is no wireless one, is found when it appears.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn open<'a>(
        names: impl IntoIterator<Item = &'a str>,
        max_silence: Duration,
    ) -> io::Result<Option<Self>> {
        let Some(socket) = EventSocket::open()? else { return Ok(None) };
        socket.ask_for_interfaces()?;
        let translator = Translator::new(names, max_silence);
        Ok(Some(Self { socket, translator, signals: Vec::new(), lost: 0 }))
    }

    /// Readable when there is something to read.
    #[must_use]
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.socket.readable()
    }

    /// The radios; a [`RadioSignal`] names one by its place here.
    #[must_use]
    pub fn radios(&self) -> &[Radio] {
        self.translator.radios()
    }

    /// Reads what is there at `now`, without waiting, and hands out what it means.
    ///
    /// # Errors
    /// The socket is broken. What is under way still ends by its own limit.
    pub fn read(&mut self, now: Instant) -> io::Result<&[RadioSignal]> {
        self.signals.clear();
        let mut ask = false;
        for _ in 0..DATAGRAMS_PER_TURN {
            let family = self.socket.family();
            match self.socket.read()? {
                Read::Datagram(datagram) => {
                    for message in messages(family, datagram) {
                        self.translator.handle_message(now, &message, &mut self.signals);
                    }
                }
                Read::Lost => {
                    self.lost += 1;
                    tracing::warn!("events of nl80211 were lost: silences under way end by their limits");
                    ask = true;
                }
                Read::Empty => break,
            }
        }
        ask |= self.translator.take_question();
        if ask {
            self.ask();
        }
        Ok(&self.signals)
    }

    /// An interface has appeared, perhaps under a name that it was given since: nl80211 tells of no new name
    /// (net/wireless/core.c, `cfg80211_netdev_notifier_call`), so it is asked. Where nl80211 itself is
    /// another one, because its module was loaded anew, this socket hears nothing any more
    /// (net/netlink/genetlink.c, `genl_unregister_family`), and another takes its place.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn renew(&mut self) -> io::Result<()> {
        if self.socket.give_way_to(EventSocket::open()?) {
            tracing::info!("nl80211 is another one: its events are heard anew");
        }
        self.ask();
        Ok(())
    }

    /// Some radios, by their place, are bridges: each is heard by its only Wi-Fi port from now on, or by
    /// none. Hands out what this ends.
    pub fn hear<'a>(
        &mut self,
        now: Instant,
        ports: impl IntoIterator<Item = (usize, Option<&'a str>)>,
    ) -> &[RadioSignal] {
        self.signals.clear();
        let mut ask = false;
        for (radio, port) in ports {
            if self.translator.hear(now, radio, port, &mut self.signals) {
                let name = self.radios().get(radio).map_or("", |radio| radio.name.as_str());
                match port {
                    Some(port) => {
                        tracing::info!(radio = name, port, "what the bridge's Wi-Fi port announces is heard")
                    }
                    None => tracing::info!(radio = name, "no Wi-Fi port of the bridge is heard any more"),
                }
                ask = true;
            }
        }
        if ask {
            self.ask();
        }
        &self.signals
    }

    /// Asks which wireless interfaces there are; the answers are read like what is told.
    fn ask(&self) {
        if let Err(error) = self.socket.ask_for_interfaces() {
            tracing::debug!(%error, "nl80211 cannot be asked for the interfaces");
        }
    }

    /// What it has heard so far.
    #[must_use]
    pub fn status(&self) -> Nl80211Status {
        let interfaces = self.radios().iter().map(|radio| InterfaceStatus {
            name: radio.name.clone(),
            port: (radio.hears != radio.name).then(|| radio.hears.clone()),
            index: radio.index,
            serving: radio.serving,
            events: radio.events,
        });
        Nl80211Status { lost: self.lost, interfaces: interfaces.collect() }
    }
}

/// The interfaces that nl80211 knows in the calling thread's network namespace, by their indices; none where
/// the kernel has no nl80211. The kernel answers while it is read, so this does not wait.
///
/// # Errors
/// What the kernel answers.
pub fn interfaces() -> io::Result<BTreeSet<u32>> {
    let Some(mut socket) = EventSocket::for_questions()? else { return Ok(BTreeSet::new()) };
    socket.ask_for_interfaces()?;
    let (mut found, family) = (BTreeSet::new(), socket.family());
    while let Read::Datagram(datagram) = socket.read()? {
        let interfaces =
            messages(family, datagram).filter(|one| matches!(one.event, Event::Interface { .. }));
        found.extend(interfaces.filter_map(|one| one.interface));
    }
    Ok(found)
}
