//! `words!`: enums whose values are words of the wire, exact and case sensitive (section 0.2 of
//! `docs/spec/lifecycle.md`).

/// Declares enums with their words: `enum Name { Variant = "word", … }`. Each gets `WORDS`, `word`, `parse` and
/// `parse_or`.
macro_rules! words {
    ($($(#[$doc:meta])* enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(unreachable_pub, reason = "some words are a module's own")]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        #[allow(unreachable_pub, reason = "some words are a module's own")]
        impl $name {
            /// Every word, in declaration order.
            pub const WORDS: &[&str] = &[$($word),+];

            /// The word of this value.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }

            /// Parses a word that was given in `field`.
            ///
            /// # Errors
            /// [`ModelError`](crate::ModelError) at `field` for any other word, the empty one included.
            pub fn parse(word: &str, field: &str) -> Result<$name, crate::ModelError> {
                match word {
                    $($word => Ok($name::$variant),)+
                    _ => Err($crate::lifecycle::word::unknown(word, $name::WORDS, field)),
                }
            }

            /// Parses a word that was given in `field`; an absent word means `default`.
            ///
            /// # Errors
            /// Errors of [`Self::parse`], except for the empty word.
            pub fn parse_or(
                word: &str,
                default: $name,
                field: &str,
            ) -> Result<$name, crate::ModelError> {
                if word.is_empty() { Ok(default) } else { $name::parse(word, field) }
            }
        }
    )+};
}

pub(crate) use words;

/// Error for a word that is not one of `words`.
#[cold]
pub(crate) fn unknown(word: &str, words: &[&str], field: &str) -> crate::ModelError {
    let words = words.join("`, `");
    let reason = if word.is_empty() {
        format!("required: one of `{words}`")
    } else {
        format!("unknown value `{word}`: not one of `{words}`")
    };
    crate::ModelError::new(field, reason)
}

#[cfg(test)]
mod tests {
    words! {
        /// The words of a test.
        enum Light {
            /// The word for stopping.
            Red = "Red",
            /// The word for going.
            Green = "Green",
        }
    }

    #[test]
    fn words_are_exact() {
        assert_eq!(Light::parse("Red", "light"), Ok(Light::Red));
        assert_eq!(Light::Green.word(), "Green");
        assert_eq!(Light::parse_or("", Light::Green, "light"), Ok(Light::Green));
        let error = Light::parse("red", "a.light").unwrap_err();
        assert_eq!(error.to_string(), "`a.light`: unknown value `red`: not one of `Red`, `Green`");
        let error = Light::parse("", "a.light").unwrap_err();
        assert_eq!(error.to_string(), "`a.light`: required: one of `Red`, `Green`");
    }
}
