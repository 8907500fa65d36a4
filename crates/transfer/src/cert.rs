//! What a certificate says of its holder, read from its DER encoding (RFC 5280, section 4.1).
//!
//! Only certificates that TLS has verified, or that lie in a key directory, are read here.

use rustls::pki_types::CertificateDer;

/// Whose a certificate is and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The subject's common name.
    pub name: String,
    /// The serial number in lower-case hexadecimal, as `openssl x509 -serial` has it.
    pub serial: String,
    /// It is valid until then: seconds since 1970.
    pub until_s: i64,
}

const INTEGER: u8 = 0x02;
const OBJECT: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
/// 2.5.4.3, the common name.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// Reads a certificate; `None` when it is not one or has no common name.
pub(crate) fn holder(certificate: &CertificateDer<'_>) -> Option<Holder> {
    let (_, body, _) = element(certificate)?;
    let (_, mut fields, _) = element(body)?;
    if fields.first() == Some(&VERSION) {
        (_, _, fields) = element(fields)?;
    }
    let (INTEGER, serial, fields) = element(fields)? else {
        return None;
    };
    let (_, _algorithm, fields) = element(fields)?;
    let (_, _issuer, fields) = element(fields)?;
    let (_, validity, fields) = element(fields)?;
    let (_, subject, _) = element(fields)?;
    let (_, _from, rest) = element(validity)?;
    let (kind, until, _) = element(rest)?;
    let digits: Vec<String> = serial.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(Holder {
        name: common_name(subject)?,
        serial: digits.concat(),
        until_s: seconds(kind, until)?,
    })
}

/// The first element's tag and content, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if digits.is_empty() || digits.len() > 4 {
            return None;
        }
        (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// A name is a sequence of sets of (object identifier, value).
fn common_name(mut subject: &[u8]) -> Option<String> {
    while !subject.is_empty() {
        let (_, mut set, rest) = element(subject)?;
        subject = rest;
        while !set.is_empty() {
            let (SEQUENCE, pair, rest) = element(set)? else {
                return None;
            };
            set = rest;
            if let (OBJECT, COMMON_NAME, value) = element(pair)? {
                let (_, text, _) = element(value)?;
                return String::from_utf8(text.to_vec()).ok();
            }
        }
    }
    None
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` as seconds since 1970.
fn seconds(kind: u8, text: &[u8]) -> Option<i64> {
    let text = str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = text.split_at_checked(if kind == UTC_TIME { 2 } else { 4 })?;
    let mut year: i64 = year.parse().ok()?;
    if kind == UTC_TIME {
        year += if year < 50 { 2000 } else { 1900 };
    }
    if rest.len() != 10 || !rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = |index: usize| rest[2 * index..2 * index + 2].parse::<i64>().ok();
    let (month, day) = (part(0)?, part(1)?);
    Some(days(year, month, day) * 86_400 + part(2)? * 3600 + part(3)? * 60 + part(4)?)
}

/// Days from 1970-01-01; years begin in March, so that the leap day is their last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year
        - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // From `date -u -d ... +%s`.
        for (text, expected) in [
            ("19700101000000Z", 0),
            ("20000229235959Z", 951_868_799),
            ("20281231010203Z", 1_861_837_323),
            ("21000301000000Z", 4_107_542_400),
        ] {
            assert_eq!(seconds(0x18, text.as_bytes()), Some(expected), "{text}");
        }
        assert_eq!(seconds(UTC_TIME, b"281231010203Z"), Some(1_861_837_323));
        assert_eq!(seconds(UTC_TIME, b"28123101020Z"), None);
    }

    proptest! {
        #[test]
        fn whatever_is_no_certificate_does_not_panic(bytes: Vec<u8>) {
            prop_assert_eq!(holder(&CertificateDer::from(bytes)), None);
        }
    }
}
