//! The grammar, by recursive descent.

use std::ops::Range;

use super::matcher::Matcher;
use super::{Expression, Part};

/// Parentheses and negations inside of each other, at most.
const DEEPEST: usize = 200;

/// Makes a matcher of a text, or says what is wrong with it.
type Make = fn(&str) -> Result<Matcher, String>;

/// Predicates, and how they compare text without a sign.
const PREDICATES: [(&str, Part, Make); 5] = [
    ("test", Part::Test, |text| Ok(Matcher::Contains(text.to_owned()))),
    ("package", Part::Package, Matcher::glob),
    ("binary", Part::Binary, Matcher::glob),
    ("binary_id", Part::BinaryId, Matcher::glob),
    ("kind", Part::Kind, |text| Ok(Matcher::Equal(text.to_owned()))),
];
/// Those that nextest has besides.
const ELSEWHERE: [&str; 5] = ["deps", "rdeps", "platform", "group", "default"];
const KINDS: [&str; 6] = ["lib", "proc-macro", "bin", "test", "example", "bench"];

/// What is wrong, and where.
pub struct Wrong {
    pub message: String,
    pub at: Range<usize>,
    pub hint: String,
}

fn wrong<T>(at: Range<usize>, message: impl Into<String>, hint: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { message: message.into(), at, hint: hint.into() })
}

/// Reads a whole expression.
pub fn parse(source: &str) -> Result<Expression, Wrong> {
    let mut parser = Parser { source, place: 0, depth: 0 };
    let expression = parser.expression()?;
    match parser.rest().chars().next() {
        None => Ok(expression),
        Some(')') => wrong(parser.next(), "unexpected `)`", "nothing is open here"),
        Some(_) => {
            wrong(parser.next(), "expected an operator or the end", "`&`, `|` or `-` goes between two")
        }
    }
}

struct Parser<'a> {
    source: &'a str,
    place: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// What is left, after blanks and line ends.
    fn rest(&mut self) -> &'a str {
        let rest = &self.source[self.place..];
        let trimmed = rest.trim_start_matches([' ', '\n', '\r']);
        self.place += rest.len() - trimmed.len();
        trimmed
    }

    /// The place of the next character.
    fn next(&self) -> Range<usize> {
        let length = self.source[self.place..].chars().next().map_or(0, char::len_utf8);
        self.place..self.place + length
    }

    /// Takes one of the words, if it comes next. Letters must end there: `notall()` is no negation.
    fn take(&mut self, words: &[&str]) -> bool {
        let rest = self.rest();
        let word = words.iter().find(|word| {
            let ends = |after: &str| !after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            let is_name = word.starts_with(|c: char| c.is_ascii_alphabetic());
            rest.strip_prefix(**word).is_some_and(|after| !is_name || ends(after))
        });
        self.place += word.map_or(0, |word| word.len());
        word.is_some()
    }

    fn expression(&mut self) -> Result<Expression, Wrong> {
        let mut left = self.term()?;
        loop {
            self.refuse_doubled("||", "|")?;
            if !self.take(&["or", "|", "+"]) {
                return Ok(left);
            }
            left = Expression::Or(Box::new(left), Box::new(self.term()?));
        }
    }

    fn term(&mut self) -> Result<Expression, Wrong> {
        let mut left = self.factor()?;
        loop {
            self.refuse_doubled("&&", "&")?;
            let right = if self.take(&["and", "&"]) {
                self.factor()?
            } else if self.take(&["-"]) {
                Expression::Not(Box::new(self.factor()?))
            } else {
                return Ok(left);
            };
            left = Expression::And(Box::new(left), Box::new(right));
        }
    }

    fn refuse_doubled(&mut self, operator: &str, instead: &str) -> Result<(), Wrong> {
        if self.rest().starts_with(operator) {
            let at = self.place..self.place + operator.len();
            return wrong(at, format!("there is no operator `{operator}`"), format!("use `{instead}`"));
        }
        Ok(())
    }

    fn factor(&mut self) -> Result<Expression, Wrong> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return wrong(self.next(), format!("more than {DEEPEST} levels inside of each other"), "");
        }
        let factor = if self.take(&["not", "!"]) {
            Expression::Not(Box::new(self.factor()?))
        } else if self.rest().starts_with('(') {
            let open = self.next();
            self.place += 1;
            let inner = self.expression()?;
            if !self.take(&[")"]) {
                return wrong(open, "this `(` is not closed", "");
            }
            inner
        } else {
            self.predicate()?
        };
        self.depth -= 1;
        Ok(factor)
    }

    fn predicate(&mut self) -> Result<Expression, Wrong> {
        let rest = self.rest();
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, at) = (&rest[..length], self.place..self.place + length);
        if name.is_empty() {
            return wrong(self.next(), "expected a predicate", "such as `test(name)` or `package(name)`");
        }
        self.place += length;
        let known = PREDICATES.iter().find(|(known, ..)| *known == name);
        if ELSEWHERE.contains(&name) {
            return wrong(
                at,
                format!("`{name}()` is nextest's only"),
                "use `package()`, `binary()`, `kind()` or `test()`",
            );
        }
        let constant = match name {
            "all" => Some(Expression::All),
            "none" => Some(Expression::None),
            _ => None,
        };
        if known.is_none() && constant.is_none() {
            let hint = "there are test, package, binary, binary_id, kind, all and none";
            return wrong(at, format!("unknown predicate `{name}`"), hint);
        }
        if !self.take(&["("]) {
            return wrong(at, format!("`{name}` without parentheses"), format!("write `{name}(…)`"));
        }
        let expression = match (constant, known) {
            (Some(constant), _) => constant,
            (None, Some((_, part, default))) => Expression::Is(*part, self.matcher(*part, *default)?),
            (None, None) => unreachable!("it is one or the other"),
        };
        match self.rest().chars().next() {
            Some(')') => self.place += 1,
            None => return wrong(at, format!("the `(` of `{name}` is not closed"), ""),
            Some(',') => return wrong(self.next(), "unexpected `,`", r"write `\,` for one in a name"),
            Some(_) => return wrong(self.next(), "expected `)`", ""),
        }
        Ok(expression)
    }

    fn matcher(&mut self, part: Part, default: Make) -> Result<Matcher, Wrong> {
        let rest = self.rest();
        let start = self.place;
        let sign = rest.chars().next().filter(|sign| "=~#/".contains(*sign));
        self.place += usize::from(sign.is_some());
        if sign == Some('/') {
            let text = self.regular_expression(start)?;
            return Matcher::regex(&text).or_else(|message| {
                wrong(start..self.place, format!("this is no regular expression: {message}"), "")
            });
        }
        let text = self.text()?;
        if text.is_empty() {
            return wrong(self.next(), "expected a name", "");
        }
        let equal = sign == Some('=') || sign.is_none() && part == Part::Kind;
        if part == Part::Kind && equal && !KINDS.contains(&text.as_str()) {
            return wrong(
                start..self.place,
                format!("there is no kind `{text}`"),
                format!("there are {}", KINDS.join(", ")),
            );
        }
        let made = match sign {
            Some('=') => Ok(Matcher::Equal(text)),
            Some('~') => Ok(Matcher::Contains(text)),
            Some(_) => Matcher::glob(&text),
            None => default(&text),
        };
        made.or_else(|message| wrong(start..self.place, format!("this is no glob: {message}"), ""))
    }

    /// Up to the next slash that has no backslash before it. What else has one is the regular expression's own.
    fn regular_expression(&mut self, start: usize) -> Result<String, Wrong> {
        let mut text = String::new();
        let mut characters = self.source[self.place..].char_indices().peekable();
        while let Some((place, character)) = characters.next() {
            match (character, characters.peek()) {
                ('/', _) => {
                    self.place += place + 1;
                    return Ok(text);
                }
                ('\\', Some((_, '/'))) => {
                    characters.next();
                    text.push('/');
                }
                _ => text.push(character),
            }
        }
        wrong(start..start + 1, "this regular expression does not end", "it ends with `/`")
    }

    /// Up to the next `)` or `,` that has no backslash before it.
    fn text(&mut self) -> Result<String, Wrong> {
        let mut text = String::new();
        loop {
            let rest = &self.source[self.place..];
            let length = rest.find([')', ',', '\\']).unwrap_or(rest.len());
            text.push_str(&rest[..length]);
            self.place += length;
            if !rest[length..].starts_with('\\') {
                return Ok(text);
            }
            let (character, length) = match escape(&rest[length + 1..]) {
                Some(escaped) => escaped,
                None => {
                    let end = self.place + 1 + rest[length + 1..].chars().next().map_or(0, char::len_utf8);
                    let hint = r"there are \n \r \t \b \f \\ \/ \) \, and \u{…}";
                    return wrong(self.place..end, "unknown escape", hint);
                }
            };
            text.push(character);
            self.place += 1 + length;
        }
    }
}

/// The character that is meant by what stands behind a backslash, and the length of that.
fn escape(rest: &str) -> Option<(char, usize)> {
    let simple = |character| Some((character, 1));
    match rest.chars().next()? {
        'n' => simple('\n'),
        'r' => simple('\r'),
        't' => simple('\t'),
        'b' => simple('\u{8}'),
        'f' => simple('\u{c}'),
        character @ ('\\' | '/' | ')' | ',') => simple(character),
        'u' => {
            let digits = rest.strip_prefix("u{")?.split_once('}')?.0;
            let hexadecimal =
                (1..=6).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let character = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
            hexadecimal.then_some((character, digits.len() + 3))
        }
        _ => None,
    }
}
