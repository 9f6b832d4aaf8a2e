// For import. The same objects as for require.
import dlock from "./index.js";

export const { Client, DlockError, Held, Latch, Lock, open, Owner, Semaphore, STATUS, Transaction, version } = dlock;
export default dlock;
