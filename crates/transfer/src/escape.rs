//! Text of peers and names of files as people and logs may see them.

use std::fmt::Write;

/// `text` with everything escaped that could move a terminal's cursor, forge a line of a log or
/// reverse what stands beside it: control characters, line and paragraph separators, marks of
/// direction. What is escaped once stays as it is the second time.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if disturbs(letter) {
            escape(&mut shown, letter);
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// As Python and C write it, and as the Python side does: `\n`, `\x1b`, `\u202e`.
fn escape(shown: &mut String, letter: char) {
    // Writing to a string cannot fail.
    let _ = match (letter, u32::from(letter)) {
        ('\n' | '\r' | '\t', _) => write!(shown, "{}", letter.escape_default()),
        (_, code @ ..0x100) => write!(shown, "\\x{code:02x}"),
        (_, code) => write!(shown, "\\u{code:04x}"),
    };
}

/// As [`printable`], of bytes that need not be text.
pub fn printable_bytes(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for part in bytes.utf8_chunks() {
        shown.push_str(&printable(part.valid()));
        for byte in part.invalid() {
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

fn disturbs(letter: char) -> bool {
    let unseen = ['\u{200b}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2060}'..='\u{206f}'];
    letter.is_control() || letter == '\u{feff}' || unseen.iter().any(|span| span.contains(&letter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_that_disturbs_a_terminal_is_left(bytes: Vec<u8>) {
            let shown = printable_bytes(&bytes);
            prop_assert!(!shown.chars().any(|letter| letter.is_control()), "{shown:?}");
            prop_assert_eq!(printable(&shown), shown);
        }
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        let text = "ünï \"quoted\" \\ C:\\x 日本";
        assert_eq!(printable(text), text);
        assert_eq!(printable("a\x1b[2J\nb\u{9b}\u{202e}"), "a\\x1b[2J\\nb\\x9b\\u202e");
        assert_eq!(printable_bytes(b"a\xff\n"), "a\\xff\\n");
    }
}
