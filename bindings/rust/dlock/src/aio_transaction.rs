//! Optimistic transactions of tasks.
use crate::aio::{ask, Client};
use crate::error::Result;
use crate::{milliseconds, raw, Error, ErrorKind, Event};
use std::time::Duration;

/// As [`crate::Transaction`]. A call whose future was dropped goes on; until it ends, other calls get `InvalidArgument`.
#[derive(Debug)]
pub struct Transaction {
    pub(crate) raw: raw::Txn,
    pub(crate) client: Client,
}

impl Transaction {
    async fn ask(&mut self, submit: impl FnOnce(&mut raw::Txn, i64) -> Result<()>) -> Result<Event> {
        let raw = &mut self.raw;
        ask(&self.client, |tag| submit(raw, tag)).await
    }

    /// As [`crate::Transaction::watch`].
    ///
    /// # Errors
    /// Those of [`crate::Transaction::watch`].
    pub async fn watch(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.ask(|raw, tag| raw.submit_watch(key.as_ref(), tag)).await.map(drop)
    }

    /// As [`crate::Transaction::get`].
    ///
    /// # Errors
    /// Those of [`crate::Transaction::get`].
    pub async fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let event = self.ask(|raw, tag| raw.submit_get(key.as_ref(), tag)).await;
        Ok(Error::none(event, &[ErrorKind::NotFound])?.map(|event| event.data))
    }

    /// As [`crate::Transaction::set`].
    ///
    /// # Errors
    /// Those of [`crate::Transaction::set`].
    pub fn set(&mut self, key: impl AsRef<[u8]>, value: &[u8], ttl: Option<Duration>) -> Result<()> {
        self.raw.set(key.as_ref(), value, ttl.map_or(-1, milliseconds))
    }

    /// As [`crate::Transaction::incr`].
    ///
    /// # Errors
    /// Those of [`crate::Transaction::incr`].
    pub fn incr(&mut self, key: impl AsRef<[u8]>, by: i64) -> Result<()> {
        self.raw.incr(key.as_ref(), by)
    }

    /// As [`crate::Transaction::delete`].
    ///
    /// # Errors
    /// Those of [`crate::Transaction::delete`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.raw.delete(key.as_ref())
    }

    /// As [`crate::Transaction::commit`].
    ///
    /// # Errors
    /// Those of [`crate::Transaction::commit`].
    pub async fn commit(&mut self) -> Result<bool> {
        Error::unless(self.ask(raw::Txn::submit_commit).await.map(drop), ErrorKind::Conflict)
    }

    /// As [`crate::Transaction::rollback`].
    ///
    /// # Errors
    /// Those of [`crate::Transaction::rollback`].
    pub async fn rollback(&mut self) -> Result<()> {
        self.ask(raw::Txn::submit_rollback).await.map(drop)
    }
}
