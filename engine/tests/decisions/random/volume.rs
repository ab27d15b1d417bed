//! Random volumes of pods: claims, ephemeral claims, disks, and kinds that no rule reads.

use berth_proto::core_v1::{
    self, AwsElasticBlockStoreVolumeSource, EmptyDirVolumeSource, EphemeralVolumeSource,
    GcePersistentDiskVolumeSource, ImageVolumeSource, IscsiVolumeSource,
    PersistentVolumeClaimVolumeSource, RbdVolumeSource, Volume, VolumeSource,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::storage::N_CLAIMS;

/// Generates volumes of which some need storage objects.
pub(crate) fn volumes() -> BoxedStrategy<Vec<Volume>> {
    let source = prop_oneof![
        12 => (0..N_CLAIMS).prop_map(|i| direct(format!("claim-{i}"))),
        1 => Just(direct("absent".to_owned())),
        2 => Just(ephemeral()),
        3 => disk(),
        2 => plain(),
    ];
    vec(source, 1..3).prop_map(named).boxed()
}

/// Generates no volumes in most cases, else a disk that conflicts with others or a claim.
pub(crate) fn few_volumes() -> BoxedStrategy<Vec<Volume>> {
    prop_oneof![
        12 => Just(Vec::new()),
        2 => vec(disk(), 1..2).prop_map(named),
        1 => volumes(),
    ]
    .boxed()
}

/// Generates volumes that do not restrict the choice of a node.
pub(crate) fn plain_volumes() -> BoxedStrategy<Vec<Volume>> {
    prop_oneof![9 => Just(Vec::new()), 1 => vec(plain(), 1..2).prop_map(named)].boxed()
}

/// Names the volumes; the first is `e`, for which claims are generated.
fn named(sources: Vec<VolumeSource>) -> Vec<Volume> {
    let of = |(i, source): (usize, VolumeSource)| Volume {
        name: if i == 0 { "e".to_owned() } else { format!("v{i}") },
        volume_source: Some(source),
    };
    sources.into_iter().enumerate().map(of).collect()
}

fn direct(claim_name: String) -> VolumeSource {
    let claim = PersistentVolumeClaimVolumeSource { claim_name, ..Default::default() };
    VolumeSource { persistent_volume_claim: Some(claim), ..Default::default() }
}

fn ephemeral() -> VolumeSource {
    let template = core_v1::PersistentVolumeClaimTemplate::default();
    let ephemeral = EphemeralVolumeSource { volume_claim_template: Some(template) };
    VolumeSource { ephemeral: Some(ephemeral.into()), ..Default::default() }
}

fn plain() -> BoxedStrategy<VolumeSource> {
    let image = ImageVolumeSource { reference: "nginx".to_owned(), ..Default::default() };
    prop_oneof![
        Just(VolumeSource { image: Some(image), ..Default::default() }),
        Just(VolumeSource {
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Default::default()
        }),
    ]
    .boxed()
}

fn disk() -> BoxedStrategy<VolumeSource> {
    let monitors = subsequence(vec!["m1", "m2", "m3"], 1..=2);
    (0..4_usize, 0..2_usize, any::<bool>(), monitors, select(vec!["", "p"]))
        .prop_map(|(kind, i, read_only, monitors, pool)| {
            let mut source = VolumeSource::default();
            match kind {
                0 => {
                    source.gce_persistent_disk = Some(GcePersistentDiskVolumeSource {
                        pd_name: format!("disk-{i}"),
                        read_only,
                        ..Default::default()
                    });
                }
                1 => {
                    source.aws_elastic_block_store = Some(AwsElasticBlockStoreVolumeSource {
                        volume_id: format!("vol-{i}"),
                        read_only,
                        ..Default::default()
                    });
                }
                2 => {
                    let iqn = format!("iqn-{i}");
                    source.iscsi =
                        Some(IscsiVolumeSource { iqn, read_only, ..Default::default() }.into());
                }
                _ => {
                    source.rbd = Some(
                        RbdVolumeSource {
                            monitors: monitors.into_iter().map(str::to_owned).collect(),
                            image: format!("image-{i}"),
                            pool: pool.to_owned(),
                            read_only,
                            ..Default::default()
                        }
                        .into(),
                    );
                }
            }
            source
        })
        .boxed()
}
