//! The table of RPCs that the build makes of `.proto` files whose methods declare their access, and the files that it
//! refuses.

#[path = "../../build/access.rs"]
mod build;

use protox::Compiler;
use protox::file::{
    ChainFileResolver, File, FileResolver, GoogleFileResolver, IncludeFileResolver,
};

/// One file with one service of these methods.
struct Source(String);

impl FileResolver for Source {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match name {
            "test/service.proto" => File::from_source(name, &self.0),
            _ => Err(protox::Error::file_not_found(name)),
        }
    }
}

/// The table of a service with these methods, or the error of the build script.
fn table(methods: &str) -> Result<String, String> {
    let source = format!(
        "syntax = \"proto3\"; package test; import \"berth/v1/access.proto\"; message M {{}} service S {{ {methods} }}"
    );
    let mut resolver = ChainFileResolver::new();
    resolver.add(Source(source));
    resolver.add(IncludeFileResolver::new(env!("CARGO_MANIFEST_DIR").into()));
    resolver.add(GoogleFileResolver::new());
    let mut compiler = Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).include_source_info(true);
    compiler.open_file("test/service.proto").expect("the source compiles");
    build::table(&compiler.descriptor_pool()).map_err(|faults| format!("{faults:?}"))
}

/// A method whose option has this text.
fn method(name: &str, option: &str) -> String {
    format!("rpc {name}(M) returns (M) {{ option (berth.v1.access) = {{{option}}}; }}")
}

#[test]
fn declared_methods_become_rows() {
    let reads = method("Get", "role: ROLE_READER, lane: LANE_QUICK, effect: EFFECT_READS");
    let changes = method(
        "Put",
        "role: ROLE_READER, lane: LANE_LEDGER, effect: EFFECT_BY_REQUEST, condition: \"`admin`\"",
    );
    let source = table(&format!("{reads} {changes}")).expect("a table");
    for part in [
        "pub enum Role {\n/// Asks and changes nothing: ",
        "Method { path: \"/test.S/Get\", is_stream: false, role: Role::Reader, lane: Lane::Quick, effect: Effect::Reads, condition: \"\" },\n",
        "Method { path: \"/test.S/Put\", is_stream: false, role: Role::Reader, lane: Lane::Ledger, effect: Effect::ByRequest, condition: \"`admin`\" },\n",
    ] {
        assert!(source.contains(part), "{part} is not in\n{source}");
    }
    assert!(!source.contains("Unspecified"), "{source}");
}

#[test]
fn a_method_without_its_access_fails_the_build() {
    let declared = method("Get", "role: ROLE_READER, lane: LANE_QUICK, effect: EFFECT_READS");
    let faults =
        table(&format!("{declared} rpc Put(M) returns (M); rpc Delete(M) returns (M) {{}}"));
    assert_eq!(
        faults.expect_err("no table"),
        "test/service.proto: method `test.S.Put` has no option `(berth.v1.access)`\n\
         test/service.proto: method `test.S.Delete` has no option `(berth.v1.access)`"
    );
}

#[test]
fn an_access_with_a_gap_or_a_contradiction_fails_the_build() {
    let check = |method: &str, expected: &str| {
        let faults = table(method).expect_err(method);
        assert_eq!(faults, format!("test/service.proto: method `test.S.Put` {expected}"));
    };
    let put = |option: &str| method("Put", option);
    check(
        &put("lane: LANE_QUICK, effect: EFFECT_READS"),
        "sets no `role` in its option `(berth.v1.access)`",
    );
    check(
        &put("role: ROLE_UNSPECIFIED, lane: LANE_QUICK, effect: EFFECT_READS"),
        "sets no `role` in its option `(berth.v1.access)`",
    );
    check(
        &put("role: ROLE_ADMIN, effect: EFFECT_READS"),
        "sets no `lane` in its option `(berth.v1.access)`",
    );
    check(
        &put("role: ROLE_ADMIN, lane: LANE_QUICK"),
        "sets no `effect` in its option `(berth.v1.access)`",
    );
    check(
        &put("role: ROLE_READER, lane: LANE_QUICK, effect: EFFECT_CHANGES"),
        "changes something, and every reader may call it",
    );
    check(
        &put("role: ROLE_READER, lane: LANE_QUICK, effect: EFFECT_BY_REQUEST"),
        "changes something by request, and has no `condition` for it",
    );
    check(
        &put("role: ROLE_READER, lane: LANE_STREAM, effect: EFFECT_READS"),
        "is not a stream, and has the lane `Stream`",
    );
    let stream = put("role: ROLE_READER, lane: LANE_QUICK, effect: EFFECT_READS");
    check(
        &stream.replace("returns (M)", "returns (stream M)"),
        "is a stream, and has the lane `Quick`",
    );
}
