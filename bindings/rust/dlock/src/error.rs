//! One error type: the status of the library and the sentence of its box.
use crate::{raw, ErrorKind};
use std::fmt;

/// What a call of the library answered instead of doing what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: i32,
    message: Box<str>,
}

/// The result of most calls.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(status: i32, message: &str) -> Self {
        let message = if message.is_empty() { raw::status_text(status) } else { message };
        Self { status, message: message.into() }
    }

    pub(crate) fn of(kind: ErrorKind, message: &str) -> Self {
        Self::new(kind.into(), message)
    }

    /// The library answered OK, but made no object.
    pub(crate) fn unmade() -> Self {
        Self::of(ErrorKind::OutOfMemory, "")
    }

    /// `false` for an error of the expected kind.
    pub(crate) fn unless(result: Result<()>, expected: ErrorKind) -> Result<bool> {
        Self::none(result, &[expected]).map(|done| done.is_some())
    }

    /// `None` for an error of the expected kinds.
    pub(crate) fn none<T>(result: Result<T>, expected: &[ErrorKind]) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if expected.contains(&error.kind()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What kind of error it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.status.into()
    }

    /// The number of the status, as in `dlock.h`.
    #[must_use]
    pub fn status(&self) -> i32 {
        self.status
    }

    /// The name of the status, for example `TIMED_OUT`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        raw::status_name(self.status)
    }

    /// Whether the same call may succeed later without a change by the caller.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        raw::status_retryable(self.status) != 0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
