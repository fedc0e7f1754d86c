//! The services that an operator may switch off one by one.

/// A service that may be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionalService {
    /// `tollgate.v1.LeaseService`.
    Leases,
    /// `tollgate.v1.UtilizationService`.
    Utilization,
    /// gRPC reflection, in both versions.
    Reflection,
    /// `POST /json` on the HTTP port.
    Json,
    /// `GET /metrics` on the HTTP port; the admin port keeps it.
    Metrics,
}

impl OptionalService {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Leases, Self::Utilization, Self::Reflection, Self::Json, Self::Metrics];

    /// Its name, as the command line has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leases => "leases",
            Self::Utilization => "utilization",
            Self::Reflection => "reflection",
            Self::Json => "json",
            Self::Metrics => "metrics",
        }
    }

    /// What callers are told of something that belongs to it, where it is switched off.
    pub fn switched_off(self, what: &str) -> String {
        format!("{what} is switched off on this server (--disable-service {})", self.name())
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// The services that are switched off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DisabledServices([bool; OptionalService::ALL.len()]);

impl FromIterator<OptionalService> for DisabledServices {
    fn from_iter<T: IntoIterator<Item = OptionalService>>(services: T) -> Self {
        let mut disabled = Self::default();
        for service in services {
            if let Some(is_off) = disabled.0.get_mut(service as usize) {
                *is_off = true;
            }
        }
        disabled
    }
}

impl DisabledServices {
    /// Whether a service is served.
    pub fn serves(self, service: OptionalService) -> bool {
        self.0.get(service as usize) != Some(&true)
    }
}
