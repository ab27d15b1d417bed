//! Compiles `kubernetes/fields.txt`, the names of all fields of Kubernetes' objects, into the sorted tables of
//! `src/fields.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write;

/// Messages whose name in `fields.txt` differs from that in the `.proto` files, by module and name.
const RENAMED: [(&str, &str, &str); 1] = [("core_v1", "ResourceClaim", "core.ResourceClaim")];

/// The paragraph of `fields.txt` that lists kinds.
const KINDS: &str = "kinds";

/// Contents of `fields.txt`.
pub(crate) struct Fields {
    /// For each message its fields, each with the message that it holds: ``, `Message` or `*Message`.
    messages: BTreeMap<String, BTreeMap<String, String>>,
    kinds: BTreeSet<String>,
}

impl Fields {
    /// Reads `fields.txt`: names of messages at the left margin, and their fields indented below.
    pub(crate) fn read(text: &str) -> Result<Fields, Box<dyn Error>> {
        let mut messages: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        let mut message = String::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if !line.starts_with(' ') {
                line.clone_into(&mut message);
                if messages.insert(message.clone(), BTreeMap::new()).is_some() {
                    return Err(format!("fields.txt: `{message}` is listed twice").into());
                }
                continue;
            }
            let fields = messages.get_mut(&message).ok_or("fields.txt: fields before a message")?;
            for word in line.split_whitespace() {
                let (name, content) = word.split_once(':').unwrap_or((word, ""));
                fields.insert(name.to_owned(), content.to_owned());
            }
        }
        let kinds = messages.remove(KINDS).ok_or("fields.txt: no kinds")?.into_keys().collect();
        Ok(Fields { messages, kinds })
    }

    /// Position of a message of the `.proto` files in the table.
    pub(crate) fn position(&self, module: &str, message: &str) -> Option<usize> {
        let renamed = RENAMED.iter().find(|(m, name, _)| (*m, *name) == (module, message));
        let name = renamed.map_or(message, |(_, _, name)| name);
        self.messages.keys().position(|known| known == name)
    }

    /// The tables, as Rust source.
    pub(crate) fn tables(&self) -> Result<String, Box<dyn Error>> {
        let position = |content: &str| {
            let name = content.trim_start_matches('*');
            let position = self.messages.keys().position(|known| known == name);
            position.ok_or_else(|| format!("fields.txt: no message `{name}`"))
        };
        let mut out = String::new();
        writeln!(
            out,
            "static MESSAGES: [(&str, &[(&str, Content)]); {}] = [",
            self.messages.len()
        )?;
        for (message, fields) in &self.messages {
            write!(out, "({message:?}, &[")?;
            for (field, content) in fields {
                match content.as_bytes() {
                    [] => write!(out, "({field:?}, Content::Free), ")?,
                    [b'*', ..] => {
                        let at = position(content)?;
                        write!(out, "({field:?}, Content::Map(Message({at}))), ")?;
                    }
                    _ => {
                        let at = position(content)?;
                        write!(out, "({field:?}, Content::Message(Message({at}))), ")?;
                    }
                }
            }
            writeln!(out, "]),")?;
        }
        let kinds: Vec<&String> = self.kinds.iter().collect();
        writeln!(out, "];\nstatic KINDS: [&str; {}] = {kinds:?};", kinds.len())?;
        Ok(out)
    }
}
