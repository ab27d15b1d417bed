//! The container images of a synthetic cluster.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// One image of the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Name with tag, as a container asks for it.
    pub name: String,
    /// The same image by digest, the other name under which nodes list it.
    pub digest: String,
    /// Bytes on a node's disk.
    pub size_bytes: i64,
}

/// `n_images` images of 20 MB to 2 GB, small ones being the more frequent.
pub fn catalogue(n_images: usize, rng: &mut ChaCha8Rng) -> Vec<Image> {
    (0..n_images)
        .map(|number| {
            let halvings: u32 = rng.random_range(0..7);
            let size_bytes = (2_000_000_000_i64 >> halvings) - rng.random_range(0..1_000_000);
            let digest: u64 = rng.random();
            Image {
                name: name(number),
                digest: format!("registry.example/app-{number}@sha256:{digest:064x}"),
                size_bytes,
            }
        })
        .collect()
}

/// Name of image `number`; the same for every seed, so that workloads can ask for images of any cluster.
pub fn name(number: usize) -> String {
    format!("registry.example/app-{number}:v1")
}
