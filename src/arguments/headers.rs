//! The headers that answers add: which, and what they are called.

use clap::{Args, ValueEnum, builder::BoolishValueParser};
use tollgate::grpc::{self, HeaderNames, RateLimitHeaders};

#[derive(Debug, Args)]
pub(crate) struct Headers {
    /// Tell the client in headers how it stands with its limits, in this dialect. Without it, they are not added.
    #[arg(
        long = "rate-limit-headers",
        value_name = "DIALECT",
        env = "TOLLGATE_RATE_LIMIT_HEADERS"
    )]
    dialect: Option<Dialect>,

    /// The same as --rate-limit-headers separate, as envoyproxy/ratelimit calls it.
    #[arg(long, env = "TOLLGATE_LIMIT_RESPONSE_HEADERS_ENABLED", value_parser = BoolishValueParser::new())]
    limit_response_headers_enabled: bool,

    /// The name of the header with the limit, where each has a number.
    #[arg(long, value_name = "NAME", env = "TOLLGATE_LIMIT_LIMIT_HEADER", default_value = "RateLimit-Limit",
          value_parser = header_name)]
    limit_limit_header: String,

    /// The name of the header with what remains.
    #[arg(long, value_name = "NAME", env = "TOLLGATE_LIMIT_REMAINING_HEADER", default_value = "RateLimit-Remaining",
          value_parser = header_name)]
    limit_remaining_header: String,

    /// The name of the header with the seconds until reset.
    #[arg(long, value_name = "NAME", env = "TOLLGATE_LIMIT_RESET_HEADER", default_value = "RateLimit-Reset",
          value_parser = header_name)]
    limit_reset_header: String,

    /// Add this header, with the value `true`, to answers that are given without the store, by what the rules
    /// want done then (`on_store_failure`). The dynamic metadata say `degraded: true` in any case.
    #[arg(long, value_name = "NAME", env = "TOLLGATE_DEGRADED_HEADER", value_parser = header_name)]
    degraded_header: Option<String>,
}

/// How headers say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Dialect {
    /// Not at all.
    None,
    /// As Envoy writes it: x-ratelimit-limit, -remaining and -reset, and all policies in the first.
    XRatelimit,
    /// As the IETF drafts it: RateLimit-Policy and RateLimit, which list every limit.
    Ietf,
    /// As envoyproxy/ratelimit writes it: a header for each of three numbers.
    Separate,
}

/// Two flags say different things.
#[derive(Debug, thiserror::Error)]
#[error(
    "--rate-limit-headers {said} and --limit-response-headers-enabled, which means `separate`, contradict each other: leave one of them out (they may be set as TOLLGATE_RATE_LIMIT_HEADERS, and as TOLLGATE_LIMIT_RESPONSE_HEADERS_ENABLED or LIMIT_RESPONSE_HEADERS_ENABLED)"
)]
pub(crate) struct Contradiction {
    said: String,
}

impl Headers {
    /// What they amount to.
    pub(crate) fn wanted(&self) -> Result<grpc::Headers, Contradiction> {
        let rate_limit = match (self.dialect, self.limit_response_headers_enabled) {
            (None | Some(Dialect::Separate), true) | (Some(Dialect::Separate), false) => {
                RateLimitHeaders::Separate(HeaderNames {
                    limit: self.limit_limit_header.clone(),
                    remaining: self.limit_remaining_header.clone(),
                    reset: self.limit_reset_header.clone(),
                })
            }
            (Some(other), true) => {
                let value = other.to_possible_value();
                let said = value.map(|value| value.get_name().to_owned()).unwrap_or_default();
                return Err(Contradiction { said });
            }
            (None | Some(Dialect::None), false) => RateLimitHeaders::None,
            (Some(Dialect::XRatelimit), false) => RateLimitHeaders::XRateLimit,
            (Some(Dialect::Ietf), false) => RateLimitHeaders::Ietf,
        };
        Ok(grpc::Headers { rate_limit, degraded: self.degraded_header.clone() })
    }
}

fn header_name(name: &str) -> Result<String, String> {
    http::HeaderName::try_from(name)
        .map(|_| name.to_owned())
        .map_err(|_| "letters, digits and hyphens make a header name".to_owned())
}
