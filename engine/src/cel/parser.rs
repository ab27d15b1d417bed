//! The grammar: from words to a syntax tree.
//!
//! Nesting is limited as upstream limits it: each rule of the grammar may be entered 250 times at once, and a chain of
//! operators or of selections counts as entering its rule again.

use std::sync::Arc;

use super::macros;
use super::syntax::{Expr, Kind};
use super::token::{self, Fault, Token};
use super::value::Value;
use super::word::Word;

/// How often a rule of the grammar may be entered at once.
const MAX_DEPTH: usize = 250;

/// Words that cannot be names of variables.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Reads an expression.
pub(crate) fn parse(source: &str) -> Result<Expr, Fault> {
    let tokens = token::split(source)?;
    let mut parser = Parser { tokens, next: 0, depth: [0; 5] };
    let expr = parser.expression()?;
    match parser.peek() {
        Word::End => Ok(expr),
        word => Err(parser.fault(format!("Syntax error: extraneous input {}", shown(word)))),
    }
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    /// Entries of each rule in [`Rule`].
    depth: [usize; 5],
}

/// Rules whose entries are counted.
#[derive(Clone, Copy)]
enum Rule {
    Expression,
    Relation,
    Sum,
    Product,
    Member,
}

impl Parser {
    fn expression(&mut self) -> Result<Expr, Fault> {
        self.nested(Rule::Expression, |parser| {
            let condition = parser.disjunction()?;
            let at = parser.at();
            if !parser.takes("?") {
                return Ok(condition);
            }
            let yes = parser.disjunction()?;
            parser.expect(":")?;
            let no = parser.expression()?;
            Ok(Expr { at, kind: Kind::Conditional(Box::new([condition, yes, no])) })
        })
    }

    fn disjunction(&mut self) -> Result<Expr, Fault> {
        self.terms("||", Kind::Or, Parser::conjunction)
    }

    fn conjunction(&mut self) -> Result<Expr, Fault> {
        self.terms("&&", Kind::And, Parser::relation)
    }

    fn terms(
        &mut self,
        mark: &str,
        join: fn(Vec<Expr>) -> Kind,
        term: fn(&mut Parser) -> Result<Expr, Fault>,
    ) -> Result<Expr, Fault> {
        let first = term(self)?;
        let at = self.at();
        if !self.is_at(mark) {
            return Ok(first);
        }
        let mut terms = vec![first];
        while self.takes(mark) {
            terms.push(term(self)?);
        }
        Ok(Expr { at, kind: join(terms) })
    }

    fn relation(&mut self) -> Result<Expr, Fault> {
        const OPERATORS: [(&str, &str); 7] = [
            ("==", "_==_"),
            ("!=", "_!=_"),
            ("<", "_<_"),
            ("<=", "_<=_"),
            (">", "_>_"),
            (">=", "_>=_"),
            ("in", "@in"),
        ];
        self.chain(Rule::Relation, &OPERATORS, Parser::sum)
    }

    fn sum(&mut self) -> Result<Expr, Fault> {
        const OPERATORS: [(&str, &str); 2] = [("+", "_+_"), ("-", "_-_")];
        self.chain(Rule::Sum, &OPERATORS, Parser::product)
    }

    fn product(&mut self) -> Result<Expr, Fault> {
        const OPERATORS: [(&str, &str); 3] = [("*", "_*_"), ("/", "_/_"), ("%", "_%_")];
        self.chain(Rule::Product, &OPERATORS, Parser::unary)
    }

    fn chain(
        &mut self,
        rule: Rule,
        operators: &[(&str, &str)],
        operand: fn(&mut Parser) -> Result<Expr, Fault>,
    ) -> Result<Expr, Fault> {
        self.nested(rule, |parser| {
            let mut left = operand(parser)?;
            let before = parser.depth[rule as usize];
            while let Some((mark, function)) = operators.iter().find(|(mark, _)| parser.is_at(mark))
            {
                let at = parser.at();
                parser.takes(mark);
                parser.enter(rule)?;
                let right = operand(parser)?;
                left = call(at, function, vec![left, right]);
            }
            parser.depth[rule as usize] = before;
            Ok(left)
        })
    }

    fn unary(&mut self) -> Result<Expr, Fault> {
        for (mark, function) in [("!", "!_"), ("-", "-_")] {
            let at = self.at();
            let n_marks = self.tokens[self.next..]
                .iter()
                .take_while(|token| token.word == Word::Mark(if mark == "!" { "!" } else { "-" }))
                .count();
            // A single minus before a number belongs to the number.
            let is_sign = mark == "-" && n_marks == 1 && self.is_number(self.next + 1);
            if n_marks == 0 || is_sign {
                continue;
            }
            self.next += n_marks;
            let operand = self.member()?;
            return Ok(if n_marks % 2 == 0 { operand } else { call(at, function, vec![operand]) });
        }
        self.member()
    }

    fn is_number(&self, position: usize) -> bool {
        let word = self.tokens.get(position).map(|token| &token.word);
        matches!(word, Some(Word::Int(_) | Word::Double(_)))
    }

    fn member(&mut self) -> Result<Expr, Fault> {
        self.nested(Rule::Member, |parser| {
            let before = parser.depth[Rule::Member as usize];
            let mut expr = parser.primary()?;
            loop {
                let at = parser.at();
                if parser.takes(".") {
                    parser.enter(Rule::Member)?;
                    expr = parser.selection(at, expr)?;
                } else if parser.takes("[") {
                    parser.enter(Rule::Member)?;
                    let is_optional = parser.takes("?");
                    let index = Box::new(parser.expression()?);
                    parser.expect("]")?;
                    expr = Expr {
                        at,
                        kind: Kind::Index { operand: Box::new(expr), index, is_optional },
                    };
                } else {
                    parser.depth[Rule::Member as usize] = before;
                    return Ok(expr);
                }
            }
        })
    }

    fn selection(&mut self, at: usize, operand: Expr) -> Result<Expr, Fault> {
        let is_optional = self.takes("?");
        let field = self.ident()?;
        let call_at = self.at();
        if is_optional || !self.takes("(") {
            return Ok(Expr {
                at,
                kind: Kind::Select { operand: Box::new(operand), field, is_optional },
            });
        }
        let args = self.args()?;
        macros::member(call_at, operand, field, args)
    }

    fn primary(&mut self) -> Result<Expr, Fault> {
        let at = self.at();
        let kind = match self.take() {
            Word::Mark("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                return Ok(inner);
            }
            Word::Mark("[") => self.list()?,
            Word::Mark("{") => self.map()?,
            Word::Mark("-") => self.negative()?,
            Word::Mark(".") => return self.name(at),
            Word::Ident(_) => {
                self.next -= 1;
                return self.name(at);
            }
            Word::Int(value) => {
                let value =
                    i64::try_from(value).map_err(|_| Fault::new(at, "invalid int literal"))?;
                Kind::Literal(Value::Int(value))
            }
            Word::Uint(value) => Kind::Literal(Value::Uint(value)),
            Word::Double(value) => Kind::Literal(Value::Double(value)),
            Word::String(text) => Kind::Literal(Value::string(text)),
            Word::Bytes(bytes) => Kind::Literal(Value::Bytes(Arc::from(bytes))),
            Word::Mark("true") => Kind::Literal(Value::Bool(true)),
            Word::Mark("false") => Kind::Literal(Value::Bool(false)),
            Word::Mark("null") => Kind::Literal(Value::Null),
            word => {
                return Err(Fault::new(
                    at,
                    format!("Syntax error: mismatched input {}", shown(&word)),
                ));
            }
        };
        Ok(Expr { at, kind })
    }

    /// Reads a number after a minus.
    fn negative(&mut self) -> Result<Kind, Fault> {
        let at = self.at();
        let value = match self.take() {
            Word::Int(value) => 0_i64.checked_sub_unsigned(value).map(Value::Int),
            Word::Double(value) => Some(Value::Double(-value)),
            word => {
                return Err(Fault::new(
                    at,
                    format!("Syntax error: mismatched input {}", shown(&word)),
                ));
            }
        };
        value.map(Kind::Literal).ok_or_else(|| Fault::new(at, "invalid int literal"))
    }

    /// Reads a name, and its arguments if it is a call.
    fn name(&mut self, at: usize) -> Result<Expr, Fault> {
        let name = self.ident()?;
        if RESERVED.contains(&name.as_str()) {
            return Err(Fault::new(at, format!("reserved identifier: {name}")));
        }
        let call_at = self.at();
        if self.takes("(") {
            let args = self.args()?;
            return macros::global(call_at, name, args);
        }
        if self.is_at("{") {
            return Err(Fault::new(
                at,
                format!("undeclared reference to '{name}' (in container '')"),
            ));
        }
        Ok(Expr { at, kind: Kind::Ident(name) })
    }

    fn args(&mut self) -> Result<Vec<Expr>, Fault> {
        let mut args = Vec::new();
        if self.takes(")") {
            return Ok(args);
        }
        loop {
            args.push(self.expression()?);
            if !self.takes(",") {
                self.expect(")")?;
                return Ok(args);
            }
        }
    }

    fn list(&mut self) -> Result<Kind, Fault> {
        let mut elements = Vec::new();
        while !self.takes("]") {
            let is_optional = self.takes("?");
            elements.push((self.expression()?, is_optional));
            if !self.takes(",") {
                self.expect("]")?;
                break;
            }
        }
        Ok(Kind::List(elements))
    }

    fn map(&mut self) -> Result<Kind, Fault> {
        let mut entries = Vec::new();
        while !self.takes("}") {
            let is_optional = self.takes("?");
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?, is_optional));
            if !self.takes(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(Kind::Map(entries))
    }

    fn ident(&mut self) -> Result<String, Fault> {
        let at = self.at();
        match self.take() {
            Word::Ident(name) => Ok(name),
            word => Err(Fault::new(at, format!("Syntax error: mismatched input {}", shown(&word)))),
        }
    }

    fn nested<T>(
        &mut self,
        rule: Rule,
        read: impl FnOnce(&mut Parser) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.enter(rule)?;
        let result = read(self);
        self.depth[rule as usize] -= 1;
        result
    }

    fn enter(&mut self, rule: Rule) -> Result<(), Fault> {
        let depth = &mut self.depth[rule as usize];
        *depth += 1;
        if *depth > MAX_DEPTH {
            return Err(self.fault(format!("expression recursion limit exceeded: {MAX_DEPTH}")));
        }
        Ok(())
    }

    fn peek(&self) -> &Word {
        self.tokens.get(self.next).map_or(&Word::End, |token| &token.word)
    }

    fn take(&mut self) -> Word {
        let word = self.peek().clone();
        self.next += 1;
        word
    }

    fn is_at(&self, mark: &str) -> bool {
        matches!(self.peek(), Word::Mark(word) if *word == mark)
    }

    fn takes(&mut self, mark: &str) -> bool {
        let is_at = self.is_at(mark);
        self.next += usize::from(is_at);
        is_at
    }

    fn expect(&mut self, mark: &str) -> Result<(), Fault> {
        if self.takes(mark) {
            return Ok(());
        }
        Err(self.fault(format!(
            "Syntax error: mismatched input {} expecting '{mark}'",
            shown(self.peek())
        )))
    }

    fn at(&self) -> usize {
        let token = self.tokens.get(self.next).or(self.tokens.last());
        token.map_or(0, |token| token.at)
    }

    fn fault(&self, text: String) -> Fault {
        Fault::new(self.at(), text)
    }
}

fn call(at: usize, function: &str, args: Vec<Expr>) -> Expr {
    Expr { at, kind: Kind::Call { target: None, function: function.to_owned(), args } }
}

fn shown(word: &Word) -> String {
    match word {
        Word::Ident(name) => format!("'{name}'"),
        Word::Mark(mark) => format!("'{mark}'"),
        Word::End => "'<EOF>'".to_owned(),
        _ => "a literal".to_owned(),
    }
}
