//! What a check finds: every number beside its bound, so that a failure shows all of them and a pass its
//! margins.

use crate::runs::Evidence;

/// The numbers that one check looked at.
#[derive(Debug, Default)]
pub struct Findings {
    lines: Vec<(bool, String)>,
}

impl Findings {
    /// `value` is at least `bound`. A value that is not a number never is.
    pub fn at_least(&mut self, of: &Evidence, what: &str, value: f64, bound: f64) {
        self.note(of, value >= bound, format!("{what} is {value:.4}, at least {bound:.4} wanted"));
    }

    /// `value` is at most `bound`. A value that is not a number never is.
    pub fn at_most(&mut self, of: &Evidence, what: &str, value: f64, bound: f64) {
        self.note(of, value <= bound, format!("{what} is {value:.4}, at most {bound:.4} wanted"));
    }

    /// Two counts are the same.
    pub fn equal(&mut self, of: &Evidence, what: &str, value: u64, wanted: u64) {
        self.note(of, value == wanted, format!("{what}: {value}, {wanted} wanted"));
    }

    /// A count is not zero.
    pub fn some(&mut self, of: &Evidence, what: &str, value: u64) {
        self.note(of, value > 0, format!("{what}: {value}, some wanted"));
    }

    fn note(&mut self, of: &Evidence, holds: bool, text: String) {
        let totals = &of.record.totals;
        let also = if holds {
            String::new()
        } else {
            format!(
                " ({:.3} of the limit, {} repeated, timeouts: {:?}, {} dropped)",
                totals.limit_share, totals.retransmits, totals.rto_events, of.record.link.queue_drops
            )
        };
        self.lines.push((holds, format!("{of}: {text}{also}")));
    }

    /// Every line.
    #[must_use]
    pub fn all(&self) -> String {
        let line = |(holds, text): &(bool, String)| format!("  {} {text}", if *holds { "ok" } else { "NO" });
        self.lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Whether all holds; with the lines that do not. A check that looked at nothing does not hold.
    ///
    /// # Errors
    /// What does not hold.
    pub fn verdict(&self) -> Result<(), String> {
        let failures: Vec<&str> =
            self.lines.iter().filter(|(holds, _)| !holds).map(|(_, text)| text.as_str()).collect();
        match (failures.as_slice(), self.lines.as_slice()) {
            ([], []) => Err("The check looked at nothing.".to_owned()),
            ([], _) => Ok(()),
            _ => Err(format!("This does not hold:\n{}", failures.join("\n"))),
        }
    }
}
