//! The payload of echo requests and replies; its format is told in `weir/probe/message.py`,
//! beside who answers them.

pub(crate) const SIZE: usize = 56;
const MAGIC: [u8; 4] = *b"WEIR";
const REQUEST: u8 = 1;
const REPLY: u8 = 2;

/// Tells the messages of one prober from those of all others.
pub(crate) type Token = [u8; 8];

/// What a payload says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Whether our responder made it; ICMP gives back the request.
    pub(crate) is_reply: bool,
    /// Whose it is.
    pub(crate) token: Token,
    /// Number of the request.
    pub(crate) key: u64,
    /// For how long the responder says that it had it.
    pub(crate) kept_ns: i64,
}

/// The payload of request `key`.
pub(crate) fn request(token: Token, key: u64) -> [u8; SIZE] {
    let mut payload = [0; SIZE];
    payload[..4].copy_from_slice(&MAGIC);
    payload[4] = REQUEST;
    payload[8..16].copy_from_slice(&token);
    payload[16..24].copy_from_slice(&key.to_be_bytes());
    payload
}

/// What a request or a reply says, `None` for what is neither.
pub(crate) fn parse(payload: &[u8]) -> Option<Message> {
    let payload: &[u8; SIZE] = payload.try_into().ok()?;
    let [word0, token, key, kept, ..] = payload.as_chunks::<8>().0 else { return None };
    let is_reply = match word0[4] {
        REQUEST => false,
        REPLY => true,
        _ => return None,
    };
    word0.starts_with(&MAGIC).then_some(Message {
        is_reply,
        token: *token,
        key: u64::from_be_bytes(*key),
        kept_ns: i64::from_be_bytes(*kept),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_request_says_what_was_put_in(token: Token, key: u64) {
            let told = Message { is_reply: false, token, key, kept_ns: 0 };
            prop_assert_eq!(parse(&request(token, key)), Some(told));
        }

        #[test]
        fn what_is_not_of_our_format_says_nothing(
            payload in prop::collection::vec(any::<u8>(), 0..100),
            place in 0..5usize,
        ) {
            prop_assert_eq!(parse(&payload), None);
            let mut spoiled = request(*b"12345678", 1);
            spoiled[place] ^= 0x40;
            prop_assert_eq!(parse(&spoiled), None);
        }
    }
}
