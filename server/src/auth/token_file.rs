//! The file of bearer tokens, as it was read.

use std::path::{Path, PathBuf};

use crate::document::ConfigError;
use crate::reload::{self, ReadError};

/// Reason why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file cannot be read.
    #[error("the token file: {0}")]
    Read(#[from] ReadError),
    /// The file has errors, each named with its line.
    #[error("the token file {0}")]
    Invalid(ConfigError),
}

/// A token file and its contents.
pub(crate) struct TokenFile {
    pub(super) path: PathBuf,
    pub(super) contents: Vec<Vec<u8>>,
}

impl TokenFile {
    /// Reads the file.
    ///
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
}
