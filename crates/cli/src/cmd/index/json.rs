//! Just enough of JSON to print an object.

use std::fmt::Write as _;

/// A value.
pub(super) enum Json {
    Null,
    Number(u64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    /// `null` for nothing.
    pub(super) fn or_null<T>(value: Option<T>, json: impl FnOnce(T) -> Json) -> Json {
        value.map_or(Json::Null, json)
    }

    /// As text, indented.
    pub(super) fn print(&self) -> String {
        let mut out = String::new();
        self.write(0, &mut out);
        out.push('\n');
        out
    }

    fn write(&self, depth: usize, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Number(number) => _ = write!(out, "{number}"),
            Json::Text(text) => quote(text, out),
            Json::List(items) if items.iter().all(|item| matches!(item, Json::Number(_))) => {
                out.push('[');
                for (nth, item) in items.iter().enumerate() {
                    out.push_str(if nth == 0 { "" } else { ", " });
                    item.write(depth, out);
                }
                out.push(']');
            }
            Json::List(items) => {
                lines('[', ']', depth, items.len(), out, |nth, out| {
                    if let Some(item) = items.get(nth) {
                        item.write(depth + 1, out);
                    }
                });
            }
            Json::Object(fields) => {
                lines('{', '}', depth, fields.len(), out, |nth, out| {
                    if let Some((name, value)) = fields.get(nth) {
                        quote(name, out);
                        out.push_str(": ");
                        value.write(depth + 1, out);
                    }
                });
            }
        }
    }
}

fn lines(open: char, close: char, depth: usize, count: usize, out: &mut String, item: impl Fn(usize, &mut String)) {
    out.push(open);
    for nth in 0..count {
        out.push_str(if nth == 0 { "\n" } else { ",\n" });
        out.push_str(&"  ".repeat(depth + 1));
        item(nth, out);
    }
    if count > 0 {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    }
    out.push(close);
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter < ' ' => _ = write!(out, "\\u{:04x}", u32::from(letter)),
            letter => out.push(letter),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::Json;

    #[test]
    fn values() {
        let json = Json::Object(vec![
            ("text", Json::Text("a\"\\\n\u{e4}".into())),
            ("numbers", Json::List(vec![Json::Number(1), Json::Number(u64::MAX)])),
            ("none", Json::or_null(None::<u64>, Json::Number)),
            ("list", Json::List(vec![Json::Object(Vec::new())])),
        ]);
        let want = "{\n  \"text\": \"a\\\"\\\\\\u000a\u{e4}\",\n  \"numbers\": [1, 18446744073709551615],\n  \
                    \"none\": null,\n  \"list\": [\n    {}\n  ]\n}\n";
        assert_eq!(json.print(), want);
    }
}
