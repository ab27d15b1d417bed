//! Journal: records on disk, one after the other, in segments of bounded size. What the records say is the business of
//! `service::recorder`, which writes them, and of `replay`, which reads them.
//!
//! A segment is a file: eight bytes that say what it is, and then blocks. A block is the length of a zstd frame, four
//! bytes in little-endian order, and the frame, which has a checksum. A frame holds whole records, each with its length
//! before it as in a stream of protobuf messages. Whatever ends a server, at most its last block is torn.

pub(crate) mod directory;
pub(crate) mod reader;
pub(crate) mod writer;

/// What each segment begins with.
const MAGIC: &[u8; 8] = b"BERTHJ1\n";

/// Number of bytes of records from which on a block is written.
const BLOCK_BYTES: usize = 1 << 20;

/// Maximum number of bytes that the records of a block may have: a record is never split.
const MAX_BLOCK_BYTES: usize = 1 << 30;
