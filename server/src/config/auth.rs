//! The section `auth`: how callers are authenticated besides their certificates, and their roles.

use std::path::{Path, PathBuf};

use super::read::path;
use super::settings::{Layer, Setting as _, settings};
use crate::auth::{AuthOptions, Role, RoleBinding};
use crate::document::ConfigError;
use crate::document::decode::{self, Cursor};

settings! {
    /// The section `auth` as flags, variables or a file give it.
    #[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
    pub struct AuthOverrides for AuthOptions, in directory, read as auth;

    /// Bearer tokens of callers: CSV lines of token, user, uid, "groups", as in Kubernetes' static token file
    #[arg(long, env = "BERTH_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf> {
        file: "tokenFile" = |value| path(value, directory),
        option: token_file,
        page: "bearer tokens that authenticate callers.",
    }

    /// The field `auth.roleBindings` of a file; no flag.
    #[arg(skip)]
    role_bindings: Vec<RoleBinding> {
        file: "roleBindings" = |value| value.list(binding),
        option: role_bindings,
    }
}

impl AuthOverrides {
    /// These settings, completed by those of `file`; `takes_certificates` if clients are authenticated by certificates.
    ///
    /// # Errors
    /// Roles of callers who could never be authenticated: the bindings would have no effect.
    pub(super) fn over(
        &self,
        file: &AuthOverrides,
        takes_certificates: bool,
    ) -> Result<AuthOptions, ConfigError> {
        let given = Layer::over(self, file);
        let is_anybody_known = given.token_file.is_some() || takes_certificates;
        if !is_anybody_known && given.role_bindings.iter().any(RoleBinding::names_others) {
            return Err(ConfigError::Setting {
                name: "auth.roleBindings".to_owned(),
                reason: "only mean something where callers are known: name a file of tokens (`auth.tokenFile`, `--token-file`) or the authority of client certificates (`tls.clientCaFile`, `--tls-client-ca-file`)"
                    .to_owned(),
            });
        }
        Ok(given.or(AuthOptions::default()))
    }
}

/// Decodes the field `auth` of the file. `directory` is where relative paths start.
pub(super) fn of_file(value: Cursor<'_>, directory: &Path) -> Option<AuthOverrides> {
    value.object(|fields| AuthOverrides::read(fields, directory))
}

fn binding(value: Cursor<'_>) -> Option<RoleBinding> {
    let (role, users, groups) = value.object(|fields| {
        if !has(fields.object(), "role") {
            fields.object().report("`role` is missing");
        }
        (
            fields.take("role", role),
            fields.take_or_default("users", names),
            fields.take_or_default("groups", names),
        )
    })?;
    if users.is_empty() && groups.is_empty() {
        value.report("names neither `users` nor `groups`");
    }
    let binding = RoleBinding { role: role?, users, groups };
    if let Some(reason) = binding.gives_away() {
        value.report(reason);
    }
    Some(binding)
}

fn has(object: Cursor<'_>, name: &str) -> bool {
    let crate::document::Value::Map(entries) = object.value() else { return false };
    entries.iter().any(|entry| entry.key == name)
}

fn role(value: Cursor<'_>) -> Option<Role> {
    let text = decode::text(value)?;
    let role = Role::named(&text);
    if role.is_none() {
        value.report(format!("`{text}` is not one of {}", Role::names()));
    }
    role
}

fn names(list: Cursor<'_>) -> Option<Vec<String>> {
    list.list(|name| {
        let text = decode::text(name)?;
        if text.is_empty() {
            name.report("must not be empty");
        }
        Some(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::decode::read_text;

    fn read(text: &str) -> Result<AuthOverrides, Vec<String>> {
        read_text(text, |root| of_file(root, Path::new("/etc/berth")))
    }

    #[test]
    fn bindings_name_a_role_and_who_has_it() {
        let text = "tokenFile: t.csv\nroleBindings:\n- role: scheduler\n  users: [jane]\n- {role: admin, groups: [ops, on-call]}\n";
        let read = read(text).unwrap();
        assert_eq!(read.token_file, Some("/etc/berth/t.csv".into()));
        let of = |role, users: &[&str], groups: &[&str]| RoleBinding {
            role,
            users: users.iter().map(|name| (*name).to_owned()).collect(),
            groups: groups.iter().map(|name| (*name).to_owned()).collect(),
        };
        let expected =
            [of(Role::Scheduler, &["jane"], &[]), of(Role::Admin, &[], &["ops", "on-call"])];
        assert_eq!(read.role_bindings, expected);
    }

    #[test]
    fn every_mistake_names_its_line() {
        let text = "roleBindings:\n- users: [a]\n- role: boss\n  groups: [b]\n- role: admin\n- role: admin\n  users: [\"\"]\n  group: [x]\n";
        let expected = [
            "line 2: `roleBindings[0]`: `role` is missing",
            "line 3: `roleBindings[1].role`: `boss` is not one of `reader`, `scheduler`, `feeder`, `lifecycle`, `replica`, `admin`",
            "line 5: `roleBindings[2]`: names neither `users` nor `groups`",
            "line 7: `roleBindings[3].users[0]`: must not be empty",
            "line 8: `roleBindings[3].group`: unknown field",
        ];
        assert_eq!(read(text).unwrap_err(), expected);
    }

    #[test]
    fn who_shows_nothing_reads_at_most() {
        let text = "roleBindings:\n- {role: reader, users: [system:anonymous], groups: [system:unauthenticated]}\n- {role: admin, users: [a, system:anonymous]}\n- {role: scheduler, groups: [system:unauthenticated]}\n";
        let reason = "`system:anonymous` and `system:unauthenticated` may be given `reader` and no other role: what changes something takes a caller that is known";
        let expected = [(3, 1), (4, 2)]
            .map(|(line, index)| format!("line {line}: `roleBindings[{index}]`: {reason}"));
        assert_eq!(read(text).unwrap_err(), expected);
    }

    #[test]
    fn roles_need_callers_that_are_known() {
        let file = read("roleBindings: [{role: admin, users: [a]}]").unwrap();
        let flags = AuthOverrides::default();
        let error = flags.over(&file, false).unwrap_err().to_string();
        assert!(error.starts_with("auth.roleBindings: only mean something where"), "{error}");
        assert_eq!(flags.over(&file, true).unwrap().role_bindings.len(), 1);
        // Anonymous callers need no means of authentication; others in the same binding do.
        let anonymous = |others: &str| {
            let users = format!("users: [{others}system:anonymous]");
            read(&format!("roleBindings: [{{role: reader, {users}}}]")).unwrap()
        };
        assert_eq!(flags.over(&anonymous(""), false).unwrap().role_bindings.len(), 1);
        assert!(flags.over(&anonymous("jane, "), false).is_err());
        assert!(flags.over(&anonymous("jane, "), true).is_ok());
        let flags = AuthOverrides { token_file: Some("t".into()), ..flags };
        assert_eq!(flags.over(&file, false).unwrap().token_file, Some("t".into()));
    }
}
