//! Numbers as text for readers: three significant digits and the unit that keeps them short.

const RATES: [(f64, &str); 4] = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];

/// A rate, from bit/s.
#[must_use]
pub fn rate(bps: f64) -> String {
    scaled(bps, &RATES)
}

/// A rate and half the width of its interval, both from bit/s, in the unit that suits the rate: "11.06 ± 0.14
/// Mbit/s".
#[must_use]
pub fn rate_with_half_width(bps: f64, half: f64) -> String {
    if !bps.is_finite() || !half.is_finite() {
        return rate(bps);
    }
    let (factor, unit) =
        RATES.iter().find(|(factor, _)| bps.abs() >= *factor).copied().unwrap_or((1.0, "bit/s"));
    format!("{:.2} ± {:.2} {unit}", bps / factor, half / factor)
}

/// A time, from s.
#[must_use]
pub fn time(seconds: f64) -> String {
    scaled(seconds, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")])
}

/// A share, from 0 to 1, as per cent. What is something does not become nothing, nor what is not all become
/// all.
#[must_use]
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return MISSING.to_owned();
    }
    match format!("{:.1}", share * 100.0) {
        shown if shown == "0.0" && share > 0.0 => "under 0.1 %".to_owned(),
        shown if shown == "100.0" && share < 1.0 => "over 99.9 %".to_owned(),
        shown => format!("{shown} %"),
    }
}

/// A count, or a mean of counts: one decimal if it is below 100 and not whole, otherwise none. What is
/// something does not become nothing.
#[must_use]
pub fn count(value: f64) -> String {
    if !value.is_finite() {
        MISSING.to_owned()
    } else if value.fract() == 0.0 || value.abs() >= 100.0 {
        format!("{value:.0}")
    } else if value > 0.0 && value < 0.05 {
        "under 0.1".to_owned()
    } else {
        format!("{value:.1}")
    }
}

/// A bare number.
#[must_use]
pub fn number(value: f64) -> String {
    if value.is_finite() { significant(value) } else { MISSING.to_owned() }
}

/// A ratio with its interval: "1.174 [1.150, 1.190]".
#[must_use]
pub fn ratio(value: f64, ci95: Option<[f64; 2]>) -> String {
    let digits = |value: f64| if value < 100.0 { format!("{value:.3}") } else { significant(value) };
    match ci95 {
        Some([low, high]) => format!("{} [{}, {}]", digits(value), digits(low), digits(high)),
        None => digits(value),
    }
}

/// An interval: "[-60.0, 23.0]".
#[must_use]
pub fn interval(low: f64, high: f64) -> String {
    format!("[{}, {}]", number(low), number(high))
}

/// A number with the unit of a result row: `bit/s` and `s` are scaled, other units are not.
#[must_use]
pub fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "bit/s" => rate(value),
        "s" => time(value),
        "" => number(value),
        unit if value.is_finite() => format!("{} {unit}", significant(value)),
        _ => MISSING.to_owned(),
    }
}

/// Stands in place of a number that does not exist.
pub const MISSING: &str = "–";

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return MISSING.to_owned();
    }
    let fits = units.iter().find(|(factor, _)| value.abs() >= *factor);
    match fits.or(units.last()) {
        Some((factor, unit)) if value != 0.0 => format!("{} {unit}", significant(value / factor)),
        _ => units.first().map_or_else(String::new, |_| format!("0 {}", zero_unit(units))),
    }
}

/// The unit of factor 1, which zero is written in.
fn zero_unit<'a>(units: &[(f64, &'a str)]) -> &'a str {
    units.iter().find(|(factor, _)| *factor == 1.0).map_or("", |(_, unit)| unit)
}

/// Three significant digits, without an exponent.
fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        v if v >= 0.1 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// `text` with lines of at most `width` characters, each ended. Lines are broken at blanks, so that a longer
/// word stays whole; the rest of a broken line is indented by two more than its beginning.
pub(crate) fn wrapped(text: &str, width: Option<u16>) -> String {
    let width = width.map_or(usize::MAX, usize::from);
    let mut out = String::new();
    for line in text.lines() {
        if line.chars().count() <= width {
            out.push_str(line);
        } else {
            let indent = line.chars().take_while(|&c| c == ' ').count();
            let mut used = indent;
            out.push_str(&" ".repeat(indent));
            for (index, word) in line.split_whitespace().enumerate() {
                let length = word.chars().count();
                if index > 0 && used + 1 + length > width {
                    out.push_str(&format!("\n{:1$}", "", indent + 2));
                    used = indent + 2;
                } else if index > 0 {
                    out.push(' ');
                    used += 1;
                }
                out.push_str(word);
                used += length;
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_in_the_unit_that_keeps_them_short() {
        for (text, expected) in [
            (rate(14_230_000.0), "14.2 Mbit/s"),
            (rate(980.0), "980 bit/s"),
            (rate_with_half_width(11_060_000.0, 135_000.0), "11.06 ± 0.14 Mbit/s"),
            (rate(0.0), "0 bit/s"),
            (time(0.0253), "25.3 ms"),
            (time(1.0), "1.00 s"),
            (time(0.0), "0 s"),
            (time(f64::NAN), "–"),
            (percent(0.9713), "97.1 %"),
            (count(3.0), "3"),
            (count(3.25), "3.2"),
            (count(0.025), "under 0.1"),
            (count(0.0), "0"),
            (percent(2.5e-5), "under 0.1 %"),
            (percent(0.0), "0.0 %"),
            (percent(0.9996), "over 99.9 %"),
            (percent(1.0), "100.0 %"),
            (number(1.174), "1.17"),
            (with_unit(12.5, "pkt"), "12.5 pkt"),
            (ratio(1.174, Some([0.99951, 312.4])), "1.174 [1.000, 312]"),
            (ratio(0.5, None), "0.500"),
            (interval(-60.0, 23.0), "[-60.0, 23.0]"),
            (with_unit(1e6, "bit/s"), "1.00 Mbit/s"),
        ] {
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn long_lines_are_broken_at_blanks_and_the_rest_is_indented() {
        let text = "a line  that fits\n\n  none: limit 12 Mbit/s; silent\n";
        assert_eq!(wrapped(text, None), text);
        assert_eq!(
            wrapped(text, Some(17)),
            "a line  that fits\n\n  none: limit 12\n    Mbit/s;\n    silent\n"
        );
        assert_eq!(wrapped("a\nmuchlonger word", Some(4)), "a\nmuchlonger\n  word\n");
    }
}
