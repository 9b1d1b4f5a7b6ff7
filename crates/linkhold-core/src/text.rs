//! Text that users wrote, as messages show it.

use std::fmt::{self, Write as _};

/// Writes text that may hold what a user wrote as one line: control characters are escaped, so neither a line
/// break nor a terminal's escape sequence gets through.
///
/// # Errors
/// What the formatter refuses.
pub fn write_line(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for c in text.chars() {
        if c.is_control() { write!(f, "{}", c.escape_default())? } else { f.write_char(c)? }
    }
    Ok(())
}

/// At most 60 characters of a user's text, so that a message stays a line.
#[must_use]
pub fn shorten(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((cut, _)) => format!("{}...", &text[..cut]),
        None => text.to_owned(),
    }
}

/// The known name nearest to `wanted`, if it is near enough to be a slip of the keyboard.
pub fn did_you_mean<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (wanted.chars().count() / 3).clamp(1, 3);
    known
        .map(|name| (edit_distance(wanted, name), name))
        .filter(|&(distance, _)| distance <= limit)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name)
}

/// Number of characters that are wrong, missing or too many, two that are swapped counting once (Damerau and
/// Levenshtein's distance, restricted to swaps of neighbours). A text longer than any of our names counts as
/// far away, so that hostile input costs nothing.
fn edit_distance(a: &str, b: &str) -> usize {
    if a.len() > 64 {
        return usize::MAX;
    }
    let [a, b] = [a, b].map(|text| text.chars().collect::<Vec<char>>());
    // Distances of a's first characters, two, one and none fewer than now, from each beginning of b.
    let mut earlier = vec![0; b.len() + 1];
    let mut before: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1; b.len() + 1];
        for (j, to) in b.iter().enumerate() {
            let other = usize::from(!from.eq_ignore_ascii_case(to));
            row[j + 1] = (before[j] + other).min(before[j + 1] + 1).min(row[j] + 1);
            let swapped =
                i > 0 && j > 0 && from.eq_ignore_ascii_case(&b[j - 1]) && a[i - 1].eq_ignore_ascii_case(to);
            if swapped {
                row[j + 1] = row[j + 1].min(earlier[j - 1] + 1);
            }
        }
        earlier = std::mem::replace(&mut before, row);
    }
    before[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_counts_single_changes() {
        for (a, b, distance) in [
            ("", "", 0),
            ("limit", "limit", 0),
            ("limt", "limit", 1),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("raido", "radio", 1),
            ("ab", "ba", 1),
            ("abcd", "badc", 2),
            ("Raido", "raDio", 1),
        ] {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
            assert_eq!(edit_distance(b, a), distance, "{b} {a}");
        }
    }

    #[test]
    fn only_near_names_are_suggested() {
        let known = ["phy_rate", "mac", "stations", "sensing"];
        assert_eq!(did_you_mean("phyrate", known.into_iter()), Some("phy_rate"));
        assert_eq!(did_you_mean("station", known.into_iter()), Some("stations"));
        assert_eq!(
            did_you_mean("raido", ["radio"].into_iter()),
            Some("radio"),
            "swapped letters are one slip"
        );
        assert_eq!(did_you_mean("colour", known.into_iter()), None);
        assert_eq!(did_you_mean(&"x".repeat(100_000), known.into_iter()), None);
    }
}
