"""What smoke.sh asks of the Python binding."""
import importlib.metadata
import os

import dlock

with dlock.Client(os.environ["DLOCK_URL"], lease_ms=1500) as client, dlock.Client(os.environ["DLOCK_URL"]) as other:
    lock = client.lock("smoke-python")
    assert lock.acquire(timeout=5) and lock.held
    first = lock.token
    assert not other.lock("smoke-python").acquire(blocking=False)
    assert other.lock("smoke-python").force_release()
    lost = client.next_event(timeout=30)
    assert lost is not None and lost.type is dlock.EventType.LOST and lock.lost, lost
    assert lock.acquire(timeout=5) and lock.token > first
    lock.release()
    assert other.lock("smoke-python").acquire(timeout=5)
print("python3:", importlib.metadata.version("dlock"))
