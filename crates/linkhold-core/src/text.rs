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

/// Levenshtein distance. A text longer than any of our names counts as far away, so that hostile input costs
/// nothing.
fn edit_distance(a: &str, b: &str) -> usize {
    if a.len() > 64 {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, &to) in row.iter_mut().skip(1).zip(&b) {
            let same = if from.eq_ignore_ascii_case(&to) { diagonal } else { diagonal + 1 };
            diagonal = *cell;
            left = same.min(left + 1).min(diagonal + 1);
            *cell = left;
        }
        row[0] = i + 1;
    }
    row[b.len()]
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
        assert_eq!(did_you_mean("colour", known.into_iter()), None);
        assert_eq!(did_you_mean(&"x".repeat(100_000), known.into_iter()), None);
    }
}
