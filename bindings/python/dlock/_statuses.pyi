"""The exceptions for type checkers, from src/base/error.c. Written by abi/gen.py: do not edit.

At run time _errors.define makes them.
"""
from ._errors import DlockError

class Busy(DlockError):
    """Somebody else holds the lock and the caller did not want to wait."""

class TimedOut(DlockError, TimeoutError):
    """The caller's time to wait is over."""

class Cancelled(DlockError):
    """The wait was cancelled."""

class Interrupted(DlockError):
    """A signal was handled while waiting; call again to go on."""

class WouldBlock(DlockError):
    """This takes longer than a moment; use the call that may block, or wait for the event."""

class NoEvent(DlockError):
    """No event waits in the queue."""

class Unchanged(DlockError):
    """It was set before; nothing changed."""

class GateClosed(DlockError):
    """The gate of the lock is closed: nobody acquires it until it is opened again."""

class Conflict(DlockError):
    """Somebody else changed a watched key; nothing was written."""

class NotFound(DlockError):
    """There is no such key."""

class InvalidArgument(DlockError, ValueError):
    """An argument is outside of what the call accepts."""

class InvalidName(DlockError, ValueError):
    """The lock name is empty, too long, or holds bytes or braces that are refused."""

class UnknownOption(DlockError, ValueError):
    """There is no option of this name."""

class InvalidOption(DlockError, ValueError):
    """The option does not accept this value."""

class InvalidUrl(DlockError, ValueError):
    """The URL cannot be read."""

class Unsupported(DlockError):
    """This lock, set-up or build of the library cannot do that."""

class OutOfMemory(DlockError, MemoryError):
    """This process has no memory left."""

class Closed(DlockError):
    """The client is closed."""

class Forked(DlockError):
    """The client was used before the fork and belongs to the parent process."""

class BufferTooSmall(DlockError):
    """The result does not fit into the caller's buffer."""

class SystemError(DlockError):
    """The operating system refused something the library needs."""

class DuplicateName(DlockError, ValueError):
    """A lock is named twice; each may be named once."""

class InvalidQuorum(DlockError, ValueError):
    """These servers cannot vote together."""

class NotHeld(DlockError, RuntimeError):
    """The owner does not hold the lock."""

class Lost(DlockError):
    """The owner held the lock and lost it before this call."""

class WrongKind(DlockError):
    """The server uses the name for another kind of lock, or for something else."""

class UnknownOutcome(DlockError):
    """The request was sent, but no answer came: it may have been carried out, or may still be."""

class InvalidGrant(DlockError, ValueError):
    """The bytes are not a grant of this lock."""

class UpgradeRefused(DlockError):
    """The owner holds the lock for reading; it must release that before it asks to write."""

class NoTransaction(DlockError):
    """No transaction is under way: watch a key first."""

class Unreachable(DlockError, ConnectionError):
    """The server cannot be reached or does not answer."""

class Denied(DlockError, PermissionError):
    """The server refuses the credentials or does not permit the command."""

class ServerLoading(DlockError):
    """The server is loading its data, or waits for its primary."""

class ServerBusy(DlockError):
    """The server is busy with a long script or has too many clients."""

class ServerOutOfMemory(DlockError):
    """The server has reached its memory limit."""

class ServerReadOnly(DlockError):
    """The server takes no writes: it is a replica, or it cannot save."""

class ProtocolError(DlockError):
    """The server sent something that is not its protocol, or is larger than the library takes."""

class ServerError(DlockError):
    """The server answered with an error."""

class TlsFailed(DlockError):
    """TLS with the server failed, or the server did not prove its name."""

class WrongSetup(DlockError):
    """The server belongs to another set-up than the URL says: use another scheme."""

class Quarantined(DlockError):
    """The server may have lost its memory: no lock is granted until all older leases have ended."""

class LeaseRefused(DlockError):
    """The server keeps another longest lease than quarantine_ms says."""

class NotReplicated(DlockError):
    """Too few replicas confirmed in time: a grant is taken back, a renewal does not count."""

class ServerForgot(DlockError):
    """The server gave a lower token than before: it lost its memory, and its clock is behind."""

class Unfit(DlockError):
    """The server is not fit to keep locks."""
