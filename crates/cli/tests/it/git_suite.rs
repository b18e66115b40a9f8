//! The list of what git's own tests do not find in this program.

const LIST: &str = include_str!("../git-suite.txt");

/// Each test that does not pass is listed with a reason, and no other.
#[test]
fn every_exception_has_its_reason() {
    let mut script = ("", 0, 0);
    let mut listed: Vec<u32> = Vec::new();
    let settle = |(name, passed, all): (&str, usize, usize), listed: &mut Vec<u32>| {
        assert!(listed.is_sorted_by(|a, b| a < b), "{name}: {listed:?}");
        assert_eq!(all - passed, listed.len(), "{name}: {listed:?}");
        listed.clear();
    };
    for line in LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(exception) = line.strip_prefix("  ") {
            let (tests, reason) = exception.split_once(' ').expect(line);
            let kind = reason.trim_start().split(':').next().unwrap();
            assert!(["todo", "bitmap", "feature", "words", "decision"].contains(&kind), "{line}");
            assert!(matches!(kind, "todo" | "bitmap") || reason.contains(": "), "{line}");
            let (first, last) = tests.split_once('-').unwrap_or((tests, tests));
            listed.extend(first.parse::<u32>().expect(line)..=last.parse().expect(line));
            continue;
        }
        settle(script, &mut listed);
        let words: Vec<&str> = line.split(' ').collect();
        let (passed, all) = words[1].split_once('/').expect(line);
        script = (words[0], passed.parse().expect(line), all.parse().expect(line));
        assert!(words.len() > 2, "{line}: which subcommands were ours?");
    }
    settle(script, &mut listed);
}
