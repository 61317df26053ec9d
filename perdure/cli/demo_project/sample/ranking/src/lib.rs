//! Orders search results.

/// Later editions first.
pub fn rank(mut years: Vec<u16>) -> Vec<u16> {
    // TODO: weigh by how often a book is lent, not by its year alone
    years.sort_unstable_by(|a, b| b.cmp(a));
    years
}
