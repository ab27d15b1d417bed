//! The table of all fields of Kubernetes' objects, beside the messages: it must know each of their fields.

use berth_proto::fields::{self, Content, Message};
use prost_reflect::FieldDescriptor;

use crate::descriptors::{every_field, is_inlined, label, message_below};
use crate::kinds::KINDS;

/// Follows the fields from an object of `kind` to the last of them; `None` when the table does not know one.
fn follow(kind: &str, path: &[FieldDescriptor]) -> Option<()> {
    let mut message = Message::named(kind.rsplit('.').next()?)?;
    for field in path {
        let below = message_below(field);
        if below.as_ref().is_some_and(is_inlined) {
            continue;
        }
        match message.field(field.json_name())? {
            Content::Message(inner) | Content::Map(inner) => message = inner,
            // A field below something free would be found by no walk.
            Content::Free if below.is_some() => return None,
            Content::Free => {}
        }
    }
    Some(())
}

/// Whether objects of the kind are read: lists have no message in the table, and bindings are only written.
fn is_read(kind: &str) -> bool {
    !kind.ends_with("List") && !kind.ends_with(".Binding")
}

#[test]
fn every_field_of_the_messages_is_known() {
    let mut n_known = 0;
    let mut unknown = Vec::new();
    for (kind, path) in every_field().into_iter().filter(|(kind, _)| is_read(kind)) {
        match follow(kind, &path) {
            Some(()) => n_known += 1,
            None => {
                unknown.push(format!("{kind}: {:?}", path.iter().map(label).collect::<Vec<_>>()));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(n_known > 500, "{n_known}");
}

#[test]
fn every_kind_of_the_messages_is_known() {
    for kind in KINDS.iter().map(|kind| kind.name).filter(|kind| is_read(kind)) {
        let kind = kind.rsplit('.').next().unwrap();
        assert!(fields::kinds().contains(&kind), "{kind}");
        let fields: Vec<_> = Message::named(kind).unwrap().field_names().collect();
        assert!(["apiVersion", "kind", "metadata"].iter().all(|name| fields.contains(name)));
    }
}
