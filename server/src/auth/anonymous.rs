//! Anonymous: a caller with neither token nor certificate, under Kubernetes' names for it. It is refused unless a
//! binding names it; then it may read and do nothing else.

use std::sync::Arc;

use super::binding::{RoleBinding, RoleBindings};
use super::{Caller, Means, Role, Roles};

/// Name of the anonymous user.
const USER: &str = "system:anonymous";
/// The one group of the anonymous user.
const GROUP: &str = "system:unauthenticated";

impl RoleBinding {
    /// Whether the binding includes anonymous callers.
    pub(crate) fn names_anonymous(&self) -> bool {
        self.users.iter().any(|user| user == USER) || self.groups.iter().any(|group| group == GROUP)
    }

    /// Whether the binding includes others, who have to be authenticated.
    pub(crate) fn names_others(&self) -> bool {
        self.users.iter().any(|user| user != USER) || self.groups.iter().any(|group| group != GROUP)
    }

    /// Reason why the binding is not allowed: it gives anonymous callers more than to read.
    pub(crate) fn gives_away(&self) -> Option<String> {
        let gives_more = self.names_anonymous() && self.role != Role::Reader;
        gives_more.then(|| {
            format!("`{USER}` and `{GROUP}` may be given `reader` and no other role: what changes something takes a caller that is known")
        })
    }
}

/// The anonymous caller; `None` if no binding names it. Whatever its bindings, it is no more than a reader.
pub(super) fn caller(bindings: &RoleBindings) -> Option<Arc<Caller>> {
    let groups: Box<[Box<str>]> = Box::new([GROUP.into()]);
    if !bindings.roles_of(USER, &groups).allow(Role::Reader) {
        return None;
    }
    let roles = Roles::NONE.with(Role::Reader);
    Some(Arc::new(Caller { user: USER.into(), groups, roles, means: Means::Nothing }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(role: Role, users: &[&str], groups: &[&str]) -> RoleBinding {
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        RoleBinding { role, users: of(users), groups: of(groups) }
    }

    #[test]
    fn the_anonymous_user_only_reads_and_only_if_a_binding_names_it() {
        for (users, groups) in [(&[USER][..], &[][..]), (&[], &[GROUP]), (&["joe", USER], &["g"])] {
            for role in Role::ALL {
                let binding = binding(role, users, groups);
                let caller = caller(&RoleBindings::new(std::slice::from_ref(&binding))).unwrap();
                assert_eq!((&*caller.user, caller.means), (USER, Means::Nothing));
                assert_eq!(*caller.groups, [GROUP.into()]);
                assert_eq!(caller.roles, Roles::NONE.with(Role::Reader));
                assert!(binding.names_anonymous());
                assert_eq!(binding.gives_away().is_some(), role != Role::Reader);
                assert_eq!(binding.names_others(), users.len() + groups.len() > 1);
            }
        }
    }

    #[test]
    fn other_bindings_are_not_its() {
        // A group is not a user, and a user is not a group.
        for (users, groups) in
            [(&["joe"][..], &["g"][..]), (&[GROUP], &[USER]), (&["anonymous"], &[])]
        {
            let binding = binding(Role::Admin, users, groups);
            assert_eq!(caller(&RoleBindings::new(std::slice::from_ref(&binding))), None);
            assert!(!binding.names_anonymous() && binding.names_others());
            assert_eq!(binding.gives_away(), None);
        }
        assert_eq!(caller(&RoleBindings::default()), None);
    }
}
