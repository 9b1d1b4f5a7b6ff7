//! Frequencies and sample rates as users write them: `2.4GHz`, `-50kHz`, `2.4MS/s`.

use linkhold_core::quantity::ValueError;

/// Largest magnitude, Hz: beyond every radio, and exact in an `f64`.
const MAX_HZ: f64 = 1e12;

const UNITS: [(&str, f64); 9] = [
    ("Hz", 1.0),
    ("kHz", 1e3),
    ("MHz", 1e6),
    ("GHz", 1e9),
    ("S/s", 1.0),
    ("kS/s", 1e3),
    ("MS/s", 1e6),
    ("k", 1e3),
    ("M", 1e6),
];

/// Reads a frequency, in Hz; a sign is allowed, and a number without a unit is in Hz.
///
/// # Errors
/// [`ValueError`] if it is no number, its unit is unknown, or it is beyond 1 THz.
pub fn frequency(text: &str) -> Result<f64, ValueError> {
    let wrong = |what: &str| ValueError::new(format!("{text:?} {what}"), "write a frequency such as 2.4MHz");
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let number: f64 = number.trim().parse().map_err(|_| wrong("is no frequency"))?;
    let scale = match unit {
        "" => 1.0,
        unit => {
            UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(|| wrong("has no unit that is known"))?.1
        }
    };
    let hz = number * scale;
    if hz.abs() <= MAX_HZ { Ok(hz) } else { Err(wrong("is beyond 1000 GHz")) }
}

/// Reads a band, lowest and highest frequency in Hz, as in `-50kHz..50kHz`.
///
/// # Errors
/// [`ValueError`] if there are not two frequencies, or the first is not the lower one.
pub fn band(text: &str) -> Result<(f64, f64), ValueError> {
    let right = "write the lowest and the highest frequency, as in -50kHz..50kHz";
    let (low, high) =
        text.split_once("..").ok_or_else(|| ValueError::new(format!("{text:?} is no band"), right))?;
    let (low, high) = (frequency(low)?, frequency(high)?);
    if low < high {
        Ok((low, high))
    } else {
        Err(ValueError::new(format!("{text:?} does not begin below its end"), right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_are_read_with_their_unit() {
        for (text, hz) in [
            ("2.4MHz", 2.4e6),
            ("-50 kHz", -50e3),
            ("200000", 2e5),
            ("2.4MS/s", 2.4e6),
            ("2.432GHz", 2.432e9),
            ("2.4M", 2.4e6),
            ("0", 0.0),
        ] {
            assert!((frequency(text).expect(text) - hz).abs() < 1e-6, "{text}");
        }
        assert_eq!(band("-50kHz..1.5MHz"), Ok((-50e3, 1.5e6)));
    }

    #[test]
    fn what_is_no_frequency_is_refused() {
        for text in ["", "MHz", "1e3", "1mHz", "inf", "NaN", "9999GHz", "1..2"] {
            assert!(frequency(text).is_err(), "{text}");
        }
        for text in ["50kHz", "50kHz..-50kHz", "1kHz..1kHz", "..", "1kHz..2kHz..3kHz"] {
            assert!(band(text).is_err(), "{text}");
        }
    }
}
