//! How many files the process may have open, of which every connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tollgate::server::MostConnections;

/// The most connections at the HTTP port, and at the admin port: probes, and operators.
const HTTP: usize = 1000;
const ADMIN: usize = 100;

/// How many connections there may be: so many for gRPC, but no more at any door than leaves files for the
/// others. The limit on files, which shells set low for the sake of old programs, is raised as far as the
/// process may.
pub(crate) fn most_connections(wanted: u32) -> MostConnections {
    let limit = raise();
    let at_most = |share: usize| limit.map_or(usize::MAX, |limit| limit / share);
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let grpc = wanted.min(at_most(2));
    if grpc < wanted {
        tracing::warn!(
            "at most {grpc} gRPC connections may be open, and not {wanted}, because the process may open too few files: raise `ulimit -n` to {}",
            wanted.saturating_mul(2)
        );
    }
    MostConnections { grpc, http: HTTP.min(at_most(4)), admin: ADMIN.min(at_most(16)) }
}

/// The limit, once it is raised; `None` where there is none.
fn raise() -> Option<usize> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    // Some systems allow less than they say. Then it stays as it is.
    let limit = if raised.is_ok() { maximum } else { current };
    limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX))
}
