//! Who asks, as far as the connection tells, and what is open to whom.

use axum::{
    Extension,
    extract::Request,
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse, Response},
};

/// What the certificate that a caller has shown says of him.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// There is none: he has not shown one, or the door does not ask.
    Unknown,
    /// It is signed by whom the server trusts, but has none of the names that may ask here.
    Stranger,
    /// It is signed, and for one of them.
    Known,
}

/// Lets those ask who have shown a certificate with a name that may.
pub(super) async fn known_only(
    Extension(caller): Extension<Caller>,
    request: Request,
    next: Next,
) -> Response {
    let why = match caller {
        Caller::Known => return next.run(request).await,
        Caller::Stranger => {
            "your certificate is signed by whom this server trusts, but for no name that may ask here\n"
        }
        Caller::Unknown => {
            "show a client certificate, signed by whom this server trusts (with curl: --cert and --key)\n"
        }
    };
    (StatusCode::FORBIDDEN, why).into_response()
}
