//! How much a message may hold, counted in its bytes before it is decoded. Two bytes of a message can become a
//! hundred bytes of memory: a flat scan, without an allocation, refuses what the decoder would make too much of. The fast
//! path of `calls.rs` leaves the scan out for messages of at most 1 KiB.

use super::request::{InvalidRequest, MOST_DESCRIPTORS, MOST_ENTRIES};

/// The largest message that asks for a decision, in bytes.
pub const LARGEST_MESSAGE: usize = 4 << 20;

/// The largest message of every other call, in bytes.
pub const LARGEST_OTHER_MESSAGE: usize = 64 << 10;

/// The most named values in a worker's load report.
const MOST_NAMED: usize = 1000;

/// The most fields of one message whose number is limited.
const MOST_FIELDS: usize = 2;

/// What messages of one method may hold.
#[derive(Debug)]
pub(super) struct Shape {
    /// The length of a message, in bytes.
    pub(super) longest: usize,
    /// Whether more messages than one may come, after answers to those before.
    pub(super) is_stream: bool,
    /// What a call takes in memory while it lasts, in KiB, beside its messages.
    pub(super) call_kib: usize,
    /// Whether the service is ours; health checks and reflection are not.
    pub(super) is_ours: bool,
    fields: &'static [Field],
}

/// A field of a message whose number is limited.
#[derive(Debug)]
struct Field {
    number: u64,
    /// How many there may be in one message.
    most: usize,
    /// What is wrong where there are more: by the place of the message among its like, and how many there are.
    error: fn(usize, usize) -> InvalidRequest,
    /// The same of the messages in it.
    fields: &'static [Self],
}

const ENTRIES: Field = Field {
    number: 1,
    most: MOST_ENTRIES,
    error: |descriptor, entries| InvalidRequest::TooManyEntries { descriptor, entries },
    fields: &[],
};

const fn descriptors(number: u64) -> Field {
    Field {
        number,
        most: MOST_DESCRIPTORS,
        error: |_, descriptors| InvalidRequest::TooManyDescriptors(descriptors),
        fields: &[ENTRIES],
    }
}

/// Of `ShouldRateLimit`.
pub(super) const DECISION: Shape =
    Shape { longest: LARGEST_MESSAGE, ..Shape::of_one(&[descriptors(2)]) };

const ACQUIRE: Shape = Shape::of_one(&[descriptors(2)]);

const RENEW: Shape = Shape::of_one(&[descriptors(4)]);

const RELEASE: Shape = Shape::of_one(&[]);

const HOLD: Shape = Shape {
    is_stream: true,
    ..Shape::of_one(&[Field {
        number: 1,
        most: 1,
        error: |_, count| InvalidRequest::TooMany { field: "acquire", count, most: 1 },
        fields: &[descriptors(2)],
    }])
};

const REPORT: Shape = Shape::of_one(&[Field {
    number: 7,
    most: 1,
    error: |_, count| InvalidRequest::TooMany { field: "orca", count, most: 1 },
    fields: &[Field {
        number: 5,
        most: MOST_NAMED,
        error: |_, count| InvalidRequest::TooMany {
            field: "orca.utilization",
            count,
            most: MOST_NAMED,
        },
        fields: &[],
    }],
}]);

const REPORTS: Shape = Shape { is_stream: true, ..REPORT };

/// Of a health check, which is answered at once.
const CHECK: Shape = Shape::of_one(&[]);

/// Of services that are not ours: health that is watched, and reflection.
const OTHER: Shape = Shape { is_stream: true, call_kib: 24, is_ours: false, ..Shape::of_one(&[]) };

impl Shape {
    /// Of a call with one message.
    const fn of_one(fields: &'static [Field]) -> Self {
        let longest = LARGEST_OTHER_MESSAGE;
        Self { longest, is_stream: false, call_kib: 4, is_ours: true, fields }
    }

    /// What messages to this path may hold.
    pub(super) fn of(path: &str) -> &'static Self {
        match path {
            super::SHOULD_RATE_LIMIT => &DECISION,
            "/tollgate.v1.LeaseService/Acquire" => &ACQUIRE,
            "/tollgate.v1.LeaseService/Renew" => &RENEW,
            "/tollgate.v1.LeaseService/Release" => &RELEASE,
            "/tollgate.v1.LeaseService/Hold" => &HOLD,
            "/tollgate.v1.UtilizationService/ReportUtilization" => &REPORT,
            "/tollgate.v1.UtilizationService/StreamUtilization" => &REPORTS,
            "/grpc.health.v1.Health/Check" => &CHECK,
            _ => &OTHER,
        }
    }

    /// Counts what a message holds. A message that cannot be read passes: its decoder says what is wrong with it.
    ///
    /// # Errors
    ///
    /// Where it holds too much of something.
    pub(super) fn check(&self, message: &[u8]) -> Result<(), InvalidRequest> {
        check(message, 0, self.fields)
    }
}

fn check(message: &[u8], place: usize, fields: &'static [Field]) -> Result<(), InvalidRequest> {
    let mut counts = [0; MOST_FIELDS];
    let mut rest = message;
    while let Some((number, payload, after)) = next(rest) {
        rest = after;
        for (field, count) in fields.iter().zip(&mut counts) {
            if field.number == number
                && let Some(payload) = payload
            {
                if *count == field.most {
                    return Err((field.error)(place, field.count(message)));
                }
                if !field.fields.is_empty() {
                    check(payload, *count, field.fields)?;
                }
                *count += 1;
            }
        }
    }
    Ok(())
}

impl Field {
    /// How many there are in a message.
    fn count(&self, message: &[u8]) -> usize {
        let (mut rest, mut count) = (message, 0);
        while let Some((number, payload, after)) = next(rest) {
            rest = after;
            count += usize::from(number == self.number && payload.is_some());
        }
        count
    }
}

/// The number of a field, its bytes where it has a length, and what follows it.
type NextField<'m> = (u64, Option<&'m [u8]>, &'m [u8]);

/// The number of the first field, its bytes where it has a length, and what follows it. `None` at the end, and where
/// it cannot be read.
fn next(message: &[u8]) -> Option<NextField<'_>> {
    /// The wire types of Protocol Buffers.
    const VARINT: u64 = 0;
    const FIXED_64: u64 = 1;
    const LENGTH: u64 = 2;
    const GROUP: u64 = 3;
    const END_OF_GROUP: u64 = 4;
    const FIXED_32: u64 = 5;
    let (tag, rest) = varint(message)?;
    let (number, wire_type) = (tag >> 3, tag & 7);
    match wire_type {
        VARINT => Some((number, None, varint(rest)?.1)),
        FIXED_64 => Some((number, None, rest.get(8..)?)),
        LENGTH => {
            let (length, rest) = varint(rest)?;
            let (payload, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            Some((number, Some(payload), rest))
        }
        GROUP | END_OF_GROUP => Some((number, None, rest)),
        FIXED_32 => Some((number, None, rest.get(4..)?)),
        _ => None,
    }
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    // Nearly all are one byte.
    if let Some((&first, rest)) = bytes.split_first()
        && first < 0x80
    {
        return Some((first.into(), rest));
    }
    const LONGEST: usize = 10;
    let mut number = 0;
    for (place, byte) in bytes.iter().take(LONGEST).enumerate() {
        number |= u64::from(byte & 0x7f).checked_shl(7 * u32::try_from(place).ok()?)?;
        if *byte < 0x80 {
            return Some((number, bytes.get(place + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::{
        LEASE_SERVICE, UTILIZATION_SERVICE,
        proto::{
            envoy::{
                extensions::common::ratelimit::v3::{
                    RateLimitDescriptor, rate_limit_descriptor::Entry,
                },
                service::ratelimit::v3::RateLimitRequest,
            },
            tollgate::v1::{
                AcquireRequest, HoldRequest, RenewRequest, ReportUtilizationRequest,
                report_utilization_request::Load,
            },
            xds::data::orca::v3::OrcaLoadReport,
        },
    };
    use prost::Message as _;

    fn descriptors(descriptors: usize, entries: usize) -> Vec<RateLimitDescriptor> {
        let entry = Entry { key: "user".into(), value: "ada".into() };
        let descriptor =
            RateLimitDescriptor { entries: vec![entry; entries], ..RateLimitDescriptor::default() };
        vec![descriptor; descriptors]
    }

    const MANY: Result<(), InvalidRequest> = Err(InvalidRequest::TooManyDescriptors(101));

    /// Whatever the method, the messages that hold as much as they may pass, and those that hold one more do not.
    #[test]
    fn descriptors_and_their_entries_are_counted_in_every_method() {
        let leases = |method: &str| format!("/{LEASE_SERVICE}/{method}");
        for (held, entries, expected) in [
            (100, 64, Ok(())),
            (101, 1, MANY),
            (2, 65, Err(InvalidRequest::TooManyEntries { descriptor: 0, entries: 65 })),
        ] {
            let descriptors = || descriptors(held, entries);
            let acquire =
                AcquireRequest { descriptors: descriptors(), ..AcquireRequest::default() };
            let renew = RenewRequest { descriptors: descriptors(), ..RenewRequest::default() };
            let decide =
                RateLimitRequest { descriptors: descriptors(), ..RateLimitRequest::default() };
            let hold = HoldRequest { acquire: Some(acquire.clone()) };
            for (path, message) in [
                (crate::grpc::SHOULD_RATE_LIMIT.to_owned(), decide.encode_to_vec()),
                (leases("Acquire"), acquire.encode_to_vec()),
                (leases("Renew"), renew.encode_to_vec()),
                (leases("Hold"), hold.encode_to_vec()),
            ] {
                assert_eq!(Shape::of(&path).check(&message), expected, "{path}");
            }
        }
    }

    #[test]
    fn named_values_of_a_report_are_counted() {
        let field = "orca.utilization";
        let many = InvalidRequest::TooMany { field, count: 1001, most: 1000 };
        for (named, expected) in [(1000, Ok(())), (1001, Err(many))] {
            let utilization = (0..named).map(|it| (format!("{it}"), 0.5)).collect();
            let orca = OrcaLoadReport { utilization, ..OrcaLoadReport::default() };
            let load = Some(Load::Orca(orca));
            let message = ReportUtilizationRequest { load, ..ReportUtilizationRequest::default() };
            for method in ["ReportUtilization", "StreamUtilization"] {
                let shape = Shape::of(&format!("/{UTILIZATION_SERVICE}/{method}"));
                assert_eq!(shape.check(&message.encode_to_vec()), expected);
            }
        }
    }

    #[test]
    fn what_is_merged_is_counted_together() {
        let acquire =
            AcquireRequest { descriptors: descriptors(60, 1), ..AcquireRequest::default() };
        let hold = HoldRequest { acquire: Some(acquire) }.encode_to_vec();
        let shape = Shape::of("/tollgate.v1.LeaseService/Hold");
        assert_eq!(shape.check(&hold), Ok(()));
        let twice = InvalidRequest::TooMany { field: "acquire", count: 2, most: 1 };
        assert_eq!(shape.check(&hold.repeat(2)), Err(twice));
    }

    /// Two bytes each would become a hundred.
    #[test]
    fn a_message_of_nothing_but_descriptors_is_refused_without_an_allocation() {
        let message = [0x12, 0].repeat(2_000_000);
        let mut refused = Ok(());
        let counted = allocation_counter::measure(|| refused = DECISION.check(&message));
        let many = InvalidRequest::TooManyDescriptors(2_000_000);
        assert_eq!((refused, counted.count_total), (Err(many), 0));
        let entries = [&[0x12, 0x80, 0x89, 0x7a][..], &[0x0a, 0].repeat(1_000_000)].concat();
        let counted = allocation_counter::measure(|| refused = DECISION.check(&entries));
        let many = InvalidRequest::TooManyEntries { descriptor: 0, entries: 1_000_000 };
        assert_eq!((refused, counted.count_total), (Err(many), 0));
    }

    #[test]
    fn what_cannot_be_read_is_left_to_the_decoder() {
        for message in [
            &[0x12][..],
            &[0x12, 0x7f, 1],
            &[0x16],
            &[0xff; 20],
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0x0d, 1, 2],
            &[0x09, 1, 2],
        ] {
            assert_eq!(DECISION.check(message), Ok(()));
        }
        // And what is unknown is passed over.
        let unknown = [&[0x78, 0x01, 0x7d, 0, 0, 0, 0, 0x79][..], &[0; 8], &[0x7b, 0x7c]].concat();
        let message = [unknown, [0x12, 0].repeat(101)].concat();
        assert_eq!(DECISION.check(&message), MANY);
    }
}
