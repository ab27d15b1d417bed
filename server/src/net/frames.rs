//! Frames: bounds what a peer may send besides its calls. A frame of control (SETTINGS, PING, PRIORITY, WINDOW_UPDATE,
//! RST_STREAM, one of an unknown type) costs the peer nothing and the server time, so each is paid from an allowance that
//! calls, their data, the answers to them, and time fill up.

use std::time::{Duration, Instant};

/// Bytes of a frame's head (RFC 9113, section 4.1).
const HEAD_BYTES: usize = 9;
/// The largest allowance: the most frames of control in a burst.
const MOST: u32 = 10_000;
/// Allowance for each call that begins.
const PER_CALL: u32 = 8;
/// Number of bytes of answers that allow one more frame.
const BYTES_PER_FRAME: usize = 64;
/// Allowance for each second.
const PER_SECOND: u32 = 200;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;

/// Counts the frames that one peer sends.
#[derive(Debug)]
pub(super) struct FrameMeter {
    head: [u8; HEAD_BYTES],
    n_head: usize,
    /// Number of bytes before the next head: of the client preface, or of a payload.
    n_skipped: usize,
    allowance: u32,
    /// Bytes of answers that are not yet an allowance.
    n_answered: usize,
    since: Instant,
}

/// More frames of control came than are allowed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Flooded;

impl FrameMeter {
    /// A meter of a connection that begins at `now`, with a preface of `n_preface` bytes.
    pub(super) fn new(now: Instant, n_preface: usize) -> FrameMeter {
        FrameMeter {
            head: [0; HEAD_BYTES],
            n_head: 0,
            n_skipped: n_preface,
            allowance: MOST,
            n_answered: 0,
            since: now,
        }
    }

    /// Counts the frames in `bytes`, which were received; `now` is asked for where the allowance is used up.
    ///
    /// # Errors
    /// [`Flooded`].
    pub(super) fn receive(
        &mut self,
        mut bytes: &[u8],
        now: impl Fn() -> Instant,
    ) -> Result<(), Flooded> {
        loop {
            let n_skipped = self.n_skipped.min(bytes.len());
            self.n_skipped -= n_skipped;
            bytes = &bytes[n_skipped..];
            let n_head = (HEAD_BYTES - self.n_head).min(bytes.len());
            if n_head == 0 {
                return Ok(());
            }
            self.head[self.n_head..self.n_head + n_head].copy_from_slice(&bytes[..n_head]);
            self.n_head += n_head;
            bytes = &bytes[n_head..];
            if self.n_head == HEAD_BYTES {
                self.n_head = 0;
                self.count(&now)?;
            }
        }
    }

    fn count(&mut self, now: &impl Fn() -> Instant) -> Result<(), Flooded> {
        let [a, b, c, kind, ..] = self.head;
        self.n_skipped = u32::from_be_bytes([0, a, b, c]) as usize;
        match kind {
            HEADERS => self.allow(PER_CALL),
            DATA if self.n_skipped > 0 => self.allow(1),
            // The transport bounds these itself, and those that are never answered.
            CONTINUATION => {}
            _ if self.allowance > 0 => self.allowance -= 1,
            _ => self.refill(now())?,
        }
        Ok(())
    }

    fn refill(&mut self, now: Instant) -> Result<(), Flooded> {
        let elapsed = now.saturating_duration_since(self.since).min(Duration::from_secs(3_600));
        let n = elapsed.as_millis() * u128::from(PER_SECOND) / 1_000;
        self.since = now;
        self.allow(u32::try_from(n).unwrap_or(MOST));
        self.allowance = self.allowance.checked_sub(1).ok_or(Flooded)?;
        Ok(())
    }

    /// Records that so many bytes were sent to the peer.
    pub(super) fn sent(&mut self, n_bytes: usize) {
        self.n_answered += n_bytes;
        let n = self.n_answered / BYTES_PER_FRAME;
        self.n_answered %= BYTES_PER_FRAME;
        self.allow(u32::try_from(n).unwrap_or(MOST));
    }

    fn allow(&mut self, n: u32) {
        self.allowance = self.allowance.saturating_add(n).min(MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn frame(kind: u8, n_bytes: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, n_bytes, kind, 0, 0, 0, 0, 1];
        frame.resize(HEAD_BYTES + usize::from(n_bytes), 0xff);
        frame
    }

    /// Number of frames that pass, up to 100,000.
    fn passing(meter: &mut FrameMeter, now: Instant, frame: &[u8]) -> usize {
        let n = (0..100_000).take_while(|_| meter.receive(frame, || now).is_ok()).count();
        // A connection ends there; here the next frame begins anew.
        meter.n_skipped = 0;
        n
    }

    #[test]
    fn each_kind_of_control_is_cut_and_time_allows_more() {
        let start = clock::now();
        for kind in [2, 3, 4, 6, 7, 8, 0xfa] {
            let mut meter = FrameMeter::new(start, 0);
            assert_eq!(passing(&mut meter, start, &frame(kind, 8)), MOST as usize, "{kind}");
            let later = start + Duration::from_secs(2);
            assert_eq!(passing(&mut meter, later, &frame(kind, 8)), 2 * PER_SECOND as usize);
        }
        let mut meter = FrameMeter::new(start, 0);
        assert_eq!(passing(&mut meter, start, &frame(DATA, 0)), MOST as usize, "empty data");
    }

    #[test]
    fn calls_and_answers_pay_for_what_goes_with_them() {
        let start = clock::now();
        let mut meter = FrameMeter::new(start, 0);
        let call = [frame(HEADERS, 20), frame(DATA, 100), frame(8, 4), frame(8, 4), frame(6, 8)];
        assert_eq!(passing(&mut meter, start, &call.concat()), 100_000);
        passing(&mut meter, start, &frame(6, 8));
        meter.sent(64 * 50);
        assert_eq!(passing(&mut meter, start, &frame(6, 8)), 50);
    }

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let start = clock::now();
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        (0..50).for_each(|n| bytes.extend(frame(6, n)));
        for size in [1, 2, 7, 9, 10, 64] {
            let mut meter = FrameMeter::new(start, 24);
            for part in bytes.chunks(size) {
                meter.receive(part, || start).unwrap();
            }
            assert_eq!(
                (meter.allowance, meter.n_head, meter.n_skipped),
                (MOST - 50, 0, 0),
                "{size}"
            );
        }
    }
}
