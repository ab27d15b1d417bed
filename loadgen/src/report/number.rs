//! Numbers for people to read.

use indicatif::HumanCount;

/// The number with its digits in groups of three: `1,234,567`.
pub fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

/// A rate or another amount rounded to a whole number, with its digits in groups of three: `12,346`.
pub fn rounded(number: f64) -> String {
    // The cast saturates, and a rate is neither negative nor that large.
    grouped(number.round() as u64)
}

/// A number with its noun: `1 connection`, `2,000 connections`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::{counted, grouped, rounded};

    #[test]
    fn digits_are_grouped_and_nouns_agree() {
        let grouped = [0, 999, 1_000, 12_345, 1_234_567].map(grouped);
        assert_eq!(grouped, ["0", "999", "1,000", "12,345", "1,234,567"]);
        assert_eq!(rounded(12_345.6), "12,346");
        let nodes = [0, 1, 1_001].map(|n| counted(n, "node"));
        assert_eq!(nodes, ["0 nodes", "1 node", "1,001 nodes"]);
    }
}
