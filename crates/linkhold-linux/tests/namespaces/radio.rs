//! A radio that can fall silent: a TUN pair in place of the veth between base station and station, and a
//! short queue.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::SystemTime;

use linkhold_linux::netns::NetNsError;
use linkhold_linux::testbed::tun::{MTU, Tun};
use linkhold_linux::topology::{HOST, RADIO, ThreeHosts};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Packets that wait for the air in each direction; what comes beyond is lost, as in a driver's queue.
pub const QUEUE: usize = 100;

/// The radio between base station and station, on air until told otherwise.
pub struct Radio {
    silent: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Radio {
    /// Puts it in place of the path's veth.
    pub fn replace_veth(path: &ThreeHosts) -> Result<Self, NetNsError> {
        path.bs.ip(&["link", "del", RADIO])?;
        let base = Tun::create(&path.bs, RADIO)?;
        let station = Tun::create(&path.sh, HOST)?;
        let gateways =
            [IpAddr::V4(Ipv4Addr::new(10, 91, 2, 1)), IpAddr::V6(Ipv6Addr::new(0xfd91, 2, 0, 0, 0, 0, 0, 1))];
        for (gateway, own, prefix) in
            [(gateways[0], ThreeHosts::SH_V4, 24), (gateways[1], ThreeHosts::SH_V6, 64)]
        {
            path.bs.add_address(RADIO, gateway, prefix)?;
            path.sh.add_address(HOST, own, prefix)?;
            path.sh.add_default_route(gateway)?;
        }
        let silent = Arc::new(AtomicBool::new(false));
        let stop = Arc::new(AtomicBool::new(false));
        let flags = (Arc::clone(&silent), Arc::clone(&stop));
        let thread = std::thread::spawn(move || carry([&base, &station], &flags.0, &flags.1));
        Ok(Self { silent, stop, thread: Some(thread) })
    }

    /// Nothing crosses from now on.
    pub fn fall_silent(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }

    /// Packets cross again; answers since when.
    pub fn come_back(&self) -> SystemTime {
        let now = SystemTime::now();
        self.silent.store(false, Ordering::SeqCst);
        now
    }
}

impl Drop for Radio {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn carry(ends: [&Tun; 2], silent: &AtomicBool, stop: &AtomicBool) {
    let mut queues = [VecDeque::new(), VecDeque::new()];
    let mut buffer = vec![0; usize::from(MTU)];
    while !stop.load(Ordering::SeqCst) {
        let mut polled = ends.map(|end| PollFd::new(end.as_fd(), PollFlags::POLLIN));
        // A descriptor that is ready, or a look at the flags every millisecond.
        let _ = poll(&mut polled, PollTimeout::from(1u8));
        for (from, queue) in ends.into_iter().zip(&mut queues) {
            while let Ok(Some(length)) = from.read(&mut buffer) {
                if queue.len() < QUEUE {
                    queue.push_back(buffer[..length].to_vec());
                }
                if !silent.load(Ordering::SeqCst) {
                    break;
                }
            }
        }
        for (to, queue) in [ends[1], ends[0]].into_iter().zip(&mut queues) {
            while !silent.load(Ordering::SeqCst)
                && let Some(packet) = queue.pop_front()
            {
                // An interface that is going down takes nothing: the test is over.
                let _ = to.write(&packet);
            }
        }
    }
}
