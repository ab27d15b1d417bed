//! Compiles etcd's messages and services without `protoc`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["proto/rpc.proto"], ["proto"])?;
    let builder = tonic_prost_build::configure().build_server(false);
    builder.include_file("packages.rs").compile_fds(descriptors)?;
    Ok(())
}
