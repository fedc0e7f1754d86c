//! The macro that makes of the list of limiters what has one part for each: the enum of limits and its dispatch, the
//! enum of states, the numbers of the scripts.

/// Expects `$` first, which is needed to define a macro by a macro; then the families and their limiters, each a
/// line of documentation, a variant and the module with its `Limit`. The order is that of the numbers in Lua.
macro_rules! limiters {
    (
        $d:tt
        rates { $(#[doc = $rate_doc:literal] $Rate:ident($rate:ident),)* }
        slots { $(#[doc = $slots_doc:literal] $Slots:ident($slots:ident),)* }
        shedders { $(#[doc = $shedder_doc:literal] $Shedder:ident($shedder:ident),)* }
    ) => {
        /// A limit of any limiter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Limit {
            $(#[doc = $rate_doc] $Rate($rate::Limit),)*
            $(#[doc = $slots_doc] $Slots($slots::Limit),)*
            $(#[doc = $shedder_doc] $Shedder($shedder::Limit),)*
        }

        /// What a store keeps under a key.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum State {
            $(#[doc = $rate_doc] $Rate($rate::State),)*
            /// Of a limit on slots.
            InFlight(Box<InFlight>),
            /// Of the load shedders of a pool: how busy its workers are.
            Workers(Box<Workers>),
            /// Of no limit: what a lease holds.
            Lease(Box<Record>),
            /// Of no limit: what a worker reported last.
            Worker(Worker),
        }

        /// Names of limiters in the order of their numbers in Lua, the first of which is 1.
        pub const NAMES: &[&str] = &[
            $($rate::Limit::NAME,)* $($slots::Limit::NAME,)* $($shedder::Limit::NAME,)*
        ];

        /// What the limiters can do, in the same order.
        pub const PROPERTIES: &[Properties] = &[
            $($rate::Limit::PROPERTIES,)* $($slots::Limit::PROPERTIES,)* $($shedder::Limit::PROPERTIES,)*
        ];

        // What is said twice is said alike.
        $(const _: () = assert!($rate::Limit::PROPERTIES.may_be_overdrawn == $rate::Limit::OVERDRAW.is_ok());)*
        $(const _: () = assert!(!$rate::Limit::PROPERTIES.holds_slots);)*
        $(const _: () = assert!($slots::Limit::PROPERTIES.holds_slots);)*

        /// The rates in Lua: most requests need them.
        pub const RATE_SCRIPTS: &[&str] = &[$($rate::Limit::SCRIPT,)*];

        /// What gives back late charges to rates, in Lua.
        pub const CREDIT_SCRIPTS: &[&str] = &[$($rate::Limit::CREDIT_SCRIPT,)*];

        /// The other limiters in Lua.
        pub const OTHER_SCRIPTS: &[&str] = &[$($slots::Limit::SCRIPT,)* $($shedder::Limit::SCRIPT,)*];

        /// The limiters as rule files have them, in the same order.
        pub const SCHEMAS: &[Schema] = &[
            $(Schema::new::<$rate::Limit>(Refused::by_rate::<$rate::Limit>(), |context, report| {
                Some(read_rate::<$rate::Limit>(context, report)?.map(Limit::$Rate))
            }),)*
            $(Schema::new::<$slots::Limit>(Refused::BY_SLOTS, |context, report| {
                Some($slots::Limit::read(context, report)?.map(Limit::$Slots))
            }),)*
            $(Schema::new::<$shedder::Limit>(Refused::BY_SHEDDERS, |context, report| {
                Some($shedder::Limit::read(context, report)?.map(Limit::$Shedder))
            }),)*
        ];

        /// Their keys in rule files.
        pub const KEYS: &[Key] = &[
            $(($rate::Limit::NAME, $rate_doc.trim_ascii()),)*
            $(($slots::Limit::NAME, $slots_doc.trim_ascii()),)*
            $(($shedder::Limit::NAME, $shedder_doc.trim_ascii()),)*
        ];

        enum Number {
            $($Rate,)* $($Slots,)* $($Shedder,)*
        }

        $(impl Stored for $rate::State {
            fn of(state: &State) -> Option<&Self> {
                if let State::$Rate(state) = state { Some(state) } else { None }
            }

            fn into_state(self) -> State {
                State::$Rate(self)
            }
        })*

        impl Limit {
            /// The place of the limiter in [`NAMES`], the first being 1.
            pub const fn script(&self) -> u8 {
                let number = match self {
                    $(Self::$Rate(_) => Number::$Rate,)*
                    $(Self::$Slots(_) => Number::$Slots,)*
                    $(Self::$Shedder(_) => Number::$Shedder,)*
                };
                number as u8 + 1
            }
        }

        impl State {
            /// Whether it is of a limit on a rate.
            pub const fn is_of_rate(&self) -> bool {
                match self {
                    $(Self::$Rate(_) => true,)*
                    Self::InFlight(_) | Self::Workers(_) | Self::Lease(_) | Self::Worker(_) => false,
                }
            }

            /// Reads the state of a limiter of this name, as Redis holds it. `None` where it is none.
            pub fn read(limiter: &str, numbers: &mut Numbers<'_>) -> Option<Self> {
                $(if limiter == $rate::Limit::NAME {
                    return $rate::Limit::read_state(numbers).map(Stored::into_state);
                })*
                $(if limiter == $slots::Limit::NAME {
                    return $slots::Limit::read_state(numbers).map(Stored::into_state);
                })*
                $(if limiter == $shedder::Limit::NAME {
                    return $shedder::Limit::read_state(numbers).map(Stored::into_state);
                })*
                None
            }
        }

        #[cfg(test)]
        impl samples::Samples {
            /// Those of the limits on rates, in the order of [`NAMES`].
            pub(crate) fn of_rates() -> Vec<Self> {
                vec![$(Self::of_rate::<$rate::Limit>(Limit::$Rate),)*]
            }

            /// Those of the limits on slots.
            pub(crate) fn of_slots() -> Vec<Self> {
                vec![$(Self::of_slot_limit::<$slots::Limit>(Limit::$Slots),)*]
            }

            /// Those of the load shedders.
            pub(crate) fn of_shedders() -> Vec<Self> {
                vec![$(Self::of_shedder::<$shedder::Limit>(Limit::$Shedder),)*]
            }
        }

        #[cfg(test)]
        impl State {
            /// The bytes of the state of a limit, as the scripts write them; `None` where it is of no limit.
            pub(crate) fn write(&self) -> Option<Vec<u8>> {
                match self {
                    $(Self::$Rate(state) => {
                        Some(<$rate::Limit as samples::SampledRate>::write(state))
                    })*
                    Self::InFlight(state) => Some(samples::write_in_flight(state)),
                    Self::Workers(state) => Some(samples::write_workers(state)),
                    Self::Lease(_) | Self::Worker(_) => None,
                }
            }
        }

        /// The same expression for the limit of whatever limiter it is.
        macro_rules! of_each {
            ($d it:expr, $d limit:ident => $d value:expr) => {
                match $d it {
                    $(Limit::$Rate($d limit) => $d value,)*
                    $(Limit::$Slots($d limit) => $d value,)*
                    $(Limit::$Shedder($d limit) => $d value,)*
                }
            };
        }

        /// Some limit of the same limiter, for the limit of whatever limiter it is.
        macro_rules! map_each {
            ($d it:expr, $d limit:ident => $d value:expr) => {
                Some(match $d it {
                    $(Limit::$Rate($d limit) => Limit::$Rate($d value),)*
                    $(Limit::$Slots($d limit) => Limit::$Slots($d value),)*
                    $(Limit::$Shedder($d limit) => Limit::$Shedder($d value),)*
                })
            };
        }

        /// The same expression for all limits of a family.
        macro_rules! of_family {
            (
                $d it:expr,
                rate($d rate:pat) => $d of_rate:expr,
                slots($d slots:pat) => $d of_slots:expr,
                shedder($d shedder:pat) => $d of_shedder:expr $d(,)?
            ) => {
                match $d it {
                    $(Limit::$Rate($d rate) => $d of_rate,)*
                    $(Limit::$Slots($d slots) => $d of_slots,)*
                    $(Limit::$Shedder($d shedder) => $d of_shedder,)*
                }
            };
        }

        /// The same limit with another one of its limiter in its place, for all limits of a family.
        macro_rules! map_family {
            ($d it:expr, rate $d limit:ident => $d of_rate:expr) => {
                match $d it {
                    $(Limit::$Rate($d limit) => Limit::$Rate($d of_rate),)*
                    $(limit @ Limit::$Slots(_) => limit,)*
                    $(limit @ Limit::$Shedder(_) => limit,)*
                }
            };
            ($d it:expr, slots $d limit:ident => $d of_slots:expr) => {
                match $d it {
                    $(limit @ Limit::$Rate(_) => limit,)*
                    $(Limit::$Slots($d limit) => Limit::$Slots($d of_slots),)*
                    $(limit @ Limit::$Shedder(_) => limit,)*
                }
            };
            ($d it:expr, shedder $d limit:ident => $d of_shedder:expr) => {
                match $d it {
                    $(limit @ Limit::$Rate(_) => limit,)*
                    $(limit @ Limit::$Slots(_) => limit,)*
                    $(Limit::$Shedder($d limit) => Limit::$Shedder($d of_shedder),)*
                }
            };
        }
    };
}
