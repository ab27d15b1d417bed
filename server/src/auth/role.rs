//! Role: a set of permissions of a caller.

use std::fmt;

/// A set of permissions. Every role may also do what `reader` may; `admin` may do everything.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// Reads, and changes nothing: listings, dry runs, explanations, simulations, lifecycle decisions.
    Reader,
    /// Places, preempts and binds pods.
    Scheduler,
    /// Sends the state of the cluster.
    Feeder,
    /// Acquires names, volumes and fences from the ledger.
    Lifecycle,
    /// Calls in the name of those who have called another replica.
    Replica,
    /// May do everything, including force deletion and breaking an attachment.
    Admin,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 6] =
        [Role::Reader, Role::Scheduler, Role::Feeder, Role::Lifecycle, Role::Replica, Role::Admin];

    /// Name in files and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Reader => "reader",
            Role::Scheduler => "scheduler",
            Role::Feeder => "feeder",
            Role::Lifecycle => "lifecycle",
            Role::Replica => "replica",
            Role::Admin => "admin",
        }
    }

    /// The role with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Names of all roles, for messages.
    pub(crate) fn names() -> String {
        Role::ALL.map(|role| format!("`{role}`")).join(", ")
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of roles.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles(u8);

impl Roles {
    /// No roles.
    pub const NONE: Roles = Roles(0);
    /// All roles.
    pub const ALL: Roles = Roles(0b11_1111);

    /// These roles and `role`.
    #[must_use]
    pub fn with(self, role: Role) -> Roles {
        Roles(self.0 | 1 << role as u8)
    }

    /// These roles and `others`.
    #[must_use]
    pub fn and(self, others: Roles) -> Roles {
        Roles(self.0 | others.0)
    }

    /// Names of the roles.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let has = move |role: &Role| self.0 & 1 << *role as u8 != 0;
        Role::ALL.into_iter().filter(has).map(Role::name)
    }

    /// Whether one of these roles allows what `role` may do.
    #[must_use]
    pub fn allow(self, role: Role) -> bool {
        let has = |role: Role| self.0 & 1 << role as u8 != 0;
        has(Role::Admin) || has(role) || (role == Role::Reader && self != Roles::NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_reads_and_admin_does_all() {
        for has in Role::ALL {
            assert_eq!(Role::named(has.name()), Some(has));
            let roles = Roles::NONE.with(has);
            assert_eq!(roles.names().collect::<Vec<_>>(), [has.name()]);
            for asked in Role::ALL {
                let expected = has == asked || has == Role::Admin || asked == Role::Reader;
                assert_eq!(roles.allow(asked), expected, "{has} asks for {asked}");
            }
        }
        let none = Role::ALL.into_iter().any(|role| Roles::NONE.allow(role));
        assert!(!none && Role::named("Admin").is_none());
        let all = Role::ALL.into_iter().fold(Roles::NONE, Roles::with);
        assert_eq!(all, Roles::ALL);
    }
}
