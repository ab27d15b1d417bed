//! The node pools of a synthetic cluster: a table, one row a pool.

/// A pool: nodes of one kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pool {
    /// Value of the label `pool` and first part of the nodes' names.
    pub name: &'static str,
    /// Value of the label `node.kubernetes.io/instance-type`.
    pub instance_type: &'static str,
    /// Weight among the pools of its group (tainted or open).
    pub weight: u32,
    /// Cores of the machine; slightly less is allocatable.
    pub cpu_cores: i64,
    /// Memory of the machine in GiB; slightly less is allocatable.
    pub memory_gib: i64,
    /// GPUs of the machine, all of them allocatable.
    pub n_gpus: i64,
    /// `ssd` or `hdd`, the label `disk`.
    pub disk: &'static str,
    /// Value of the label `kubernetes.io/arch`.
    pub arch: &'static str,
    /// Key, value and effect of the taint of the pool's nodes.
    pub taint: Option<(&'static str, &'static str, &'static str)>,
}

/// Extended resource of the GPU pools.
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";

/// All pools. Pools without a taint share the nodes that `ClusterSpec::tainted_share` leaves.
pub const POOLS: [Pool; 8] = [
    Pool {
        name: "general-small",
        instance_type: "g-8x32",
        weight: 30,
        cpu_cores: 8,
        memory_gib: 32,
        n_gpus: 0,
        disk: "hdd",
        arch: "amd64",
        taint: None,
    },
    Pool {
        name: "general",
        instance_type: "g-16x64",
        weight: 40,
        cpu_cores: 16,
        memory_gib: 64,
        n_gpus: 0,
        disk: "ssd",
        arch: "amd64",
        taint: None,
    },
    Pool {
        name: "general-arm",
        instance_type: "a-16x64",
        weight: 10,
        cpu_cores: 16,
        memory_gib: 64,
        n_gpus: 0,
        disk: "ssd",
        arch: "arm64",
        taint: None,
    },
    Pool {
        name: "compute",
        instance_type: "c-48x96",
        weight: 20,
        cpu_cores: 48,
        memory_gib: 96,
        n_gpus: 0,
        disk: "ssd",
        arch: "amd64",
        taint: None,
    },
    Pool {
        name: "memory",
        instance_type: "m-16x256",
        weight: 25,
        cpu_cores: 16,
        memory_gib: 256,
        n_gpus: 0,
        disk: "ssd",
        arch: "amd64",
        taint: Some(("dedicated", "memory", "NoSchedule")),
    },
    Pool {
        name: "gpu",
        instance_type: "p-64x512x8",
        weight: 25,
        cpu_cores: 64,
        memory_gib: 512,
        n_gpus: 8,
        disk: "ssd",
        arch: "amd64",
        taint: Some((GPU_RESOURCE, "present", "NoSchedule")),
    },
    Pool {
        name: "spot",
        instance_type: "g-16x64",
        weight: 40,
        cpu_cores: 16,
        memory_gib: 64,
        n_gpus: 0,
        disk: "hdd",
        arch: "amd64",
        taint: Some(("spot", "true", "PreferNoSchedule")),
    },
    Pool {
        name: "infra",
        instance_type: "g-8x32",
        weight: 10,
        cpu_cores: 8,
        memory_gib: 32,
        n_gpus: 0,
        disk: "ssd",
        arch: "amd64",
        taint: Some(("dedicated", "infra", "NoSchedule")),
    },
];

impl Pool {
    /// Allocatable thousandths of a core: those of the machine less the share reserved for its agents.
    pub fn allocatable_cpu_milli(&self) -> i64 {
        self.cpu_cores * 1000 - 60 - 10 * self.cpu_cores
    }

    /// Allocatable MiB: those of the machine less 5 % and the eviction threshold.
    pub fn allocatable_memory_mib(&self) -> i64 {
        self.memory_gib * 1024 * 95 / 100 - 100
    }
}

#[cfg(test)]
mod tests {
    use super::POOLS;

    #[test]
    fn every_pool_leaves_room_for_pods_and_open_pools_exist() {
        for pool in POOLS {
            assert!(
                pool.allocatable_cpu_milli() > 0
                    && pool.allocatable_cpu_milli() < pool.cpu_cores * 1000
            );
            assert!(
                pool.allocatable_memory_mib() > 0
                    && pool.allocatable_memory_mib() < pool.memory_gib * 1024
            );
        }
        assert!(POOLS.iter().any(|pool| pool.taint.is_none()));
        assert!(POOLS.iter().any(|pool| pool.n_gpus > 0));
    }
}
