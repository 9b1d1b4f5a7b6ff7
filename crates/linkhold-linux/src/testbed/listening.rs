//! Whether servers listen, as the kernel tells it: a look at its table of sockets disturbs no server, where a
//! connection would be taken for a client's.

use std::time::{Duration, Instant};

use crate::netns::{NetNs, NetNsError};

/// The tables of the network namespace of the thread that reads them (proc(5)).
const TABLES: [&str; 2] = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
/// `TCP_LISTEN` (linux/net/tcp_states.h).
const LISTEN: &str = "0A";
/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until somebody listens on each of these ports of a namespace, for at most `limit`; answers a port on
/// which nobody does.
///
/// # Errors
/// [`NetNsError`] if the namespace cannot be entered.
pub fn wait_for_ports(netns: &NetNs, ports: &[u16], limit: Duration) -> Result<Option<u16>, NetNsError> {
    netns.enter(|| {
        let began = Instant::now();
        loop {
            let tables = TABLES.map(|table| std::fs::read_to_string(table).unwrap_or_default());
            let is_closed = |port: &&u16| !tables.iter().any(|table| listens(table, **port));
            match ports.iter().find(is_closed) {
                Some(_) if began.elapsed() < limit => std::thread::sleep(LOOK),
                missing => return missing.copied(),
            }
        }
    })
}

/// Whether a socket of this table listens on `port`. A line has its number, its own address and port, the
/// peer's, and its state, all in hexadecimal digits.
fn listens(table: &str, port: u16) -> bool {
    table.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (own, state) = (words.next(), words.nth(1));
        let own = own.and_then(|own| own.rsplit_once(':')).map(|(_, port)| u16::from_str_radix(port, 16));
        state == Some(LISTEN) && own == Some(Ok(port))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_listening_socket_of_that_port_counts() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n\
                     0: 00000000:1451 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n\
                     1: 0100007F:1452 0100007F:1451 01 00000000:00000000 00:00000000 00000000     0\n";
        assert!(listens(table, 0x1451) && !listens(table, 0x1452) && !listens(table, 0x1453));
        let of_ipv6 =
            "   0: 00000000000000000000000000000000:1451 00000000000000000000000000000000:0000 0A 0";
        assert!(listens(of_ipv6, 0x1451) && !listens("", 0x1451) && !listens("0: x 0A", 0x1451));
    }

    #[test]
    fn this_machines_table_has_a_listener_of_this_test() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_there = || TABLES.iter().any(|table| listens(&std::fs::read_to_string(table).unwrap(), port));
        assert!(is_there());
    }
}
