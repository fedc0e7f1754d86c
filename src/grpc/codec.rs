//! How messages of tonic's routes are encoded and decoded: as prost does it, with small buffers. Tens of thousands of
//! streams may be open, each of which keeps both of its buffers; they grow for a message that needs more.

use prost::Message;
use std::marker::PhantomData;
use tonic::codec::{self, BufferSettings};
use tonic_prost::ProstCodec;

/// The size of a buffer that nothing needed more of, in bytes.
const SMALL: usize = 256;

/// How much may be encoded before it is sent, in bytes: tonic's own default.
const SENT_AT_ONCE: usize = 32 << 10;

/// Encodes `T` and decodes `U`.
#[derive(Debug, Clone)]
pub struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as codec::Codec>::Encoder;
    type Decoder = <ProstCodec<T, U> as codec::Codec>::Decoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(SMALL, SENT_AT_ONCE))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(SMALL, SENT_AT_ONCE))
    }
}
