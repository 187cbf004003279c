//! Patterns of event names: `*` for any text, `?` for any character.

/// Whether a pattern matches a whole name.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut from) = (0, 0);
    // Where to go on when the text that the last star stands for must grow.
    let mut star = None;
    while from < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == name[from] => {
                at += 1;
                from += 1;
            }
            _ => match &mut star {
                Some((place, taken)) => {
                    *taken += 1;
                    (at, from) = (*place + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|&rest| rest == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn whole_names() {
        for (pattern, name) in [("*", ""), ("app:*", "app:x"), ("*:x?z", "app::xyz"), ("a*b*c", "a-b-b-c"), ("é?", "éa")] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("app", "app:x"), ("?", ""), ("*a", "ab"), ("a*b*c", "a-b-b"), ("", "x")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
