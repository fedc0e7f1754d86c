//! Draws a text in the place of the one before, on a terminal.

use std::io::stdout;
use terminal_size::{Height, Width, terminal_size_of};

/// Clears the screen.
pub(crate) const CLEAR: &str = "\x1b[2J\x1b[H";

/// To the first row; what stands there stays until it is overwritten, so nothing flickers.
const HOME: &str = "\x1b[H";

/// Clears the rest of the row.
const CLEAR_ROW: &str = "\x1b[K";

/// Clears all rows from here on.
const CLEAR_BELOW: &str = "\x1b[J";

/// Columns and rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    columns: usize,
    rows: usize,
}

/// The terminal's size; a usual one where it does not say.
pub(crate) fn size() -> Size {
    let size = terminal_size_of(stdout());
    let (columns, rows) = size.map_or((80, 24), |(Width(columns), Height(rows))| (columns, rows));
    Size { columns: columns.into(), rows: rows.into() }
}

/// What to send to the terminal so that it shows the text, and as much of it as there is room for: a row too
/// many would move the others up, and into the history, each time.
pub(crate) fn frame(text: &str, size: Size) -> String {
    // A row that is full to the last column, or a full last row, behaves differently from terminal to terminal.
    let (columns, room) = (size.columns.saturating_sub(1).max(1), size.rows.saturating_sub(1));
    let rows: Vec<String> = text.lines().flat_map(|line| folded(line, columns)).collect();
    let shown = if rows.len() > room { room.saturating_sub(1) } else { room };
    let mut frame = HOME.to_owned();
    for row in rows.iter().take(shown) {
        frame.push_str(row);
        frame.push_str(CLEAR_ROW);
        frame.push('\n');
    }
    if rows.len() > room {
        let hidden = format!("… and {} rows more: they need a taller terminal", rows.len() - shown);
        frame.extend(hidden.chars().take(columns));
        frame.push_str(CLEAR_ROW);
        frame.push('\n');
    }
    frame.push_str(CLEAR_BELOW);
    frame
}

/// A line in rows of so many columns.
fn folded(line: &str, columns: usize) -> Vec<String> {
    let characters: Vec<char> = line.chars().collect();
    if characters.is_empty() {
        return vec![String::new()];
    }
    characters.chunks(columns).map(|row| row.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_overwrites_the_one_before() {
        let frame = frame("one\n\nthree\n", Size { columns: 80, rows: 24 });
        assert_eq!(frame, "\x1b[Hone\x1b[K\n\x1b[K\nthree\x1b[K\n\x1b[J");
    }

    #[test]
    fn no_frame_is_higher_or_wider_than_the_terminal() {
        let text = "12345678\n".repeat(10);
        for rows in 2..30 {
            for columns in 2..12 {
                let frame = frame(&text, Size { columns, rows });
                let text = frame.replace(HOME, "").replace(CLEAR_ROW, "").replace(CLEAR_BELOW, "");
                assert!(text.lines().count() < rows, "{rows} rows");
                assert!(text.lines().all(|row| row.chars().count() < columns), "{columns} columns");
            }
        }
        let hidden = frame(&text, Size { columns: 80, rows: 5 });
        assert!(hidden.contains("… and 7 rows more"), "{hidden}");
    }
}
