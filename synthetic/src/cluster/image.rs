//! The container images of a synthetic cluster.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// One image of the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Name with tag, as in a container's spec.
    pub name: String,
    /// Name with digest, the other name under which nodes list the image.
    pub digest: String,
    /// Size on a node's disk in bytes.
    pub size_bytes: i64,
}

/// Generates `n_images` images of 20 MB to 2 GB; small ones are more frequent.
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

/// Name of image `number`, equal for every seed, so that workloads can use the images of any cluster.
pub fn name(number: usize) -> String {
    format!("registry.example/app-{number}:v1")
}
