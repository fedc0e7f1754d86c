//! Generates the wire types from `proto/`, without protoc.

use prost::Message as _;
use prost_types::field_descriptor_proto::Type;
use std::{env, error::Error, fs, path::PathBuf};

/// Text on paper, bytes on the wire: Envoy forwards whatever a caller put into a header, and a strict
/// `string` would turn a stray byte into an error, which Envoy treats as permission.
const READ_AS_BYTES: &[(&str, &str)] = &[
    ("RateLimitRequest", "domain"),
    ("AcquireRequest", "domain"),
    ("RenewRequest", "domain"),
    ("ReportUtilizationRequest", "domain"),
    ("ReportUtilizationRequest", "pool"),
    ("ReportUtilizationRequest", "worker_id"),
    ("Entry", "key"),
    ("Entry", "value"),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let services = [
        "envoy/service/ratelimit/v3/rls.proto",
        "tollgate/v1/lease_service.proto",
        "tollgate/v1/utilization_service.proto",
    ];
    let mut descriptors = protox::compile(services, ["proto"])?;

    // Reflection and JSON speak the published form.
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out_dir.join("descriptors.bin"), descriptors.encode_to_vec())?;

    for file in &mut descriptors.file {
        file.message_type.iter_mut().for_each(read_as_bytes);
    }
    tonic_prost_build::configure()
        .build_transport(false)
        .bytes(".")
        .codec_path("crate::grpc::Codec")
        .compile_fds(descriptors)?;
    Ok(())
}

fn read_as_bytes(message: &mut prost_types::DescriptorProto) {
    for field in &mut message.field {
        if READ_AS_BYTES.contains(&(message.name.as_deref().unwrap_or_default(), field.name())) {
            field.set_type(Type::Bytes);
        }
    }
    message.nested_type.iter_mut().for_each(read_as_bytes);
}
