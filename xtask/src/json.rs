//! Just enough JSON to write results.

/// A value to be written.
pub(crate) enum Json {
    Text(String),
    Number(f64),
    List(Vec<Json>),
    /// Names in the order they are written.
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    pub(crate) fn text(text: impl Into<String>) -> Json {
        Json::Text(text.into())
    }

    pub(crate) fn numbers(numbers: impl IntoIterator<Item = f64>) -> Json {
        Json::List(numbers.into_iter().map(Json::Number).collect())
    }
}

impl std::fmt::Display for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Json::Text(text) => write_text(f, text),
            Json::Number(number) if number.is_finite() => write!(f, "{number}"),
            Json::Number(_) => f.write_str("null"),
            Json::List(items) => {
                f.write_str("[")?;
                for (n, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if n == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Json::Object(members) => {
                f.write_str("{")?;
                for (n, (name, value)) in members.iter().enumerate() {
                    f.write_str(if n == 0 { "" } else { ",\n " })?;
                    write_text(f, name)?;
                    write!(f, ": {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

fn write_text(f: &mut std::fmt::Formatter<'_>, text: &str) -> std::fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            c if c < ' ' => write!(f, "\\u{:04x}", u32::from(c))?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written() {
        let value = Json::Object(vec![
            ("a", Json::text("x\"\\\n")),
            ("b", Json::numbers([1.0, 0.5, f64::NAN])),
            ("c", Json::List(vec![])),
        ]);
        assert_eq!(value.to_string(), "{\"a\": \"x\\\"\\\\\\u000a\",\n \"b\": [1, 0.5, null],\n \"c\": []}");
    }
}
