//! What is asked, as bytes that are made once: of each request only the digits of its keys are new; and of what
//! is answered, the code.

use crate::arguments::Template;
use bytes::Bytes;
use prost::Message as _;
use tollgate::grpc::proto::envoy::{
    extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry},
    service::ratelimit::v3::RateLimitRequest,
};

/// What stands for the drawn key.
const KEY: &str = "{key}";

/// What goes before a message in gRPC: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A request whose keys are still open.
#[derive(Debug)]
pub(super) struct Message {
    bytes: Vec<u8>,
    /// For each descriptor, where the digits of its key begin, as often as it stands there.
    places: Vec<Vec<usize>>,
    /// How many digits a key has.
    width: usize,
}

impl Message {
    /// Requests to this domain with these descriptors, whose keys are below `keys`.
    pub(super) fn new(domain: &str, descriptors: &[Template], keys: u32) -> Self {
        let width = keys.saturating_sub(1).to_string().len();
        let (zeros, nines) = ("0".repeat(width), "9".repeat(width));
        let bytes = encode(domain, descriptors, |_| &zeros);
        let places = (0..descriptors.len()).map(|place| {
            // Where it differs are the digits: all else has the same length and is the same.
            let other = encode(domain, descriptors, |at| if at == place { &nines } else { &zeros });
            let pairs = bytes.iter().zip(&other).enumerate();
            let digits = pairs.filter(|(_, (zero, nine))| zero != nine).map(|(at, _)| at);
            digits.step_by(width).collect()
        });
        let places = places.collect();
        Self { bytes, places, width }
    }

    /// A request as it goes out, each descriptor with the next key that is drawn.
    pub(super) fn with(&self, mut draw: impl FnMut() -> u32) -> Bytes {
        let mut bytes = self.bytes.clone();
        for places in &self.places {
            let key = draw();
            for &place in places {
                let mut left = key;
                for digit in bytes.iter_mut().skip(place).take(self.width).rev() {
                    *digit = b'0' + (left % 10) as u8;
                    left /= 10;
                }
            }
        }
        Bytes::from(bytes)
    }
}

/// The bytes of a request, with such a key for each descriptor, by its place.
fn encode<'a>(
    domain: &str,
    descriptors: &[Template],
    key: impl Fn(usize) -> &'a String,
) -> Vec<u8> {
    let descriptors = descriptors.iter().enumerate().map(|(place, template)| {
        let entries = template.entries.iter().map(|(name, value)| Entry {
            key: name.clone().into(),
            value: value.replace(KEY, key(place)).into(),
        });
        RateLimitDescriptor { entries: entries.collect(), ..RateLimitDescriptor::default() }
    });
    let request = RateLimitRequest {
        domain: domain.to_owned().into(),
        descriptors: descriptors.collect(),
        hits_addend: 0,
    };
    framed(&request.encode_to_vec())
}

/// A message as gRPC sends it.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], length.to_be_bytes().as_slice(), message].concat()
}

/// All that is read of an answer; the rest is skipped.
#[derive(Clone, PartialEq, prost::Message)]
struct Answer {
    /// 1 for OK, 2 for OVER_LIMIT.
    #[prost(int32, tag = "1")]
    overall_code: i32,
}

/// The overall code of an answer as it came in; `None` where it is no answer.
pub(super) fn overall_code(framed: &Bytes) -> Option<i32> {
    let message = framed.get(PREFIX..)?;
    Answer::decode(message).ok().map(|answer| answer.overall_code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::grpc::proto::envoy::service::ratelimit::v3::RateLimitResponse;

    fn message(templates: &[&str], keys: u32) -> Message {
        let templates: Vec<Template> = templates.iter().map(|it| it.parse().unwrap()).collect();
        Message::new("edge", &templates, keys)
    }

    /// The values of a request, descriptor by descriptor.
    fn values(bytes: &Bytes) -> Vec<Vec<String>> {
        assert_eq!(bytes[0], 0);
        assert_eq!(bytes[1..PREFIX], u32::try_from(bytes.len() - PREFIX).unwrap().to_be_bytes());
        let request = RateLimitRequest::decode(&bytes[PREFIX..]).unwrap();
        assert_eq!(request.domain, "edge");
        let text = |entry: &Entry| String::from_utf8(entry.value.to_vec()).unwrap();
        let descriptors = request.descriptors.iter();
        descriptors.map(|descriptor| descriptor.entries.iter().map(text).collect()).collect()
    }

    #[test]
    fn each_descriptor_has_a_key_of_its_own_wherever_it_stands() {
        let message =
            message(&["user={key},again=<{key}{key}>", "plan=free", "user=0{key}9"], 1000);
        let mut keys = [7, 1, 998].into_iter();
        let bytes = message.with(|| keys.next().unwrap());
        assert_eq!(values(&bytes), [vec!["007", "<007007>"], vec!["free"], vec!["09989"]]);
        let mut keys = [12, 1, 0].into_iter();
        let bytes = message.with(|| keys.next().unwrap());
        assert_eq!(values(&bytes), [vec!["012", "<012012>"], vec!["free"], vec!["00009"]]);
    }

    #[test]
    fn keys_are_as_long_as_the_longest() {
        for (keys, first) in
            [(1, "0"), (10, "0"), (11, "00"), (10_000, "0000"), (u32::MAX, "0000000000")]
        {
            assert_eq!(values(&message(&["user={key}"], keys).with(|| 0)), [[first]]);
        }
    }

    #[test]
    fn of_an_answer_the_code_is_read() {
        let answer = |overall_code| RateLimitResponse {
            overall_code,
            raw_body: "no".into(),
            statuses: vec![Default::default(); 3],
            ..RateLimitResponse::default()
        };
        let read = |code| overall_code(&framed(&answer(code).encode_to_vec()).into());
        assert_eq!((read(1), read(2), read(0)), (Some(1), Some(2), Some(0)));
        assert_eq!(overall_code(&Bytes::new()), None);
        assert_eq!(overall_code(&Bytes::from_static(b"\0\0\0\0\x01\x08")), None);
    }
}
