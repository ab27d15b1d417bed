//! The known name that a misspelt one was meant to be.

use super::Message;

/// The name of `known` that is nearest to `name`, if one is near enough to be meant: equal but for case, or a few
/// letters apart.
pub fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    // Neither a name of Kubernetes nor a misspelt one is as long.
    const MAX_LENGTH: usize = 100;
    if name.len() > MAX_LENGTH {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let distance = |known: &&str| strsim::osa_distance(&lower, &known.to_ascii_lowercase());
    let n_letters = name.chars().count();
    let limit = if n_letters < 5 { 1 } else { (n_letters / 3).max(2) };
    known.map(|known| (distance(&known), known)).filter(|(n, _)| *n <= limit).min().map(|(_, k)| k)
}

/// Reason for refusing a field that `message` does not have.
pub fn unknown_field(message: Message, key: &str) -> String {
    match nearest(key, message.field_names()) {
        Some(nearest) => format!("unknown field; did you mean `{nearest}`?"),
        None => "unknown field".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_near_when_it_is_meant() {
        let near = |name, message| nearest(name, Message::named(message).unwrap().field_names());
        assert_eq!(near("contianers", "PodSpec"), Some("containers"));
        assert_eq!(near("request", "ResourceRequirements"), Some("requests"));
        assert_eq!(near("priorityclassname", "PodSpec"), Some("priorityClassName"));
        assert_eq!(near("toleration", "PodSpec"), Some("tolerations"));
        assert_eq!(near("replicas", "PodSpec"), None);
        assert_eq!(near("x", "PodSpec"), None);
        assert_eq!(near(&"x".repeat(100_000), "PodSpec"), None);
        assert_eq!(nearest("Nod", ["Pod", "Node"].into_iter()), Some("Node"));
    }
}
