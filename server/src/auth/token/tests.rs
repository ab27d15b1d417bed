use super::*;
use crate::auth::Roles;

fn parsed(text: &[u8]) -> Result<Tokens, String> {
    parse(Path::new("tokens.csv"), text, &RoleBindings::default())
        .map_err(|error| error.to_string())
}

fn error(text: impl AsRef<[u8]>) -> String {
    parsed(text.as_ref()).err().unwrap()
}

#[test]
fn a_line_names_a_user_and_its_groups() {
    let hashed = "sha256:2BB80D537B1DA3E38BD30361AA855686BDE0EACD7162FEF6A25FE97BF527A25B";
    let text = format!(
        "\n# is a token,too,1\r\n\r\nabc,jane,7,\"berth:feeder,people\"\n\"def\",joe,\n{hashed},hash,,berth:admin"
    );
    // Kubernetes' format has no comments: such a line is read like any other.
    assert!(parsed(text.as_bytes()).is_err());
    let text = text.replace("# is a token", "token");
    let tokens = parsed(text.as_bytes()).unwrap();
    let holder = |token: &str| tokens.holder(token.as_bytes());
    let jane = holder("abc").unwrap();
    assert_eq!((&*jane.user, jane.means), ("jane", Means::Token));
    assert_eq!(*jane.groups, ["berth:feeder".into(), "people".into()]);
    assert_eq!(jane.roles, Roles::NONE.with(Role::Feeder));
    let joe = holder("def").unwrap();
    assert_eq!((&*joe.user, joe.groups.len(), joe.roles), ("joe", 0, Roles::NONE));
    // SHA-256 of `secret`.
    assert_eq!(&*holder("secret").unwrap().user, "hash");
    assert_eq!(tokens.len(), 4);
    for unknown in ["", "ab", "abcd", "ABC", hashed, "\"def\""] {
        assert!(holder(unknown).is_none(), "{unknown}");
    }
}

#[test]
fn a_file_without_tokens_knows_nobody() {
    for text in ["", "\n\r\n", "\u{feff}"] {
        assert_eq!(parsed(text.as_bytes()).unwrap().len(), 0, "{text:?}");
    }
}

#[test]
fn every_mistake_is_named_by_its_line_and_no_token_is() {
    let text = "good,user,1\n\nSECRET1,\nSECRET2\nSECRET3,u,1,a,b\n,u,1\nSECRET4,,1\nsha256:SECRET5,u,1\nSECRET 6,u,1\n\nSECRET7,u,1,\"a,,b\"\nSECRET8,u,1,berth:schedular\ngood,other,1\nSECRET9,u\u{7},1\n";
    let error = error(text);
    let expected = [
        "`tokens.csv` has 11 problems:",
        "line 3: has 2 of the columns",
        "line 4: has 1 of the columns",
        "line 5: has 5 columns and may have 4",
        "line 6: `token`: must not be empty",
        "line 7: `user`: must not be empty",
        "line 8: `token`: after `sha256:` must come 64 hexadecimal digits",
        "line 9: `token`: holds a blank",
        "line 11: `groups`: a group is empty",
        "line 12: `groups`: `berth:schedular` gives no role: there are `reader`, `scheduler`",
        "line 13: `token`: is the one of line 1",
        "line 14: `user`: holds a control character",
    ];
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{error}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.trim_start().starts_with(expected), "{line}");
    }
    assert!(!error.contains("SECRET") && !error.contains("good"), "{error}");
}

#[test]
fn an_unclosed_quote_is_an_error() {
    let hidden = "one,u,1,\"a\ntwo,u,2,b\nthree,u,3\n";
    let text = error(hidden);
    assert!(text.contains("line 1: `groups`: goes over several lines"), "{text}");
    let text = error("one,u,\"1\ntwo,u,2,b\n");
    assert!(text.contains("line 1: `uid`: goes over several lines"), "{text}");
}

#[test]
fn bytes_lengths_and_numbers_are_bounded() {
    assert!(error(b"tok\xff,u,1").contains("no header can carry"));
    assert!(error(b"tok,\xff,1").contains("line 1: `user`: is not UTF-8"));
    assert!(error(vec![b'\n'; MAX_FILE_BYTES + 1]).contains("more than 4194304 bytes"));
    let long = format!("{},u,1", "x".repeat(MAX_TOKEN_BYTES + 1));
    assert!(error(long).contains("line 1: `token`: is longer than 4096 bytes"));
    let long = format!("t,{},1", "x".repeat(MAX_NAME_BYTES + 1));
    assert!(error(long).contains("line 1: `user`: is longer than"));
    let lines = |n: usize| (0..n).map(|i| format!("token{i},u,1\n")).collect::<String>();
    assert_eq!(parsed(lines(MAX_TOKENS).as_bytes()).unwrap().len(), MAX_TOKENS);
    assert!(error(lines(MAX_TOKENS + 1)).contains("line 10001: is one more than"));
    let problems = error("x\n".repeat(1_000));
    assert!(problems.contains(" has 20 problems:"), "{problems}");
}

#[test]
fn a_token_and_its_hash_are_one_token() {
    let text =
        "secret,a,1\nsha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b,b,2\n";
    assert!(error(text).contains("line 2: `token`: is the one of line 1"));
}
