//! Frames of HTTP/2 (RFC 9113) written by hand, for tests that need to know to the byte what was sent.

use prost::Message;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const ACK: u8 = 1;

/// What a client sends first, before its settings.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame (section 4.1).
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The client's settings with this window for each stream.
pub(crate) fn initial_window(size: u32) -> Vec<u8> {
    const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];
    frame(SETTINGS, 0, 0, &[&INITIAL_WINDOW_SIZE[..], &size.to_be_bytes()].concat())
}

/// A unary call of gRPC on a stream of its own.
pub(crate) fn request(stream: u32, path: &str, message: &impl Message) -> Vec<u8> {
    let headers = [
        header(":method", "POST"),
        header(":scheme", "http"),
        header(":authority", "berth"),
        header(":path", path),
        header("content-type", "application/grpc"),
        header("te", "trailers"),
    ];
    let message = message.encode_to_vec();
    let mut data = vec![0];
    data.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    data.extend(message);
    [frame(HEADERS, END_HEADERS, stream, &headers.concat()), frame(DATA, END_STREAM, stream, &data)]
        .concat()
}

/// A literal header without indexing (RFC 7541, section 6.2.2).
fn header(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        bytes.push(u8::try_from(text.len()).unwrap());
        bytes.extend(text.bytes());
    }
    bytes
}
