//! Settings: macros that make a section of the configuration from the list of its settings, each of which has one
//! entry.

use crate::document::ConfigError;
use crate::document::decode::{Cursor, Fields};

/// Makes a section from the list of its settings: the struct of what one source gives, which is also the flags and
/// variables, the reading from a file, how flags win over the file, the checks, and the entries of
/// `docs/configuration.md`.
///
/// The head names the struct, the options that are made of it (`()` if its settings are not one option each), the
/// variable for the folder where relative paths start, and the variable for what has been read so far. An entry has the
/// help text, `arg` for the flag (`arg(skip)`: no flag) or `command` for a section, name and type, and then in this
/// order, as far as they exist:
///
/// * `file`: the field in the file and the function that reads it;
///   `check`: the function that refuses a value, and the name of the setting in errors about flags.
/// * `over`: how flags win over the file. Without it, the first that gives a value wins.
/// * `config` or `decided`: see [`config`].
/// * `option`: the field of the options that the setting is for.
/// * `at`: the path of the field on the page, if it is not that of `file`; `shown`: the default, and `page`: the
///   meaning, both as the page has them.
macro_rules! settings {
    (
        $(#[doc = $about:tt])+
        #[derive $derive:tt]
        $(#[command $heading:tt])?
        pub struct $Given:ident for $Options:ty, in $directory:ident, read as $so_far:ident;
        $(pub struct $Config:ident from $flags:ident over $file:ident as $given:ident;)?

        $(
            $(#[doc = $doc:tt])+
            $(#[arg $arg:tt])?
            $(#[command $command:tt])?
            $name:ident: $type:ty {
                $(file: $field:literal = $read:expr, $(check: $check:expr => $flag:literal,)?)?
                $(over: $over:expr,)?
                $(config: $config:ty = $default:expr, $(server: $($server:ident).+,)?)?
                $(decided: $decided:ident: $decided_type:ty = $value:expr, $(server: $($target:ident).+,)?)?
                $(option: $option:ident,)?
                $(at: $at:literal,)?
                $(shown: $shown:literal,)?
                $(page: $page:literal,)?
            }
        )+
    ) => {
        $(#[doc = $about])+
        #[derive $derive]
        $(#[command $heading])?
        pub struct $Given {
            $(
                $(#[doc = $doc])+
                $(#[arg $arg])?
                $(#[command $command])?
                pub $name: $type,
            )+
        }

        impl $Given {
            /// Reads the fields of an object of a file. Relative paths start at the folder.
            fn read(
                fields: &mut $crate::document::decode::Fields<'_>,
                $directory: &std::path::Path,
            ) -> $Given {
                let _ = $directory;
                let mut $so_far = $Given::default();
                $($(
                    let value = $crate::config::settings::take::<
                        <$type as $crate::config::settings::Layer>::Value,
                    >(fields, $field, $read, &[$(&$check)?]);
                    if let Some(value) = value {
                        $so_far.$name = $crate::config::settings::Layer::of(value);
                    }
                )?)+
                $so_far
            }

            /// Returns the entry of each setting in `docs/configuration.md`.
            #[cfg(test)]
            pub(in crate::config) fn documented() -> Vec<$crate::config::settings::Documented> {
                use $crate::config::settings::{Documented, optional};
                vec![$(Documented {
                    name: stringify!($name),
                    field: optional!($($field)?),
                    at: optional!($($at)?),
                    shown: optional!($($shown)?),
                    meaning: optional!($($page)?),
                }),+]
            }
        }

        impl $crate::config::settings::Layer for $Given {
            type Value = $Given;

            fn of(value: $Given) -> $Given {
                value
            }

            fn over(&self, file: &$Given) -> $Given {
                $Given {
                    $($name: $crate::config::settings::layered!(self, file, $name $(, $over)?),)+
                }
            }

            fn check(&self) -> Result<(), $crate::document::ConfigError> {
                $($($(
                    $crate::config::settings::check(self.$name.as_ref(), &$check, $flag)?;
                )?)?)+
                Ok(())
            }
        }

        impl $crate::config::settings::Setting<$Options> for $Given {
            fn or(&self, options: $Options) -> $Options {
                $($(
                    let options = {
                        let mut options = options;
                        options.$option =
                            $crate::config::settings::Setting::or(&self.$name, options.$option);
                        options
                    };
                )?)+
                options
            }
        }
    };
}

/// Lets a flag win over the field of the same setting.
macro_rules! layered {
    ($flags:ident, $file:ident, $name:ident) => {
        $crate::config::settings::Layer::over(&$flags.$name, &$file.$name)
    };
    ($flags:ident, $file:ident, $name:ident, $over:expr) => {
        $crate::config::settings::layer_by($flags, $file, $over)
    };
}

/// Makes the service's configuration from the list that also makes its flags: the struct of decided values, how they
/// follow from flags and file, and a server's options. The second line of the head names the struct, and the variables
/// for flags, file, and both together. An entry has, if it is a value of its own:
///
/// * `config`: type and default of the decided value; or `decided`: its name, its type, and how it follows from flags,
///   file, both together, and the values of entries above.
/// * `server`: the field of the server's options that it sets.
macro_rules! config {
    (
        $(#[doc = $about:tt])+
        #[derive $derive:tt]
        pub struct $Given:ident for (), in $directory:ident, read as $so_far:ident;
        pub struct $Config:ident from $flags:ident over $file:ident as $given:ident;

        $(
            $(#[doc = $doc:tt])+
            $(#[arg $arg:tt])?
            $(#[command $command:tt])?
            $name:ident: $type:ty {
                $(file: $field:literal = $read:expr, $(check: $check:expr => $flag:literal,)?)?
                $(over: $over:expr,)?
                $(config: $config:ty = $default:expr, $(server: $($server:ident).+,)?)?
                $(decided: $decided:ident: $decided_type:ty = $value:expr, $(server: $($target:ident).+,)?)?
                $(option: $option:ident,)?
                $(at: $at:literal,)?
                $(shown: $shown:literal,)?
                $(page: $page:literal,)?
            }
        )+
    ) => {
        /// Complete settings of a server.
        #[derive(Clone, Debug, PartialEq)]
        pub struct $Config {
            $(
                $(
                    #[doc = concat!("The decided value of [`", stringify!($Given), "::", stringify!($name), "`].")]
                    pub $name: $config,
                )?
                $(
                    #[doc = concat!("The decided value of [`", stringify!($Given), "::", stringify!($name), "`].")]
                    pub $decided: $decided_type,
                )?
            )+
        }

        impl $Config {
            /// Decides each value: the one of flags and variables, else of the file, else the default.
            fn decide($flags: &$Given, $file: &$Given) -> Result<$Config, $crate::document::ConfigError> {
                let $given = $crate::config::settings::Layer::over($flags, $file);
                $($(let $decided: $decided_type = $value;)?)+
                Ok($Config {
                    $(
                        $($name: $crate::config::settings::Setting::<$config>::or(&$given.$name, $default),)?
                        $($decided,)?
                    )+
                })
            }

            /// Returns the options with everything set that the configuration decides.
            pub fn server_options(
                &self,
                mut options: $crate::runtime::ServerOptions,
            ) -> $crate::runtime::ServerOptions {
                $(
                    $($(options.$($server).+ = self.$name.clone();)?)?
                    $($(options.$($target).+ = self.$decided.clone();)?)?
                )+
                options
            }
        }
    };
}

/// An optional part of an entry as an `Option`.
#[cfg(test)]
macro_rules! optional {
    () => {
        None
    };
    ($text:literal) => {
        Some($text)
    };
}

#[cfg(test)]
pub(super) use optional;
pub(super) use {config, layered, settings};

/// A setting or a section as one source gives it; a higher source wins over a lower one.
pub(super) trait Layer {
    /// The value of its field in a file.
    type Value;

    fn of(value: Self::Value) -> Self;

    fn over(&self, lower: &Self) -> Self;

    /// Refuses what flags and variables give by the checks of fields.
    fn check(&self) -> Result<(), ConfigError> {
        Ok(())
    }
}

impl<T: Clone> Layer for Option<T> {
    type Value = T;

    fn of(value: T) -> Option<T> {
        Some(value)
    }

    fn over(&self, lower: &Option<T>) -> Option<T> {
        self.as_ref().or(lower.as_ref()).cloned()
    }
}

impl<T: Clone> Layer for Vec<T> {
    type Value = Vec<T>;

    fn of(value: Vec<T>) -> Vec<T> {
        value
    }

    fn over(&self, lower: &Vec<T>) -> Vec<T> {
        if self.is_empty() { lower } else { self }.clone()
    }
}

/// Lets a flag win over the file by a rule of its own.
pub(super) fn layer_by<S, T>(flags: &S, file: &S, over: impl FnOnce(&S, &S) -> T) -> T {
    over(flags, file)
}

/// A setting or a section that may be given, with a default where it is not.
pub(super) trait Setting<T> {
    fn or(&self, default: T) -> T;
}

impl<T: Clone> Setting<T> for Option<T> {
    fn or(&self, default: T) -> T {
        self.clone().unwrap_or(default)
    }
}

impl<T: Clone> Setting<Option<T>> for Option<T> {
    fn or(&self, default: Option<T>) -> Option<T> {
        self.clone().or(default)
    }
}

impl<T: Clone> Setting<Vec<T>> for Vec<T> {
    fn or(&self, default: Vec<T>) -> Vec<T> {
        self.over(&default)
    }
}

/// A check of a value; the error is the reason why it is refused.
pub(super) type Check<'a, T> = &'a dyn Fn(&T) -> Result<(), String>;

/// Takes a field, reads it and checks it.
pub(super) fn take<T>(
    fields: &mut Fields<'_>,
    name: &str,
    read: impl FnOnce(Cursor<'_>) -> Option<T>,
    checks: &[Check<'_, T>],
) -> Option<T> {
    fields.take(name, |cursor| {
        let value = read(cursor)?;
        let refused = checks.iter().find_map(|check| check(&value).err());
        match refused {
            Some(reason) => {
                cursor.report(reason);
                None
            }
            None => Some(value),
        }
    })
}

/// Checks what a flag or a variable gives; errors have the name of the flag.
pub(super) fn check<T>(
    value: Option<&T>,
    check: Check<'_, T>,
    flag: &str,
) -> Result<(), ConfigError> {
    match value.map(check) {
        Some(Err(reason)) => Err(ConfigError::Setting { name: flag.to_owned(), reason }),
        Some(Ok(())) | None => Ok(()),
    }
}

/// The entry of a setting in `docs/configuration.md`.
#[cfg(test)]
pub(super) struct Documented {
    /// The name in this code, which is also the id of the flag.
    pub(super) name: &'static str,
    /// The field in the file.
    pub(super) field: Option<&'static str>,
    /// The path of the field on the page, if it is another.
    pub(super) at: Option<&'static str>,
    /// The default.
    pub(super) shown: Option<&'static str>,
    /// The meaning; `None` for a section, whose settings have their own, and for what the page says in other words.
    pub(super) meaning: Option<&'static str>,
}
