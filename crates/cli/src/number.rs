//! Numbers and truth values as git reads them from configuration, options and the environment.

/// Why a number could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberError {
    /// Not a number, or an unknown unit behind it.
    InvalidUnit,
    /// A number, but beyond what the variable holds.
    OutOfRange,
}

impl NumberError {
    /// git's words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            NumberError::InvalidUnit => "invalid unit",
            NumberError::OutOfRange => "out of range",
        }
    }
}

/// Splits `text` into sign, magnitude (C's notation: decimal, `0x` hexadecimal, `0` octal) and unit factor.
fn parse(text: &[u8]) -> Result<(bool, u128), NumberError> {
    let text = text.trim_ascii_start();
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (radix, text) = match text {
        [b'0', b'x' | b'X', rest @ ..] if rest.first().is_some_and(u8::is_ascii_hexdigit) => (16, rest),
        [b'0', ..] => (8, text),
        _ => (10, text),
    };
    let mut value: u128 = 0;
    let mut digits = 0;
    for &byte in text {
        let Some(digit) = char::from(byte).to_digit(radix) else { break };
        // Saturating is enough: everything that large is out of every range.
        value = value.saturating_mul(u128::from(radix)).saturating_add(u128::from(digit));
        digits += 1;
    }
    if digits == 0 {
        return Err(NumberError::InvalidUnit);
    }
    let factor: u128 = match text.get(digits..).unwrap_or_default() {
        [] => 1,
        [b'k' | b'K'] => 1 << 10,
        [b'm' | b'M'] => 1 << 20,
        [b'g' | b'G'] => 1 << 30,
        _ => return Err(NumberError::InvalidUnit),
    };
    Ok((negative, value.saturating_mul(factor)))
}

/// A signed number of at most `max` in magnitude (`-max - 1` at the low end), with an optional unit `k`, `m` or `g`.
pub(crate) fn signed(text: &[u8], max: i64) -> Result<i64, NumberError> {
    let (negative, magnitude) = parse(text)?;
    let magnitude = i128::try_from(magnitude).map_err(|_| NumberError::OutOfRange)?;
    let value = if negative { -magnitude } else { magnitude };
    let max = i128::from(max);
    if value > max || value < -max - 1 {
        return Err(NumberError::OutOfRange);
    }
    i64::try_from(value).map_err(|_| NumberError::OutOfRange)
}

/// An unsigned number with an optional unit; a minus sign anywhere is refused.
pub(crate) fn unsigned(text: &[u8], max: u64) -> Result<u64, NumberError> {
    if text.contains(&b'-') {
        return Err(NumberError::InvalidUnit);
    }
    let (_, magnitude) = parse(text)?;
    match u64::try_from(magnitude) {
        Ok(value) if value <= max => Ok(value),
        _ => Err(NumberError::OutOfRange),
    }
}

/// A truth value in words: `None` (no value at all) is true, an empty one false.
pub(crate) fn bool_word(text: Option<&[u8]>) -> Option<bool> {
    let Some(text) = text else { return Some(true) };
    let is = |word: &str| text.eq_ignore_ascii_case(word.as_bytes());
    if is("true") || is("yes") || is("on") {
        Some(true)
    } else if text.is_empty() || is("false") || is("no") || is("off") {
        Some(false)
    } else {
        None
    }
}

/// A truth value in words or as a number.
pub(crate) fn boolean(text: Option<&[u8]>) -> Option<bool> {
    bool_word(text).or_else(|| signed(text?, i64::from(i32::MAX)).ok().map(|number| number != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: i64 = i32::MAX as i64;

    #[test]
    fn numbers_with_units() {
        assert_eq!(signed(b"10", INT), Ok(10));
        assert_eq!(signed(b" -3k", INT), Ok(-3072));
        assert_eq!(signed(b"+0x10", INT), Ok(16));
        assert_eq!(signed(b"010", INT), Ok(8));
        assert_eq!(signed(b"0", INT), Ok(0));
        assert_eq!(signed(b"1G", INT), Ok(1 << 30));
        assert_eq!(signed(b"2g", INT), Err(NumberError::OutOfRange));
        assert_eq!(signed(b"-2g", INT), Ok(-(1 << 31)));
        assert_eq!(signed(b"99999999999999999999999999999999999999999999g", i64::MAX), Err(NumberError::OutOfRange));
        for bad in [&b""[..], b"k", b"1x", b"1kk", b"abc", b"-", b"1 ", b"08", b"0x"] {
            assert_eq!(signed(bad, INT), Err(NumberError::InvalidUnit), "{}", String::from_utf8_lossy(bad));
        }
        assert_eq!(unsigned(b"96m", u64::MAX), Ok(96 << 20));
        assert_eq!(unsigned(b"-1", u64::MAX), Err(NumberError::InvalidUnit));
        assert_eq!(unsigned(b"18446744073709551615", u64::MAX), Ok(u64::MAX));
        assert_eq!(unsigned(b"18446744073709551616", u64::MAX), Err(NumberError::OutOfRange));
    }

    #[test]
    fn truth() {
        for yes in ["true", "YES", "on", "1", "-1", "1k"] {
            assert_eq!(boolean(Some(yes.as_bytes())), Some(true), "{yes}");
        }
        for no in ["", "false", "No", "OFF", "0"] {
            assert_eq!(boolean(Some(no.as_bytes())), Some(false), "{no}");
        }
        assert_eq!(boolean(None), Some(true));
        assert_eq!(boolean(Some(b"maybe")), None);
    }
}
