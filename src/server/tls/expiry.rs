//! When a certificate of our own expires.

use rustls::pki_types::{CertificateDer, UnixTime};
use std::{fmt, time::Duration};
use webpki::{EndEntityCert, Error, KeyUsage};

const DAY: u64 = 24 * 60 * 60;

/// How many days ahead it is told.
const DAYS_AHEAD: u64 = 7;

/// The last second, since 1970, at which a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expiry(u64);

/// What is to be told of it: the same for a whole day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Soon {
    /// So many whole days are left.
    Days(u64),
    Expired,
}

impl Expiry {
    /// When this certificate expires; `None` where it does not say.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        // webpki keeps the time to itself, and tells it to whoever asks too late. It looks at the time before
        // it looks for who has signed, so nobody needs to have.
        let end_of_time = UnixTime::since_unix_epoch(Duration::from_secs(253_402_300_799));
        let certificate = EndEntityCert::try_from(certificate).ok()?;
        let verified = certificate.verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            &[],
            &[],
            end_of_time,
            KeyUsage::server_auth(),
            None,
            None,
        );
        match verified {
            Err(Error::CertExpired { not_after, .. }) => Some(Self(not_after.as_secs())),
            _ => None,
        }
    }

    /// What is to be told of it so long after 1970, if anything.
    pub(super) fn to_tell(self, now: Duration) -> Option<Soon> {
        match self.0.checked_sub(now.as_secs()) {
            None => Some(Soon::Expired),
            Some(left) => Some(left / DAY).filter(|days| *days < DAYS_AHEAD).map(Soon::Days),
        }
    }
}

impl fmt::Display for Soon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str(
                "the certificate has expired, and clients refuse it: put a new one in its place",
            ),
            Self::Days(0) => f.write_str("the certificate expires in less than a day"),
            Self::Days(1) => f.write_str("the certificate expires in 1 day"),
            Self::Days(days) => write!(f, "the certificate expires in {days} days"),
        }
    }
}
