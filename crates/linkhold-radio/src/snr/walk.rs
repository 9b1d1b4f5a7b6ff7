//! The SNR of a station that walks away from its base station and back, again and again.
//!
//! Paper: `activation` sections 1 and 3.1 (connectivity falls as the mobile host moves away). Source of the
//! path loss: the log-distance law (Rappaport, *Wireless Communications*, 2nd ed., eq. 4.69) without
//! shadowing, SNR(d) = SNR(1 m) − 10 n log10(d / 1 m), with fading on top ([`super::fading`]).

use linkhold_core::time::Instant;

use crate::rng::Stream;
use crate::snr::fading::{Fader, Fading};

/// Metres that light travels in a second.
const LIGHT: f64 = 299_792_458.0;
/// Hertz of the carrier from which a Doppler shift follows where none is stated: channel 6 of the 2.4 GHz
/// band (IEEE Std 802.11-2020, clause 15.4.4.3).
const CARRIER: f64 = 2.437e9;

/// A walk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WalkConfig {
    /// SNR one metre from the base station, dB.
    pub snr_at_1m: f64,
    /// How fast the SNR falls with the distance (the path-loss exponent; 2 in free space).
    pub exponent: f64,
    /// Nearest point, m; at least 1.
    pub near: f64,
    /// Farthest point, m.
    pub far: f64,
    /// Speed, m/s; zero stands still.
    pub speed: f64,
    /// What many paths do to it.
    pub fading: Fading,
    /// Largest Doppler shift, Hz; `None`: what the speed makes of a 2.4 GHz carrier.
    pub doppler: Option<f64>,
    /// Each repetition and station starts at a place of the walk that its seed draws, rather than near.
    pub random_start: bool,
}

/// One station's walk.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Walk {
    config: WalkConfig,
    /// Metres walked before time 0.
    ahead: f64,
    fader: Option<Fader>,
}

impl Walk {
    pub(crate) fn new(config: WalkConfig, stream: &mut Stream) -> Self {
        // Drawn in any case, so that a fixed start has the same fading as a random one.
        let place = stream.unit();
        let ahead = if config.random_start { place * 2.0 * (config.far - config.near) } else { 0.0 };
        let doppler = config.doppler.unwrap_or(config.speed * CARRIER / LIGHT);
        Self { config, ahead, fader: Fader::new(config.fading, doppler, stream) }
    }

    pub(crate) fn db_at(&self, at: Instant) -> f64 {
        let fade = self.fader.as_ref().map_or(0.0, |fader| fader.gain_db(at));
        self.config.snr_at_1m - 10.0 * self.config.exponent * self.distance(at).log10() + fade
    }

    /// Metres from the base station.
    fn distance(&self, at: Instant) -> f64 {
        let span = (self.config.far - self.config.near).max(0.0);
        if span == 0.0 {
            return self.config.near.max(1.0);
        }
        let walked = (self.ahead + self.config.speed * at.as_secs_f64()) % (2.0 * span);
        let out = if walked <= span { walked } else { 2.0 * span - walked };
        (self.config.near + out).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALK: WalkConfig = WalkConfig {
        snr_at_1m: 40.0,
        exponent: 3.0,
        near: 1.0,
        far: 11.0,
        speed: 2.0,
        fading: Fading::None,
        doppler: None,
        random_start: false,
    };

    #[test]
    fn the_snr_falls_by_the_exponent_for_each_decade_of_distance() {
        let walk = Walk::new(WALK, &mut Stream::new(1, "walk", 0));
        let at = |ms| walk.db_at(Instant::from_millis(ms));
        assert!((at(0) - 40.0).abs() < 1e-9);
        // After 4.5 s it is 10 m away.
        assert!((at(4500) - 10.0).abs() < 1e-9, "{}", at(4500));
        // Out for 5 s, back for 5 s.
        assert!((at(5500) - at(4500)).abs() < 1e-9);
        assert!((at(10_000) - 40.0).abs() < 1e-6);
    }

    #[test]
    fn who_stands_still_has_one_distance() {
        let still = Walk::new(WalkConfig { far: 1.0, speed: 0.0, ..WALK }, &mut Stream::new(1, "walk", 0));
        assert_eq!(still.db_at(Instant::from_millis(7)), 40.0);
    }

    #[test]
    fn a_random_start_is_drawn_by_the_seed_and_changes_no_fading() {
        let config = WalkConfig { random_start: true, fading: Fading::Rayleigh, ..WALK };
        let start = |seed, config| Walk::new(config, &mut Stream::new(seed, "walk", 0));
        assert_ne!(start(1, config).distance(Instant::ZERO), start(2, config).distance(Instant::ZERO));
        let fixed = start(1, WalkConfig { random_start: false, ..config });
        assert_eq!(start(1, config).fader, fixed.fader);
    }
}
