//! The forms in which radios write a complex sample, and their conversion to numbers of full scale 1.
//!
//! Source: SigMF 1.2, "Dataset format" (`cf32_le`, `ci16_le`, `ci8`, `cu8`). GNU Radio's file sink writes the
//! first, `hackrf_transfer` the third and `rtl_sdr` the last.

use rustfft::num_complex::Complex;

/// A sample: in-phase and quadrature part, of full scale 1.
pub type Sample = Complex<f32>;

/// Form of a sample in bytes. Every form has the in-phase part first, and its lowest byte first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Two 32-bit floats (`cf32_le`).
    Cf32,
    /// Two 16-bit integers (`ci16_le`).
    Ci16,
    /// Two signed bytes (`ci8`).
    Ci8,
    /// Two unsigned bytes around 127.5 (`cu8`).
    Cu8,
}

impl Format {
    /// Every form, by its name on the command line.
    pub const ALL: [(&'static str, Self); 4] =
        [("cf32", Self::Cf32), ("ci16", Self::Ci16), ("ci8", Self::Ci8), ("cu8", Self::Cu8)];

    /// The form that SigMF's `core:datatype` names; `None` if this crate cannot read it.
    #[must_use]
    pub fn of_datatype(name: &str) -> Option<Self> {
        match name {
            "cf32_le" => Some(Self::Cf32),
            "ci16_le" => Some(Self::Ci16),
            "ci8" => Some(Self::Ci8),
            "cu8" => Some(Self::Cu8),
            _ => None,
        }
    }

    /// Its name in SigMF.
    #[must_use]
    pub const fn datatype(self) -> &'static str {
        match self {
            Self::Cf32 => "cf32_le",
            Self::Ci16 => "ci16_le",
            Self::Ci8 => "ci8",
            Self::Cu8 => "cu8",
        }
    }

    /// Bytes of a sample.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Cf32 => 8,
            Self::Ci16 => 4,
            Self::Ci8 | Self::Cu8 => 2,
        }
    }

    /// Converts `bytes` to samples, as many as both slices hold; returns how many.
    pub fn decode(self, bytes: &[u8], out: &mut [Sample]) -> usize {
        let whole = out.len().min(bytes.len() / self.size());
        match self {
            Self::Cf32 => each(bytes, out, |[a, b, c, d, e, f, g, h]: [u8; 8]| {
                Sample::new(f32::from_le_bytes([a, b, c, d]), f32::from_le_bytes([e, f, g, h]))
            }),
            Self::Ci16 => each(bytes, out, |[a, b, c, d]: [u8; 4]| {
                let part = |low, high| f32::from(i16::from_le_bytes([low, high])) * (1.0 / 32_768.0);
                Sample::new(part(a, b), part(c, d))
            }),
            Self::Ci8 => each(bytes, out, |[a, b]: [u8; 2]| {
                let part = |byte: u8| f32::from(byte.cast_signed()) * (1.0 / 128.0);
                Sample::new(part(a), part(b))
            }),
            // SigMF puts zero at 128 and the RTL2832's converter at about 127.4. Either is within 0.004 of
            // full scale of the middle of the range, and `notch_dc` removes what offset is left.
            Self::Cu8 => each(bytes, out, |[a, b]: [u8; 2]| {
                let part = |byte: u8| (f32::from(byte) - 127.5) * (1.0 / 128.0);
                Sample::new(part(a), part(b))
            }),
        }
        whole
    }

    /// The most power that a sample of this form can have, full scale being 1: both parts at their ends, and
    /// so twice that of a full tone. `None` of floats, whose largest number is no radio's.
    #[must_use]
    pub const fn most_power(self) -> Option<f64> {
        match self {
            Self::Cf32 => None,
            Self::Ci16 | Self::Ci8 => Some(2.0),
            Self::Cu8 => Some(2.0 * (127.5 / 128.0) * (127.5 / 128.0)),
        }
    }

    /// Appends the bytes of `sample`, clipped to full scale.
    pub fn encode(self, sample: Sample, out: &mut Vec<u8>) {
        for part in [sample.re, sample.im] {
            match self {
                Self::Cf32 => out.extend_from_slice(&part.to_le_bytes()),
                // `as` saturates, as a converter does.
                Self::Ci16 => out.extend_from_slice(&((part * 32_768.0).round() as i16).to_le_bytes()),
                Self::Ci8 => out.push(((part * 128.0).round() as i8).cast_unsigned()),
                Self::Cu8 => out.push((part * 128.0 + 127.5).round() as u8),
            }
        }
    }
}

fn each<const N: usize>(bytes: &[u8], out: &mut [Sample], convert: impl Fn([u8; N]) -> Sample) {
    let (groups, _) = bytes.as_chunks::<N>();
    for (slot, group) in out.iter_mut().zip(groups) {
        *slot = convert(*group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_its_bytes() {
        for (format, bytes, expected) in [
            (Format::Cf32, &[0, 0, 0, 63, 0, 0, 128, 191][..], Sample::new(0.5, -1.0)),
            (Format::Ci16, &[0, 64, 0, 128], Sample::new(0.5, -1.0)),
            (Format::Ci8, &[64, 128], Sample::new(0.5, -1.0)),
            (Format::Cu8, &[255, 0], Sample::new(127.5 / 128.0, -127.5 / 128.0)),
        ] {
            let mut out = [Sample::default(); 2];
            assert_eq!(format.decode(bytes, &mut out), 1, "{format:?}");
            assert_eq!(out[0], expected, "{format:?}");
            assert_eq!(bytes.len(), format.size());
            let mut again = Vec::new();
            format.encode(expected, &mut again);
            assert_eq!(again, bytes, "{format:?}");
            assert_eq!(Format::of_datatype(format.datatype()), Some(format));
        }
    }

    #[test]
    fn what_is_beyond_full_scale_is_clipped() {
        for format in [Format::Ci16, Format::Ci8, Format::Cu8] {
            let (mut bytes, mut out) = (Vec::new(), [Sample::default()]);
            format.encode(Sample::new(7.0, -7.0), &mut bytes);
            format.decode(&bytes, &mut out);
            assert!(out[0].re > 0.99 && out[0].im < -0.99, "{format:?} {out:?}");
            format.encode(Sample::new(-7.0, -7.0), &mut bytes);
            format.decode(&bytes[bytes.len() - format.size()..], &mut out);
            assert_eq!(format.most_power(), Some(f64::from(out[0].norm_sqr())), "{format:?}");
        }
    }
}
