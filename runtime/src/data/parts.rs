//! Where a long text can be cut without changing its tokens.
//!
//! GPT-2's pattern, which every byte-level BPE uses, never joins a visible character with white space behind it. In
//! front of white space that follows a visible character, a cut is therefore a border between two tokens anyway.

/// Where to cut a text that is longer than `limit`: the end of a line if there is one in the second half, else the end
/// of a word, else wherever a character ends. Never 0 for a limit of at least 4 bytes.
pub fn cut(text: &str, limit: usize) -> usize {
    let end = text.floor_char_boundary(limit);
    let ends_word = |at: &usize| text[..*at].chars().next_back().is_some_and(|c| !c.is_whitespace());
    let line = text[..end].rmatch_indices('\n').map(|(at, _)| at).take_while(|at| *at > limit / 2).find(ends_word);
    let word = || {
        let spaces = text[..end].char_indices().rev().filter(|(_, c)| c.is_whitespace());
        spaces.map(|(at, _)| at).find(ends_word)
    };
    line.or_else(word).unwrap_or(end)
}

/// The text in parts of at most `limit` bytes.
pub fn parts(text: &str, limit: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let at = if rest.len() > limit { cut(rest, limit) } else { rest.len() };
        let (part, behind) = rest.split_at(at);
        rest = behind;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, limit: usize, expect: &[&str]) {
        assert_eq!(parts(text, limit).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn lines_are_kept_whole_where_they_can_be() {
        check("", 8, &[]);
        check("short", 8, &["short"]);
        check("one two\nthree four", 10, &["one two", "\nthree", " four"]);
        check("a\n\n\nbbbbbb", 6, &["a", "\n\n\nbbb", "bbb"]);
        check("unbroken", 4, &["unbr", "oken"]);
        check("ääää", 5, &["ää", "ää"]);
        check("        x", 4, &["    ", "    ", "x"]);
    }
}
