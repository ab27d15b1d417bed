//! Reload: the token file, read at the start and again whenever it changes.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Auth, TokenFile};
use crate::reload::{Reloads, Watched};

impl TokenFile {
    /// The file as the reloader watches it, once these tokens are in force.
    pub(crate) fn watched(self, auth: Arc<Auth>) -> (Watched, impl Reloads) {
        let TokenFile { path, contents } = self;
        let watched = Watched::new("the token file", vec![path.clone()], &contents);
        (watched, Reload { auth, path })
    }
}

struct Reload {
    auth: Arc<Auth>,
    path: PathBuf,
}

impl Reloads for Reload {
    fn reload(&mut self, contents: &[Vec<u8>]) -> Result<(), String> {
        let bytes = contents.first().map_or(&[][..], Vec::as_slice);
        let taken = self.auth.reload_tokens(&self.path, bytes);
        taken.map_err(|error| error.to_string())
    }

    fn note_unreadable(&mut self) {
        self.auth.note_unreadable_tokens();
    }
}
