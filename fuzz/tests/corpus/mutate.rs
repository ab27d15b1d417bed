//! Derives inputs from others as a fuzzer does, but the same ones in every run.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The length of the longest derived input.
const MAX_BYTES: usize = 4 << 10;

/// Bytes that have a meaning in one of the formats.
const BYTES: &[u8] = b"\0\x01\x7f\x80\xff\n\r\t \"'\\{}[](),:;.-+_=!<>/@*&%~^|#0195aeEimnZT";

/// Numbers at the limits of numeric types.
const NUMBERS: [&str; 8] = [
    "0",
    "-1",
    "2147483648",
    "-9223372036854775808",
    "9223372036854775807",
    "18446744073709551616",
    "1e999",
    "0.1",
];

/// An endless source of inputs.
pub(super) struct Mutator<'w> {
    rng: ChaCha8Rng,
    corpus: Vec<Vec<u8>>,
    words: &'w [Vec<u8>],
}

impl<'w> Mutator<'w> {
    /// Returns a source of inputs derived from a target's corpus and words. The name is the seed.
    pub(super) fn new(name: &str, corpus: Vec<Vec<u8>>, words: &'w [Vec<u8>]) -> Mutator<'w> {
        let seed = name.bytes().fold(7_u64, |seed, byte| seed * 31 % (1 << 40) + u64::from(byte));
        Mutator { rng: ChaCha8Rng::seed_from_u64(seed), corpus, words }
    }

    pub(super) fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.corpus.choose(&mut self.rng).cloned().unwrap_or_default();
        for _ in 0..self.rng.random_range(1..=4) {
            self.change(&mut input);
        }
        input.truncate(MAX_BYTES);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.rng.random_range(0..=input.len());
        let end = self.rng.random_range(at..=input.len().min(at + 64));
        match self.rng.random_range(0..8) {
            0 => drop(input.drain(at..end)),
            1 => {
                let again = input[at..end].to_vec();
                drop(input.splice(at..at, again));
            }
            2 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.rng.random_range(0..8);
                }
            }
            3 => input.insert(at, self.byte()),
            4 => {
                let byte = self.byte();
                if let Some(place) = input.get_mut(at) {
                    *place = byte;
                }
            }
            5 => {
                let word = self.word();
                drop(input.splice(at..end, word));
            }
            6 => {
                let word = self.word();
                drop(input.splice(at..at, word));
            }
            _ => {
                let other = self.corpus.choose(&mut self.rng).cloned().unwrap_or_default();
                let from = self.rng.random_range(0..=other.len());
                let to = self.rng.random_range(from..=other.len());
                drop(input.splice(at..end, other[from..to].iter().copied()));
            }
        }
    }

    fn byte(&mut self) -> u8 {
        BYTES.choose(&mut self.rng).copied().unwrap_or_default()
    }

    fn word(&mut self) -> Vec<u8> {
        let is_number = self.words.is_empty() || self.rng.random_ratio(1, 8);
        let number = NUMBERS.choose(&mut self.rng).map(|number| number.as_bytes().to_vec());
        let word = self.words.choose(&mut self.rng).cloned();
        if is_number { number } else { word }.unwrap_or_default()
    }
}
