FROM rust:1.95-slim-bookworm AS build
WORKDIR /build
# What that is, .dockerignore says.
COPY . .
# Mounted caches make the second build a short one. They are not part of the image, so the program is
# copied out of them.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    cargo build --release --locked && cp target/release/tollgate /tollgate

# The C library of the same Debian and nothing else to attack: no shell, no package manager.
FROM gcr.io/distroless/cc-debian12
COPY --from=build /tollgate /usr/local/bin/tollgate
COPY config /etc/tollgate

# By number, because Kubernetes' runAsNonRoot cannot check a name.
USER 65532:65532

# gRPC for Envoy; HTTP for people and probes. The admin address stays on loopback: publish it only on
# purpose. Whether it is healthy, ask GET /ready or grpc.health.v1: the image has no client for that.
EXPOSE 8081 8080

ENTRYPOINT ["/usr/local/bin/tollgate"]
CMD ["serve", "--config", "/etc/tollgate"]
