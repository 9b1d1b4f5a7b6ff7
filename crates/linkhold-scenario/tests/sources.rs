//! `[[flows]]` over UDP, with media and of the web: what they resolve to, what is said of them, what is
//! refused.

use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Bytes};
use linkhold_scenario::{
    FlowGroup, Media, NoFiles, ObjectCounts, ObjectSizes, Scenario, ScenarioError, Source, Transport, Web,
    WebConnection, json_schema,
};

const BASE: &str = r#"schema = "linkhold.scenario/1"
name = "test"
duration = "20s"
[radio]
phy_rate = "24Mbit/s"
[[flows]]
direction = "downlink"
"#;

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(text, "dir/s.toml", &[], &NoFiles)
}

fn flow(text: &str) -> FlowGroup {
    parse(text).unwrap_or_else(|error| panic!("{error}")).cases()[0].scenario.flows[0].clone()
}

#[test]
fn a_datagram_makes_a_packet_as_long_as_tcps_unless_it_is_said() {
    let udp = "transport = \"udp\"\nsource = { rate = \"1Mbit/s\" }\n";
    let datagram = |text: &str| match flow(text).transport {
        Transport::Udp { datagram } => datagram,
        other => panic!("it is UDP, and no {other:?}"),
    };
    assert_eq!(flow(BASE).transport, Transport::Tcp);
    for (more, bytes) in [
        ("", 1472),
        ("ip = \"v6\"\n", 1452),
        ("datagram = \"100B\"\n", 100),
        ("datagram = \"1472B\"\n", 1472),
        ("[tcp]\nmss = 1000\n", 1012),
    ] {
        assert_eq!(datagram(&format!("{BASE}{udp}{more}")), bytes, "{more}");
    }
    let small = BASE.replace("phy_rate = \"24Mbit/s\"", "mac = \"802.15.4\"");
    for (mss, bytes) in [(94, 94), (88, 94)] {
        assert_eq!(datagram(&format!("{small}{udp}[tcp]\nmss = {mss}\n")), bytes, "MSS {mss}");
    }
}

#[test]
fn a_paced_source_writes_what_one_packet_carries_unless_it_is_said() {
    let paced = "source = { rate = \"1Mbit/s\" }\n";
    let udp = "transport = \"udp\"\n";
    for (more, bytes) in [
        (format!("{paced}{udp}datagram = \"200B\"\n"), 200),
        // Timestamps take 12 bytes of each segment, IPv6's longer header 20.
        (paced.to_owned(), 1448),
        (format!("{paced}ip = \"v6\"\n"), 1428),
        (format!("{paced}[tcp]\ntimestamps = false\n"), 1460),
        (format!("{paced}ip = \"v6\"\n[tcp]\nprofile = \"classic\"\nmss = 1000\n"), 980),
        ("source = { rate = \"1Mbit/s\", chunk = \"5kB\" }\n".to_owned(), 5_000),
    ] {
        let Source::Paced { chunk, .. } = flow(&format!("{BASE}{more}")).source else {
            panic!("it is paced: {more}")
        };
        assert_eq!(chunk, Bytes(bytes), "{more}");
    }
}

#[test]
fn media_has_its_rate_and_frames_a_server_and_a_player() {
    let live = Media {
        rate: BitRate(1_000_000),
        chunk: Bytes(5_000),
        interval: Duration::from_millis(40),
        ahead: Duration::ZERO,
        ahead_rate: None,
        startup: Duration::from_secs(5),
        resume: Duration::from_secs(5),
    };
    let ms = Duration::from_millis;
    for (keys, media) in [
        ("", live),
        (", interval = \"20ms\"", Media { chunk: Bytes(2_500), interval: ms(20), ..live }),
        (", chunk = \"1kB\"", Media { chunk: Bytes(1_000), interval: ms(8), ..live }),
        (", startup = \"2s\"", Media { startup: ms(2_000), resume: ms(2_000), ..live }),
        (", resume = \"1s\"", Media { resume: ms(1_000), ..live }),
        (", send_ahead = \"10s\"", Media { ahead: ms(10_000), ..live }),
        (
            ", send_ahead = \"1MB\", ahead_rate = \"5Mbit/s\"",
            Media { ahead: ms(8_000), ahead_rate: Some(BitRate(5_000_000)), ..live },
        ),
    ] {
        let text = format!("{BASE}source = \"media\"\nmedia = {{ rate = \"1Mbit/s\"{keys} }}\n");
        assert_eq!(flow(&text).source, Source::Media(media), "{keys}");
    }
}

#[test]
fn a_user_of_the_web_has_the_documents_numbers_unless_they_are_said() {
    assert_eq!(flow(&format!("{BASE}source = \"web\"\n")).source, Source::Web(Web::default()));
    assert_eq!(flow(&format!("{BASE}source = \"web\"\nweb = {{}}\n")).source, Source::Web(Web::default()));
    let text = format!(
        "{BASE}source = \"web\"\n[flows.web]\nconnection = \"persistent\"\nrequest = \"500B\"\nreading_time = \"2s\"\n\
         parsing_time = \"0s\"\nmain_object = {{ median = \"10kB\", sigma = 0, max = \"20kB\" }}\n\
         embedded_object = {{ median = \"1kB\", sigma = 1.5, min = \"10B\" }}\n\
         embedded_objects = {{ shape = 2, scale = 1.5, most = 10 }}\n"
    );
    let sizes = |median, sigma, min, max| ObjectSizes { median, sigma, min, max };
    let web = Web {
        connection: WebConnection::Persistent,
        request: Bytes(500),
        main_object: sizes(Bytes(10_000), 0.0, Bytes(1), Bytes(20_000)),
        embedded_object: sizes(Bytes(1_000), 1.5, Bytes(10), Bytes(2_000_000)),
        embedded_objects: ObjectCounts { shape: 2.0, scale: 1.5, most: 10 },
        parsing_time: Duration::ZERO,
        reading_time: Duration::from_secs(2),
    };
    assert_eq!(flow(&text).source, Source::Web(web));
}

#[test]
fn the_summary_says_what_runs() {
    for (more, parts) in [
        (
            "transport = \"udp\"\nsource = \"media\"\nmedia = { rate = \"1Mbit/s\", send_ahead = \"4s\", ahead_rate = \"2Mbit/s\" }\n",
            [
                "1 flow on",
                "media of 1.00 Mbit/s",
                "up to 4s ahead at 2.00 Mbit/s",
                "over UDP in datagrams of at most 1472 B",
            ],
        ),
        ("count = 3\nsource = \"web\"\n", ["3 users on", "a connection for each page", "350", "30s to read"]),
    ] {
        let summary = parse(&format!("{BASE}{more}")).unwrap_or_else(|error| panic!("{error}")).summary();
        for part in parts {
            assert!(summary.contains(part), "{part} in\n{summary}");
        }
    }
}

#[test]
fn what_cannot_run_is_refused_with_line_key_and_what_would_be_right() {
    let udp = "transport = \"udp\"\n";
    let media = |keys: &str| format!("source = \"media\"\nmedia = {{ {keys} }}");
    let udp_media = |keys: &str| format!("{udp}{}", media(keys));
    for (more, message) in [
        (
            format!("{udp}source = \"media\""),
            "dir/s.toml:9:10: flows[0].source: media needs its rate; write media = { rate = \"1Mbit/s\" }",
        ),
        (udp_media("interval = \"20ms\""), "flows[0].media: the key `rate` is missing"),
        (udp_media("rate = \"0bit/s\""), "flows[0].media.rate: \"0bit/s\" is zero"),
        (
            format!("{udp}source = \"web\""),
            "dir/s.toml:8:13: flows[0].transport: the web runs over TCP; remove transport",
        ),
        (
            udp.to_owned(),
            "dir/s.toml:8:13: flows[0].transport: UDP has no window: a bulk source would send without bound",
        ),
        (
            format!("{udp}source = \"100kB\""),
            "dir/s.toml:9:10: flows[0].source: UDP has no window: an amount needs a rate",
        ),
        (
            format!("{udp}source = {{ rate = \"1Mbit/s\" }}\ndatagram = \"1473B\""),
            "dir/s.toml:10:12: flows[0].datagram: a datagram of 1473 bytes does not fit: tcp.mss = 1460 makes packets of 1500 \
             bytes, and 28 of them are headers; write at most 1472B, or raise tcp.mss",
        ),
        (
            format!("{udp}ip = \"v6\"\nsource = {{ rate = \"1Mbit/s\" }}\ndatagram = \"1453B\""),
            "write at most 1452B",
        ),
        (
            format!("{udp}source = {{ rate = \"1Mbit/s\" }}\ndatagram = \"0B\""),
            "flows[0].datagram: \"0B\" is zero",
        ),
        ("datagram = \"100B\"".to_owned(), "flows[0].datagram: does nothing with transport = \"tcp\""),
        (
            format!("{udp}source = {{ rate = \"1Mbit/s\" }}\narrivals = \"2/s\""),
            "flows[0].arrivals: connections that arrive",
        ),
        ("transport = \"sctp\"".to_owned(), "flows[0].transport"),
        (
            "media = { rate = \"1Mbit/s\" }".to_owned(),
            "flows[0].media: does nothing without source = \"media\"",
        ),
        ("web = {}".to_owned(), "flows[0].web: does nothing without source = \"web\""),
        (media("rate = \"1Mbit/s\", interval = \"40ms\", chunk = \"1kB\""), "remove chunk, or interval"),
        (
            media("rate = \"1kbit/s\", interval = \"1ms\""),
            "flows[0].media.interval: a frame has no byte at 1.0 kbit/s",
        ),
        (
            media("rate = \"1Mbit/s\", ahead_rate = \"2Mbit/s\""),
            "flows[0].media.ahead_rate: does nothing for a live server",
        ),
        (
            media("rate = \"1Mbit/s\", send_ahead = \"4s\", ahead_rate = \"1Mbit/s\""),
            "flows[0].media.ahead_rate: at 1.00 Mbit/s a server never gets ahead of media of 1.00 Mbit/s",
        ),
        (
            udp_media("rate = \"1Mbit/s\", send_ahead = \"4s\""),
            "flows[0].media.send_ahead: UDP needs the rate at which the server gets ahead; write ahead_rate, for example \
             \"2000000bit/s\"",
        ),
        (media("rate = \"1Mbit/s\", send_ahead = \"4 parsecs\""), "\"4 parsecs\" is no time and no amount"),
        (media("rate = \"1Mbit/s\", send_ahead = 4"), "flows[0].media.send_ahead: the number 4 has no unit"),
        (media("rate = \"1Mbit/s\", buffer = \"4s\""), "flows[0].media.buffer: unknown key"),
        (
            "source = \"web\"\nweb = { main_object = { median = \"10B\", sigma = 1, min = \"20B\" } }"
                .to_owned(),
            "flows[0].web.main_object.median: a median of 10 B is not between 20 B and",
        ),
        (
            "source = \"web\"\nweb = { main_object = { median = \"10B\", sigma = -1 } }".to_owned(),
            "flows[0].web.main_object.sigma: the number -1 is no standard deviation of a logarithm",
        ),
        (
            "source = \"web\"\nweb = { embedded_objects = { shape = 0, scale = 2, most = 5 } }".to_owned(),
            "flows[0].web.embedded_objects.shape: the number 0 is no parameter of a Pareto law",
        ),
        ("source = \"web\"\nweb = { connection = \"often\" }".to_owned(), "flows[0].web.connection"),
    ] {
        let error = parse(&format!("{BASE}{more}\n")).expect_err(&more).to_string();
        assert!(error.contains(message), "{more}\n  want {message}\n  got  {error}");
        assert_eq!(error.trim().lines().count(), 1, "one problem: {error}");
    }
    let small = BASE.replace("phy_rate = \"24Mbit/s\"", "mac = \"802.15.4\"");
    let text =
        format!("{small}{udp}datagram = \"95B\"\nsource = {{ rate = \"1kbit/s\" }}\n[tcp]\nmss = 94\n");
    let error = parse(&text).expect_err("it does not fit").to_string();
    assert!(
        error.contains("of an MPDU of 127 bytes 33 are headers and check sequence; write at most 94B"),
        "{error}"
    );
}

#[test]
fn quic_sends_in_bulk_or_an_amount_in_datagrams_as_long_as_udps() {
    let quic = "transport = \"quic\"\n";
    for (more, datagram, source) in [
        ("", 1472, Source::Bulk),
        ("ip = \"v6\"\nsource = \"100kB\"\n", 1452, Source::Finite(Bytes(100_000))),
        ("datagram = \"1200B\"\nsource = \"bulk\"\n", 1200, Source::Bulk),
        ("source = \"1MB\"\narrivals = \"2/s\"\n", 1472, Source::Finite(Bytes(1_000_000))),
        ("[tcp]\nmss = 1200\n", 1212, Source::Bulk),
    ] {
        let flow = flow(&format!("{BASE}{quic}{more}"));
        assert_eq!((flow.transport, flow.source), (Transport::Quic { datagram }, source), "{more}");
    }
    let summary = parse(&format!("{BASE}{quic}")).unwrap_or_else(|error| panic!("{error}")).summary();
    assert!(
        summary.contains(
            "1 connection on each of 1 station, bulk over QUIC (testbed only) in datagrams of at most 1472 B"
        ),
        "{summary}"
    );
}

#[test]
fn what_quic_does_not_have_is_refused_with_line_key_and_what_would_be_right() {
    let quic = "transport = \"quic\"\n";
    for (more, message) in [
        (
            "source = { rate = \"1Mbit/s\" }",
            "dir/s.toml:9:1: flows[0].source: a flow of QUIC has no rate of its own: its congestion control finds one; \
             write source = \"bulk\" or an amount",
        ),
        (
            "source = \"media\"\nmedia = { rate = \"1Mbit/s\" }",
            "dir/s.toml:9:10: flows[0].source: media and the web do not run over QUIC here",
        ),
        ("source = \"web\"", "dir/s.toml:9:10: flows[0].source: media and the web do not run over QUIC here"),
        ("media = { rate = \"1Mbit/s\" }", "flows[0].media: does nothing without source = \"media\""),
        (
            "datagram = \"1199B\"",
            "dir/s.toml:9:12: flows[0].datagram: QUIC needs datagrams of 1200 bytes (RFC 9000 section 14); write at least \
             1200B",
        ),
        (
            "datagram = \"1473B\"",
            "dir/s.toml:9:12: flows[0].datagram: a datagram of 1473 bytes does not fit: tcp.mss = 1460 makes packets",
        ),
        (
            "[tcp]\nmss = 1000",
            "dir/s.toml:8:13: flows[0].transport: QUIC needs datagrams of 1200 bytes (RFC 9000), and 1012 fit: tcp.mss = 1000",
        ),
        ("arrivals = \"2/s\"", "flows[0].arrivals: connections that arrive at random need an end"),
    ] {
        let error = parse(&format!("{BASE}{quic}{more}\n")).expect_err(more).to_string();
        assert!(error.contains(message), "{more}\n  want {message}\n  got  {error}");
        assert_eq!(error.trim().lines().count(), 1, "one problem: {error}");
    }
    let small = BASE.replace("phy_rate = \"24Mbit/s\"", "mac = \"802.15.4\"");
    let error = parse(&format!("{small}{quic}[tcp]\nmss = 94\n")).expect_err("no room").to_string();
    assert!(error.contains("flows[0].transport: QUIC needs datagrams of 1200 bytes"), "{error}");
}

#[test]
fn the_schema_knows_the_keys() {
    let schema = json_schema().to_string();
    for part in [
        "\"transport\"",
        "\"datagram\"",
        "\"send_ahead\"",
        "\"embedded_objects\"",
        "\"persistent\"",
        "\"udp\"",
        "\"quic\"",
    ] {
        assert!(schema.contains(part), "{part}");
    }
}
