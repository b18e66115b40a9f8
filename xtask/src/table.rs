//! Tables for a terminal: a header line, columns as wide as their widest cell.

/// Lays out rows; the first column is text and goes left, the others are figures and go right.
pub(crate) fn layout(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(header.get(column).map(|cell| cell.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (column, (cell, width)) in cells.zip(&widths).enumerate() {
            let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
            match column {
                0 => line.extend([cell, &padding]),
                _ => line.extend(["  ", &padding, cell]),
            }
        }
        line.trim_end().to_owned()
    };
    let mut text = line(&mut header.iter().copied());
    text.push('\n');
    text.push_str(&"-".repeat(widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)));
    for row in rows {
        text.push('\n');
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

/// Seconds with as many digits as mean something.
pub(crate) fn seconds(value: f64) -> String {
    match value {
        _ if value < 0.1 => format!("{value:.4} s"),
        _ if value < 10.0 => format!("{value:.3} s"),
        _ => format!("{value:.1} s"),
    }
}

/// KiB as MiB; a dash where the system does not tell.
pub(crate) fn mebibytes(kib: u64) -> String {
    if kib == 0 { "-".to_owned() } else { format!("{:.1} MiB", kib as f64 / 1024.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["clone".to_owned(), "1.5 s".to_owned()], vec!["a".to_owned(), "10.25 s".to_owned()]];
        assert_eq!(layout(&["what", "git"], &rows), "what       git\n--------------\nclone    1.5 s\na      10.25 s");
    }

    #[test]
    fn units() {
        assert_eq!(seconds(0.0123), "0.0123 s");
        assert_eq!(seconds(1.23456), "1.235 s");
        assert_eq!(seconds(12.3456), "12.3 s");
        assert_eq!(mebibytes(1536), "1.5 MiB");
        assert_eq!(mebibytes(0), "-");
    }
}
