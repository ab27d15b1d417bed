//! Prices of instance types, from a file of lines such as `m5.large,0.096`.

use std::path::Path;

use super::CliError;
use crate::compare::Prices;

/// Reads the prices. A first line with a word for the price is a heading.
///
/// # Errors
/// A file that cannot be read; a line without a type and a price of 0 or more; a type that comes twice.
pub(super) fn read(path: &Path) -> Result<Prices, CliError> {
    let text = crate::document::read(path)?;
    parse(&text).map_err(|(line, reason)| {
        CliError::Request(format!("`{}`: line {line}: {reason}", path.display()))
    })
}

fn parse(text: &str) -> Result<Prices, (usize, String)> {
    let mut prices = Prices::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let failed = |reason: &str| Err((number, reason.to_owned()));
        let Some((name, price)) = line.split_once(',') else {
            return failed("must be a type and its price, with a comma between");
        };
        let (name, price) = (name.trim(), price.trim());
        let price: f64 = match price.parse() {
            Ok(price) => price,
            Err(_) if number == 1 && price.chars().all(char::is_alphabetic) => continue,
            Err(_) => return failed(&format!("`{price}` is no number")),
        };
        if !price.is_finite() || price < 0.0 {
            return failed("a price must be a number that is not negative");
        }
        if name.is_empty() {
            return failed("the type is missing");
        }
        if prices.insert(name.to_owned(), price).is_some() {
            return failed(&format!("`{name}` has a price already"));
        }
    }
    Ok(prices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_types_and_prices() {
        let prices = parse("type,price\nm5.large, 0.096\n\n p4d ,32.77\n").unwrap();
        assert_eq!(prices, [("m5.large".to_owned(), 0.096), ("p4d".to_owned(), 32.77)].into());
        assert_eq!(parse("").unwrap(), Prices::new());
        for (text, line, reason) in [
            ("m5.large", 1, "a comma"),
            ("m5.large,0.1 USD", 1, "`0.1 USD` is no number"),
            ("type,region,price", 1, "`region,price` is no number"),
            ("a,1\nb,x", 2, "`x` is no number"),
            ("a,-1", 1, "not negative"),
            ("a,NaN", 1, "not negative"),
            ("a,1\n,2", 2, "missing"),
            ("a,1\na,2", 2, "`a` has a price already"),
        ] {
            let (found, why) = parse(text).unwrap_err();
            assert!(found == line && why.contains(reason), "{text:?}: line {found}: {why}");
        }
    }
}
