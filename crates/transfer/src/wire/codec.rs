//! Fields of the wire: fixed big-endian numbers and length-prefixed bytes, each with its limit.
//!
//! Reading never allocates more than the message it was given: every length is checked against
//! both the field's limit and what is left of the message before anything is copied.

use super::WireError;

/// The most elements of a list that one message carries.
pub(crate) const LIST_LIMIT: usize = 8192;

/// Writes fields into a growing message.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes.push(value);
        self
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.fixed(&value.to_be_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.fixed(&value.to_be_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.fixed(&value.to_be_bytes())
    }

    pub(crate) fn i64(&mut self, value: i64) -> &mut Self {
        self.fixed(&value.to_be_bytes())
    }

    pub(crate) fn fixed(&mut self, value: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(value);
        self
    }

    /// Bytes with a 16-bit length before them; callers keep within 65 535 by construction.
    pub(crate) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        let length = u16::try_from(value.len()).expect("no wire field is longer than 64 KiB");
        self.u16(length).fixed(value)
    }

    /// A list with a 32-bit count before it.
    pub(crate) fn list<T>(
        &mut self,
        items: &[T],
        mut each: impl FnMut(&mut Self, &T),
    ) -> &mut Self {
        self.u32(u32::try_from(items.len()).expect("no wire list has 2^32 items"));
        for item in items {
            each(self, item);
        }
        self
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads fields off the front of a message.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let mut value = [0; N];
        value.copy_from_slice(self.take(N)?);
        Ok(value)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        Ok(u8::from_be_bytes(self.fixed()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_be_bytes(self.fixed()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_be_bytes(self.fixed()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_be_bytes(self.fixed()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, WireError> {
        Ok(i64::from_be_bytes(self.fixed()?))
    }

    /// A flag: 0 or 1 and nothing else.
    pub(crate) fn flag(&mut self) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(WireError::Value { field: "flag", value: value.into() }),
        }
    }

    pub(crate) fn bytes(
        &mut self,
        field: &'static str,
        limit: usize,
    ) -> Result<&'a [u8], WireError> {
        let length = usize::from(self.u16()?);
        if length > limit {
            return Err(WireError::TooLong { field, length, limit });
        }
        self.take(length)
    }

    pub(crate) fn text(&mut self, field: &'static str, limit: usize) -> Result<String, WireError> {
        let bytes = self.bytes(field, limit)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| WireError::NotText { field })
    }

    /// A list of at most `limit` items.
    pub(crate) fn list<T>(
        &mut self,
        field: &'static str,
        limit: usize,
        mut each: impl FnMut(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let length = self.u32()? as usize;
        if length > limit {
            return Err(WireError::TooLong { field, length, limit });
        }
        // Each item takes at least a byte, so a lying count cannot reserve more than was sent.
        let mut items = Vec::with_capacity(length.min(self.rest.len()));
        for _ in 0..length {
            items.push(each(self)?);
        }
        Ok(items)
    }

    /// Refuses anything after the last field.
    pub(crate) fn end(self) -> Result<(), WireError> {
        if self.rest.is_empty() { Ok(()) } else { Err(WireError::Trailing(self.rest.len())) }
    }
}
