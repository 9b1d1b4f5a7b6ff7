//! How both ends of a QUIC flow are set up.

use std::sync::Arc;
use std::time::Duration;

use linkhold_scenario::ResolvedScenario;
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::rustls::RootCertStore;
use quinn_proto::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use quinn_proto::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig, VarInt};

use super::counting::{CountedFactory, Counters};

/// The name in the server's certificate.
pub const SERVER_NAME: &str = "linkhold.test";
/// The congestion controls that quinn has, as the kernel calls them. What quinn calls BBR is experimental, as
/// its documentation says.
pub const CONGESTION_CONTROLS: [&str; 3] = ["cubic", "reno", "bbr"];

/// True if quinn has the congestion control.
#[must_use]
pub fn has_congestion(name: &str) -> bool {
    CONGESTION_CONTROLS.contains(&name)
}

/// A server's certificate, signed by itself, and what a client needs to believe it. It is made for one run.
pub struct Identity {
    certificate: rcgen::CertifiedKey<rcgen::KeyPair>,
    roots: Arc<RootCertStore>,
}

impl Identity {
    /// A new one.
    ///
    /// # Errors
    /// What the cryptography says, in words.
    pub fn new() -> Result<Self, String> {
        let made = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()]);
        let certificate = made.map_err(|error| error.to_string())?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate.cert.der().clone()).map_err(|error| error.to_string())?;
        Ok(Self { certificate, roots: Arc::new(roots) })
    }

    /// The server's side with this transport.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn server(&self, transport: Arc<TransportConfig>) -> Result<ServerConfig, String> {
        let key = PrivatePkcs8KeyDer::from(self.certificate.signing_key.serialize_der());
        let chain = vec![self.certificate.cert.der().clone()];
        let mut config = ServerConfig::with_single_cert(chain, PrivateKeyDer::Pkcs8(key))
            .map_err(|error| error.to_string())?;
        config.transport_config(transport);
        Ok(config)
    }

    /// The client's side with this transport.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn client(&self, transport: Arc<TransportConfig>) -> Result<ClientConfig, String> {
        let mut config =
            ClientConfig::with_root_certificates(self.roots.clone()).map_err(|error| error.to_string())?;
        config.transport_config(transport);
        Ok(config)
    }
}

/// Datagrams of any size that the testbed's packets have room for.
///
/// # Errors
/// If quinn takes no datagrams of that size.
pub fn endpoint(datagram: u16) -> Result<EndpointConfig, String> {
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(datagram).map_err(|error| error.to_string())?;
    Ok(config)
}

/// What the ends of all QUIC flows of a run have in common.
#[derive(Clone, Debug)]
pub struct Common {
    congestion: String,
    /// Most bytes that a receiver takes before its application has read them.
    receive_window: u64,
    /// Most bytes that a sender keeps.
    send_window: u64,
    /// When counting begins, after the start of the run.
    pub warm_up: Duration,
}

impl Common {
    /// With the congestion control that is asked for, and the buffers of the scenario's TCP.
    #[must_use]
    pub fn of(scenario: &ResolvedScenario, congestion: &str) -> Self {
        let tcp = &scenario.tcp;
        Self {
            congestion: congestion.to_owned(),
            receive_window: tcp.receive_autotune.unwrap_or(tcp.receive_buffer).0,
            send_window: tcp.send_buffer.0,
            warm_up: Duration::from_nanos(scenario.warm_up.as_nanos()),
        }
    }
}

/// An end whose full datagrams have `datagram` bytes. What its congestion control does goes to `counters`.
///
/// # Errors
/// If quinn has no such congestion control.
pub fn transport(common: &Common, datagram: u16, counters: Arc<Counters>) -> Result<TransportConfig, String> {
    let inner: Arc<dyn ControllerFactory + Send + Sync> = match common.congestion.as_str() {
        "cubic" => Arc::new(CubicConfig::default()),
        "reno" => Arc::new(NewRenoConfig::default()),
        "bbr" => Arc::new(BbrConfig::default()),
        other => return Err(format!("quinn has no congestion control {other:?}")),
    };
    let window = VarInt::from_u64(common.receive_window).unwrap_or(VarInt::MAX);
    let mut config = TransportConfig::default();
    config
        .congestion_controller_factory(Arc::new(CountedFactory::new(inner, counters)))
        // The path is known: nothing smaller is tried after losses, and nothing larger.
        .initial_mtu(datagram)
        .min_mtu(datagram)
        .mtu_discovery_config(None)
        .stream_receive_window(window)
        .send_window(common.send_window)
        // A silence may be longer than any time after which an end would give up.
        .max_idle_timeout(None);
    Ok(config)
}
