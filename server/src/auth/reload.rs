//! Reload: the token file, read at the start and again whenever it changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Auth, TokenFileError};
use crate::reload::{self, Reloads, Watched};

/// A token file and what it holds.
pub(crate) struct TokenFile {
    path: PathBuf,
    contents: Vec<Vec<u8>>,
}

impl TokenFile {
    /// # Errors
    /// [`TokenFileError::Read`].
    pub(crate) fn read(path: &Path) -> Result<TokenFile, TokenFileError> {
        let path = path.to_owned();
        let contents = reload::read_all(std::slice::from_ref(&path))?;
        Ok(TokenFile { path, contents })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.contents.first().map_or(&[], Vec::as_slice)
    }

    /// To be watched once these tokens are in force.
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
