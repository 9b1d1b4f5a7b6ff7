//! The host's own senders: turns a mechanism's commands to connections into silences of radios, which is what
//! the kernel side ([`super::kernel`]) knows.
//!
//! A radio: sending → frozen (the first connection frozen) → sending (the last one thawed). The kernel side
//! freezes every socket of the radio whose congestion control is linkhold's, also one that the mechanism has
//! not seen: a silence of the radio is everybody's.
//!
//! Bounded: a radio remembers as many frozen connections as the mechanism commands, and its table is bounded.

use std::collections::BTreeSet;

use linkhold_core::action::SenderCommand;
use linkhold_core::packet::FlowKey;
use linkhold_core::time::Duration;

use super::kernel::{KernelCounters, KernelSenders};
use crate::agent::senders::Senders;

/// What the kernel side is told.
pub trait Kernel {
    /// The radio's senders stop, for so long at most.
    fn freeze(&mut self, interface: &str, at_most: Duration);
    /// The radio's senders go on.
    fn thaw(&mut self, interface: &str);
    /// What the kernel side did.
    fn counters(&self) -> KernelCounters;
}

impl Kernel for KernelSenders {
    fn freeze(&mut self, interface: &str, at_most: Duration) {
        // Looked up by name at each silence: an interface that is made anew has a new index.
        match nix::net::if_::if_nametoindex(interface) {
            Ok(index) => KernelSenders::freeze(self, index, at_most),
            Err(errno) => tracing::warn!(interface, %errno, "no such interface: nobody was frozen"),
        }
    }

    fn thaw(&mut self, interface: &str) {
        if let Ok(index) = nix::net::if_::if_nametoindex(interface) {
            KernelSenders::thaw(self, index);
        }
    }

    fn counters(&self) -> KernelCounters {
        KernelSenders::counters(self)
    }
}

/// The senders of a host's radios.
pub struct HostSenders<K> {
    radios: Vec<Radio>,
    kernel: K,
    at_most: Duration,
}

struct Radio {
    interface: String,
    frozen: BTreeSet<FlowKey>,
}

impl<K: Kernel> HostSenders<K> {
    /// `at_most`: the kernel side thaws by itself this long after the last freeze was told.
    #[must_use]
    pub fn new(interfaces: &[String], kernel: K, at_most: Duration) -> Self {
        let radio = |interface: &String| Radio { interface: interface.clone(), frozen: BTreeSet::new() };
        Self { radios: interfaces.iter().map(radio).collect(), kernel, at_most }
    }
}

impl<K: Kernel> Senders for HostSenders<K> {
    fn command(&mut self, radio: usize, flow: &FlowKey, command: SenderCommand) {
        let Some(Radio { interface, frozen }) = self.radios.get_mut(radio) else { return };
        match command {
            SenderCommand::Freeze => {
                let begins = frozen.is_empty();
                let goes_on = !frozen.insert(*flow);
                if begins || goes_on {
                    self.kernel.freeze(interface, self.at_most);
                }
            }
            // What goes again is the kernel's own choice: the acknowledgment that wakes a sender in the loss
            // state makes it retransmit what is lost. A configuration that asks for more is remarked on at
            // start.
            SenderCommand::Thaw { resend: _ } => {
                if frozen.remove(flow) && frozen.is_empty() {
                    self.kernel.thaw(interface);
                }
            }
            // Nothing tells a kernel's TCP which of its segments a base station misses.
            SenderCommand::Missing { blocks: _ } => {}
        }
    }

    fn kernel(&self) -> Option<KernelCounters> {
        Some(self.kernel.counters())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use linkhold_core::action::Resend;
    use linkhold_core::packet::Endpoint;

    use super::*;

    #[derive(Clone, Default)]
    struct Told(Rc<RefCell<Vec<String>>>);

    impl Kernel for Told {
        fn freeze(&mut self, interface: &str, at_most: Duration) {
            self.0.borrow_mut().push(format!("freeze {interface} for {at_most}"));
        }
        fn thaw(&mut self, interface: &str) {
            self.0.borrow_mut().push(format!("thaw {interface}"));
        }
        fn counters(&self) -> KernelCounters {
            KernelCounters::default()
        }
    }

    fn flow(port: u16) -> FlowKey {
        let end = |port| Endpoint { addr: [192, 0, 2, 1].into(), port };
        FlowKey { correspondent: end(80), station: end(port) }
    }

    #[test]
    fn a_radio_is_silent_from_its_first_freeze_to_its_last_thaw() {
        let told = Told::default();
        let names = ["w0".to_owned(), "w1".to_owned()];
        let mut senders = HostSenders::new(&names, told.clone(), Duration::from_secs(10));
        let mut tell = |radio, port, command, expected: &[&str]| {
            senders.command(radio, &flow(port), command);
            assert_eq!(told.0.take(), expected, "{radio} {port} {command:?}");
        };
        use SenderCommand::Freeze;
        const THAW: SenderCommand = SenderCommand::Thaw { resend: Resend::First };
        tell(0, 1, THAW, &[]);
        tell(0, 1, Freeze, &["freeze w0 for 10s"]);
        tell(0, 2, Freeze, &[]);
        tell(0, 1, Freeze, &["freeze w0 for 10s"]);
        tell(1, 1, Freeze, &["freeze w1 for 10s"]);
        tell(0, 1, THAW, &[]);
        tell(0, 1, THAW, &[]);
        tell(0, 2, THAW, &["thaw w0"]);
        tell(0, 2, THAW, &[]);
        tell(1, 1, THAW, &["thaw w1"]);
        tell(2, 1, Freeze, &[]);
    }
}
