//! A table of options, and a parser that reads command lines as git's commands do.
//!
//! What git's users type is what must work: `--name=value` and `--name value`, `--no-name` for every option not marked
//! otherwise, any unambiguous beginning of a name (of a negated one, too), `-q` bundles, options behind operands, `--` as
//! the end of options, and `-h` for the table. clap does not abbreviate negations derived from a table, hence this one.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use crate::env::os_bytes;
use crate::number::{self, NumberError};
use crate::report::Failure;

/// Whether an option takes a value, and what the help calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// None.
    Nothing,
    /// One, joined by `=` or as the next word. In angle brackets where it has several parts.
    Value(&'static str),
    /// One joined by `=`, or none.
    Optional(&'static str),
}

/// How an option was given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given<'a> {
    /// `--name`.
    On,
    /// `--no-name`.
    Off,
    /// `--name=value`.
    Value(&'a OsStr),
}

/// One option of a command whose typed form is `T`.
pub(crate) struct Spec<T> {
    /// One letter, if it has one.
    pub(crate) short: Option<char>,
    /// Without dashes; may itself begin with `no-`. Empty: it has only its letter, and is not negatable.
    pub(crate) long: &'static str,
    /// Its value.
    pub(crate) takes: Takes,
    /// Whether `--no-<long>` exists.
    pub(crate) negatable: bool,
    /// Left out of the help.
    pub(crate) hidden: bool,
    /// One sentence.
    pub(crate) help: &'static str,
    /// Stores it.
    pub(crate) set: fn(&mut T, &Name<'_>, Given<'_>) -> Result<(), Failure>,
}

/// An option's name as typed, for messages.
pub(crate) struct Name<'a> {
    short: Option<char>,
    long: &'a str,
    negated: bool,
}

impl Name<'_> {
    /// As git quotes it in messages.
    pub(crate) fn shown(&self) -> String {
        match (self.short, self.negated) {
            (Some(letter), _) => format!("switch `{letter}'"),
            (None, false) => format!("option `{}'", self.long),
            (None, true) => format!("option `no-{}'", self.long),
        }
    }

    /// An error of this option: exit 129, one line.
    pub(crate) fn error(&self, what: &str) -> Failure {
        Failure::Usage(format!("error: {} {what}\n", self.shown()))
    }
}

/// A plain option with a letter and perhaps a name. One without a name cannot be negated.
macro_rules! flag {
    ($short:expr, $long:literal, $field:ident, $help:literal) => {
        $crate::options::Spec {
            short: $short,
            long: $long,
            takes: $crate::options::Takes::Nothing,
            negatable: !$long.is_empty(),
            hidden: false,
            help: $help,
            set: |typed, _, given| {
                typed.$field = matches!(given, $crate::options::Given::On);
                Ok(())
            },
        }
    };
}
pub(crate) use flag;

/// An option that is refused when it is on: its name goes into the set `refused` of what was typed.
macro_rules! refused {
    ($short:expr, $long:literal, $takes:expr, $negatable:literal, $help:literal) => {
        $crate::options::Spec {
            short: $short,
            long: $long,
            takes: $takes,
            negatable: $negatable,
            hidden: false,
            help: concat!($help, " (not supported yet)"),
            set: |typed, _, given| {
                match given {
                    $crate::options::Given::Off => typed.refused.remove($long),
                    _ => typed.refused.insert($long),
                };
                Ok(())
            },
        }
    };
}
pub(crate) use refused;

/// An integer of 32 bits with an optional unit; `--no-name` is 0.
pub(crate) fn int(name: &Name<'_>, given: Given<'_>) -> Result<i32, Failure> {
    let Given::Value(text) = given else { return Ok(0) };
    let bytes = os_bytes(text);
    if bytes.is_empty() {
        return Err(name.error("expects a numerical value"));
    }
    match number::signed(&bytes, i64::from(i32::MAX)) {
        Ok(value) => Ok(value as i32),
        Err(NumberError::OutOfRange) => Err(range_error(name, text, i64::from(i32::MIN), i32::MAX as u64)),
        Err(NumberError::InvalidUnit) => Err(name.error("expects an integer value with an optional k/m/g suffix")),
    }
}

/// An unsigned size with an optional unit; `--no-name` is 0.
pub(crate) fn size(name: &Name<'_>, given: Given<'_>) -> Result<u64, Failure> {
    let Given::Value(text) = given else { return Ok(0) };
    let bytes = os_bytes(text);
    if bytes.is_empty() {
        return Err(name.error("expects a numerical value"));
    }
    match number::unsigned(&bytes, u64::MAX) {
        Ok(value) => Ok(value),
        Err(NumberError::OutOfRange) => Err(range_error(name, text, 0, u64::MAX)),
        Err(NumberError::InvalidUnit) => {
            Err(name.error("expects a non-negative integer value with an optional k/m/g suffix"))
        }
    }
}

fn range_error(name: &Name<'_>, text: &OsStr, low: i64, high: u64) -> Failure {
    let text = text.to_string_lossy();
    Failure::Usage(format!("error: value {text} for {} not in range [{low},{high}]\n", name.shown()))
}

/// A command's options with what its help says around them.
pub(crate) struct Table<T: 'static> {
    /// The lines behind `usage: `.
    pub(crate) usage: &'static [&'static str],
    /// The options, in the order of the help.
    pub(crate) options: &'static [Spec<T>],
}

impl<T> Table<T> {
    /// The help that `-h` and wrong usage show.
    pub(crate) fn help(&self) -> String {
        let mut out = String::new();
        for (at, line) in self.usage.iter().enumerate() {
            let lead = if at == 0 { "usage: " } else { "       " };
            let _ = writeln!(out, "{lead}{line}");
        }
        out.push('\n');
        for option in self.options.iter().filter(|option| !option.hidden) {
            let no = if option.negatable && !option.long.starts_with("no-") { "[no-]" } else { "" };
            let short = option.short.map_or_else(String::new, |letter| format!("-{letter}, "));
            let value = match option.takes {
                Takes::Nothing => String::new(),
                Takes::Value(form) if form.starts_with('<') => format!(" {form}"),
                Takes::Value(name) => format!(" <{name}>"),
                Takes::Optional(name) => format!("[=<{name}>]"),
            };
            let left = match option.long {
                "" => format!("    {}", short.trim_end_matches(", ")),
                long => format!("    {short}--{no}{long}{value}"),
            };
            if left.len() < 25 {
                let _ = writeln!(out, "{left:26}{}", option.help);
            } else {
                let _ = writeln!(out, "{left}\n{:26}{}", "", option.help);
            }
        }
        out.push('\n');
        out
    }

    /// A failure that shows the help.
    pub(crate) fn wrong(&self, what: &str) -> Failure {
        let mut text = String::new();
        if !what.is_empty() {
            let _ = writeln!(text, "error: {what}");
        }
        text.push_str(&self.help());
        Failure::Usage(text)
    }

    /// The options as the help lists them.
    pub(crate) fn list(&self) -> String {
        let help = self.help();
        help.split_once("\n\n").map_or_else(String::new, |(_, list)| list.to_owned())
    }

    /// The page that `--help` shows: how it is called, `about`, the options.
    pub(crate) fn page(&self, about: &str) -> String {
        let help = self.help();
        let (usage, list) = help.split_once("\n\n").unwrap_or((help.as_str(), ""));
        format!("{usage}\n\n{about}\nOptions:\n\n{list}")
    }

    /// Shows the help if `-h` is all that was typed. A command asks before it looks for a repository, which help does not need.
    pub(crate) fn help_if_asked(&self, words: &[OsString]) -> Result<(), Failure> {
        match words {
            [only] if only == "-h" => Err(Failure::Help(self.help())),
            _ => Ok(()),
        }
    }

    /// Reads `words` into `typed`. Gives the operands.
    pub(crate) fn parse(&self, words: &[OsString], typed: &mut T) -> Result<Vec<OsString>, Failure> {
        self.help_if_asked(words)?;
        let mut operands = Vec::new();
        let mut rest = words.iter();
        loop {
            match self.step(&mut rest, typed)? {
                Step::Option => {}
                Step::Operand(word) => operands.push(word.clone()),
                Step::End => operands.extend(rest.by_ref().cloned()),
                Step::Done => return Ok(operands),
            }
        }
    }

    /// Reads one word, and its value if that is the next: for commands to which the order of options and operands matters.
    pub(crate) fn step<'w>(
        &self,
        rest: &mut std::slice::Iter<'w, OsString>,
        typed: &mut T,
    ) -> Result<Step<'w>, Failure> {
        let Some(word) = rest.next() else { return Ok(Step::Done) };
        match &os_bytes(word)[..] {
            b"--" | b"--end-of-options" => return Ok(Step::End),
            [b'-', b'-', ..] => self.long(word, rest, typed)?,
            [b'-', _, ..] => self.short(word, rest, typed)?,
            _ => return Ok(Step::Operand(word)),
        }
        Ok(Step::Option)
    }

    fn long(&self, word: &OsStr, rest: &mut std::slice::Iter<'_, OsString>, typed: &mut T) -> Result<(), Failure> {
        let bytes = os_bytes(word);
        let body = bytes.get(2..).unwrap_or_default();
        let end = body.iter().position(|&byte| byte == b'=').unwrap_or(body.len());
        let name = String::from_utf8_lossy(&body[..end]).into_owned();
        let joined = body.get(end + 1..).map(|value| crate::env::bytes_to_path(value).into_os_string());
        let (option, negated) = match self.find(&name) {
            Found::One(option, negated) => (option, negated),
            Found::Two(first, second) => {
                return Err(self.wrong(&format!("ambiguous option: {name} (could be --{first} or --{second})")));
            }
            Found::None => return Err(self.wrong(&format!("unknown option `{}'", String::from_utf8_lossy(body)))),
        };
        let shown = Name { short: None, long: option.long, negated };
        apply(option, &shown, joined.as_deref(), rest, typed)
    }

    fn short(&self, word: &OsStr, rest: &mut std::slice::Iter<'_, OsString>, typed: &mut T) -> Result<(), Failure> {
        let text = word.to_string_lossy().into_owned();
        let mut first = true;
        for (at, letter) in text.char_indices().skip(1) {
            let Some(option) = self.options.iter().find(|option| option.short == Some(letter)) else {
                if first {
                    self.check_typo(&text)?;
                }
                if letter == 'h' {
                    return Err(Failure::Help(self.help()));
                }
                return Err(self.wrong(&format!("unknown switch `{letter}'")));
            };
            let shown = Name { short: Some(letter), long: option.long, negated: false };
            let tail = &text[at + letter.len_utf8()..];
            if option.takes != Takes::Nothing && !tail.is_empty() {
                return apply(option, &shown, Some(OsStr::new(tail)), rest, typed);
            }
            if first && !tail.is_empty() {
                self.check_typo(&text)?;
            }
            first = false;
            apply(option, &shown, None, rest, typed)?;
        }
        Ok(())
    }

    /// One dash before the beginning of a long name is a slip, not a bundle of letters.
    fn check_typo(&self, word: &str) -> Result<(), Failure> {
        let name = word.trim_start_matches('-');
        let meant = name.len() >= 3
            && (name.starts_with("no-") || self.options.iter().any(|option| option.long.starts_with(name)));
        if meant {
            return Err(Failure::Usage(format!("error: did you mean `--{name}` (with two dashes)?\n")));
        }
        Ok(())
    }

    /// The option that `name` means: the one named so, or the only one whose name (or negation) begins so.
    fn find(&self, name: &str) -> Found<'_, T> {
        let mut candidates: Vec<(&Spec<T>, bool, String)> = Vec::new();
        for option in self.options.iter().filter(|option| !option.long.is_empty()) {
            let negation = match option.long.strip_prefix("no-") {
                Some(positive) => positive.to_owned(),
                None => format!("no-{}", option.long),
            };
            for (spelled, negated) in [(option.long.to_owned(), false), (negation, true)] {
                if negated && !option.negatable {
                    continue;
                }
                if spelled == name {
                    return Found::One(option, negated);
                }
                if spelled.starts_with(name) {
                    candidates.push((option, negated, spelled));
                }
            }
        }
        match &candidates[..] {
            [] => Found::None,
            [(option, negated, _)] => Found::One(option, *negated),
            [.., before, last] => Found::Two(before.2.clone(), last.2.clone()),
        }
    }
}

/// What a word of a command line was.
pub(crate) enum Step<'w> {
    /// An option, which was stored.
    Option,
    /// An operand.
    Operand(&'w OsString),
    /// The end of options: what follows are operands.
    End,
    /// There was none.
    Done,
}

enum Found<'a, T: 'static> {
    None,
    One(&'a Spec<T>, bool),
    Two(String, String),
}

/// Settles the value of an option, and stores it.
fn apply<T>(
    option: &Spec<T>,
    name: &Name<'_>,
    joined: Option<&OsStr>,
    rest: &mut std::slice::Iter<'_, OsString>,
    typed: &mut T,
) -> Result<(), Failure> {
    let given = match (option.takes, joined) {
        _ if name.negated => match joined {
            Some(_) => return Err(name.error("takes no value")),
            None => Given::Off,
        },
        (Takes::Nothing, Some(_)) => return Err(name.error("takes no value")),
        (Takes::Nothing | Takes::Optional(_), None) => Given::On,
        (_, Some(value)) => Given::Value(value),
        (Takes::Value(_), None) => match rest.next() {
            Some(word) => Given::Value(word),
            None => return Err(name.error("requires a value")),
        },
    };
    (option.set)(typed, name, given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Typed {
        quiet: bool,
        depth: i32,
        delta: bool,
        mode: Option<String>,
    }

    const TABLE: Table<Typed> = Table {
        usage: &["x [-q] <name>"],
        options: &[
            Spec {
                short: Some('q'),
                long: "quiet",
                takes: Takes::Nothing,
                negatable: true,
                hidden: false,
                help: "say less",
                set: |typed, _, given| {
                    typed.quiet = matches!(given, Given::On);
                    Ok(())
                },
            },
            Spec {
                short: Some('d'),
                long: "depth",
                takes: Takes::Value("n"),
                negatable: true,
                hidden: false,
                help: "how deep",
                set: |typed, name, given| {
                    typed.depth = int(name, given)?;
                    Ok(())
                },
            },
            Spec {
                short: None,
                long: "delta-base-offset",
                takes: Takes::Nothing,
                negatable: false,
                hidden: false,
                help: "offsets",
                set: |typed, _, _| {
                    typed.delta = true;
                    Ok(())
                },
            },
            Spec {
                short: None,
                long: "mode",
                takes: Takes::Optional("m"),
                negatable: true,
                hidden: false,
                help: "mode",
                set: |typed, _, given| {
                    typed.mode = Some(format!("{given:?}"));
                    Ok(())
                },
            },
        ],
    };

    fn parse(words: &str) -> Result<(Typed, Vec<OsString>), String> {
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        let mut typed = Typed::default();
        match TABLE.parse(&words, &mut typed) {
            Ok(operands) => Ok((typed, operands)),
            Err(Failure::Usage(text) | Failure::Help(text)) => Err(text.lines().next().unwrap_or_default().to_owned()),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn forms() {
        let (typed, operands) = parse("a -qd3 --del b").unwrap();
        assert_eq!(typed, Typed { quiet: true, depth: 3, delta: true, mode: None });
        assert_eq!(operands, ["a", "b"]);
        assert_eq!(parse("--depth 4").unwrap().0.depth, 4);
        assert_eq!(parse("--dep=0x10k").unwrap().0.depth, 16384);
        assert_eq!(parse("-d 5 --no-d").unwrap().0.depth, 0);
        assert_eq!(parse("--mode").unwrap().0.mode.as_deref(), Some("On"));
        assert_eq!(parse("--mode=").unwrap().0.mode.as_deref(), Some("Value(\"\")"));
        assert!(!parse("-q --no-qu").unwrap().0.quiet);
        assert_eq!(parse("-q -- --depth").unwrap().1, ["--depth"]);
    }

    #[test]
    fn refusals() {
        for (words, want) in [
            ("--de=1", "error: ambiguous option: de (could be --depth or --delta-base-offset)"),
            ("--nothing", "error: unknown option `nothing'"),
            ("--no-delta-base-offset", "error: unknown option `no-delta-base-offset'"),
            ("-x", "error: unknown switch `x'"),
            ("-quiet", "error: did you mean `--quiet` (with two dashes)?"),
            ("--depth", "error: option `depth' requires a value"),
            ("--depth=x", "error: option `depth' expects an integer value with an optional k/m/g suffix"),
            ("--depth=", "error: option `depth' expects a numerical value"),
            ("--depth=3g", "error: value 3g for option `depth' not in range [-2147483648,2147483647]"),
            ("-d", "error: switch `d' requires a value"),
            ("--quiet=1", "error: option `quiet' takes no value"),
            ("--no-depth=1", "error: option `no-depth' takes no value"),
            ("-h", "usage: x [-q] <name>"),
        ] {
            assert_eq!(parse(words).unwrap_err(), want, "{words}");
        }
    }
}
