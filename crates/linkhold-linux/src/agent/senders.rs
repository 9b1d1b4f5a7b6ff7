//! The senders of this machine, as far as a driver can command them.

use linkhold_core::action::SenderCommand;
use linkhold_core::packet::FlowKey;

/// Whoever carries out [`Action::Sender`](linkhold_core::action::Action::Sender).
pub trait Senders {
    /// A mechanism commands the sender of a connection that crosses a radio (its index).
    fn command(&mut self, radio: usize, flow: &FlowKey, command: SenderCommand);

    /// What the kernel's side did, if there is one.
    fn kernel(&self) -> Option<crate::host::kernel::KernelCounters>;
}

/// A router has none: its senders are other hosts.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSenders;

impl Senders for NoSenders {
    fn command(&mut self, _radio: usize, _flow: &FlowKey, _command: SenderCommand) {}

    fn kernel(&self) -> Option<crate::host::kernel::KernelCounters> {
        None
    }
}
