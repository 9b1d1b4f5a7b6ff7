//! An application that writes as it goes, at both ends of one connection: requests and responses.

mod common;

use common::{Fate, LinkConfig, Net, at, ms};
use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Bytes};
use linkhold_tcp::{Congestion, Recovery, Source, TcpConfig};

const LINK: LinkConfig =
    LinkConfig { rate: BitRate::from_mbps(2), delay: Duration::from_millis(20), queue: 100 };
const WRITTEN: Source = Source::Written(Bytes(0));

/// Lets the client ask `rounds` times for `response` bytes, each time when it has the last response.
fn ask(net: &mut Net, rounds: u64, request: u64, response: u64) {
    for round in 1..=rounds {
        net.ends[0].write(net.now, Bytes(request));
        let deadline = net.now + Duration::from_secs(120);
        net.run_while(deadline, |net| net.ends[1].delivered() < round * request);
        assert_eq!(net.ends[1].delivered(), round * request, "request {round}");
        net.ends[1].write(net.now, Bytes(response));
        net.run_while(deadline, |net| net.ends[0].delivered() < round * response);
        assert_eq!(net.ends[0].delivered(), round * response, "response {round}");
    }
}

#[test]
fn both_ends_write_on_one_connection_and_every_byte_arrives_over_a_lossy_link() {
    for config in
        [TcpConfig::linux(Congestion::Cubic), TcpConfig::classic(Recovery::NewReno, Congestion::Reno)]
    {
        let mut net = Net::new((&config, WRITTEN), (&config, WRITTEN), LINK);
        let mut count = 0;
        net.hook = Box::new(move |_, _, _, _| {
            count += 1;
            if count % 17 == 0 { Fate::Drop } else { Fate::Pass }
        });
        ask(&mut net, 20, 350, 10_000);
        assert!(net.ends[1].stats().retransmits > 0, "the link lost nothing");
    }
}

#[test]
fn the_client_ends_the_connection_and_the_server_follows_with_what_it_has_written() {
    let config = TcpConfig::linux(Congestion::Cubic);
    let mut net = Net::new((&config, WRITTEN), (&config, WRITTEN), LINK);
    ask(&mut net, 1, 350, 5_000);
    net.ends[1].write(net.now, Bytes(700));
    let now = net.now;
    net.ends[0].end_source(now);
    net.run(now + ms(2_000));
    assert!(net.ends.iter().all(linkhold_tcp::Endpoint::is_closed));
    assert_eq!((net.ends[0].delivered(), net.ends[1].delivered()), (5_700, 350));
}

#[test]
fn what_is_written_before_the_handshake_goes_after_it() {
    let config = TcpConfig::linux(Congestion::Cubic);
    let mut net = Net::new((&config, WRITTEN), (&config, Source::None), LINK);
    net.ends[0].write(at(0), Bytes(3_000));
    net.run(at(500));
    assert_eq!(net.ends[1].delivered(), 3_000);
}
