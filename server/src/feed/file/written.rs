//! Objects other than nodes and pods, as written in a file.

use berth_engine::{ObjectKind, WireObject};
use berth_proto::berth_v1::delta::Change;
use berth_proto::meta_v1;

macro_rules! written {
    ($($kind:ident($message:ty) { upsert: $upsert:ident, $($rest:tt)* })+) => {
        /// An object of a kind that placements depend on besides nodes and pods, as it was written; compiled and judged
        /// later.
        #[derive(Clone, Debug, PartialEq)]
        pub enum WrittenObject {
            $(#[doc = concat!("`", stringify!($kind), "`")] $kind(Box<$message>),)+
        }

        impl WrittenObject {
            /// Reads the JSON of one object of `kind`.
            pub(crate) fn parse(kind: ObjectKind, json: &str) -> serde_json::Result<WrittenObject> {
                Ok(match kind {
                    $(ObjectKind::$kind => WrittenObject::$kind(serde_json::from_str(json)?),)+
                })
            }

            /// The object's JSON form, without `kind` and `apiVersion`.
            pub(crate) fn to_json(&self) -> serde_json::Result<serde_json::Value> {
                match self {
                    $(WrittenObject::$kind(object) => serde_json::to_value(object),)+
                }
            }

            /// The object's metadata, to be filled in.
            pub(crate) fn metadata_mut(&mut self) -> &mut meta_v1::ObjectMeta {
                match self {
                    $(WrittenObject::$kind(object) => object.metadata.get_or_insert_default(),)+
                }
            }

            /// The object as the engine compiles it.
            pub fn as_wire(&self) -> WireObject<'_> {
                match self { $(WrittenObject::$kind(object) => WireObject::$kind(object),)+ }
            }

            /// The change that adds or replaces the object, as a server takes it.
            pub(crate) fn into_change(self) -> Change {
                match self { $(WrittenObject::$kind(object) => Change::$upsert(*object),)+ }
            }
        }
    };
}

berth_engine::object_kinds!(written);
