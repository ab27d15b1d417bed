//! Role bindings: which users and groups have which roles.

use std::collections::HashMap;

use super::{Role, Roles};

/// Prefix of groups that have the role named after it: `berth:scheduler`.
const GROUP_PREFIX: &str = "berth:";

/// Users and groups that have a role. Kubernetes' `system:anonymous` and its group `system:unauthenticated` are callers
/// with neither token nor certificate, which can read at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleBinding {
    /// The role.
    pub role: Role,
    /// Names of users.
    pub users: Vec<String>,
    /// Names of groups.
    pub groups: Vec<String>,
}

/// All bindings of a server, by name.
#[derive(Debug, Default)]
pub(super) struct RoleBindings {
    users: HashMap<Box<str>, Roles>,
    groups: HashMap<Box<str>, Roles>,
}

impl RoleBindings {
    pub(super) fn new(bindings: &[RoleBinding]) -> RoleBindings {
        let mut all = RoleBindings::default();
        for RoleBinding { role, users, groups } in bindings {
            for (names, bound) in [(users, &mut all.users), (groups, &mut all.groups)] {
                for name in names {
                    let roles = bound.entry(name.as_str().into()).or_default();
                    *roles = roles.with(*role);
                }
            }
        }
        all
    }

    /// The roles of a user with these groups.
    pub(super) fn roles_of(&self, user: &str, groups: &[Box<str>]) -> Roles {
        let of_user = self.users.get(user).copied().unwrap_or_default();
        groups.iter().fold(of_user, |roles, group| {
            let bound = self.groups.get(group).copied().unwrap_or_default();
            let roles = roles.and(bound);
            match role_of_group(group) {
                Some(Ok(role)) => roles.with(role),
                Some(Err(_)) | None => roles,
            }
        })
    }
}

/// The role that a group has by its own name; `Err` with the rest of the name if it has the prefix and there is no such
/// role.
pub(super) fn role_of_group(group: &str) -> Option<Result<Role, &str>> {
    let name = group.strip_prefix(GROUP_PREFIX)?;
    Some(Role::named(name).ok_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_come_from_the_name_and_from_bindings_together() {
        let bindings = RoleBindings::new(&[
            RoleBinding {
                role: Role::Feeder,
                users: vec!["jane".to_owned()],
                groups: vec!["watchers".to_owned()],
            },
            RoleBinding { role: Role::Lifecycle, users: vec!["jane".to_owned()], groups: vec![] },
        ]);
        let roles = |user: &str, groups: &[&str]| {
            let groups: Vec<Box<str>> = groups.iter().map(|group| (*group).into()).collect();
            bindings.roles_of(user, &groups)
        };
        let of = |roles: &[Role]| roles.iter().fold(Roles::NONE, |all, role| all.with(*role));
        assert_eq!(roles("joe", &[]), Roles::NONE);
        assert_eq!(roles("joe", &["berth:nothing", "system:masters", "berth"]), Roles::NONE);
        assert_eq!(roles("jane", &[]), of(&[Role::Feeder, Role::Lifecycle]));
        assert_eq!(roles("joe", &["watchers"]), of(&[Role::Feeder]));
        let all = of(&[Role::Feeder, Role::Lifecycle, Role::Admin]);
        assert_eq!(roles("jane", &["berth:admin"]), all);
        // A group is not a user, and a user is not a group.
        assert_eq!(roles("watchers", &["jane"]), Roles::NONE);
        assert_eq!(roles("berth:admin", &[]), Roles::NONE);
    }
}
