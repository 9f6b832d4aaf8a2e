// Package dlock is the Go binding of libdlock: distributed locks on Redis, with fencing tokens, that exclude those of
// libdlock in other languages and of Redisson in Java.
//
//	client, err := dlock.Open("redis://localhost:6379")
//	lock, err := client.Mutex("invoice:17")
//	grant, err := lock.Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer grant.Unlock(ctx)
//	return pay(grant.Context(), 17, grant.Token())
//
// A held lock is renewed until it is unlocked. Should it be lost all the same, its Grant.Context is cancelled with the
// cause ErrLost before anybody else can hold the lock. Only Lock.ForceUnlock elsewhere is noticed later, at the next renewal:
// up to a third of the lease. A program that is paused cannot be told: let the resource that the lock protects check
// Grant.Token.
//
// # Goroutines
//
// Each call of Lock is an owner of its own: locks belong to grants and not to goroutines, are not re-entrant, and may be
// unlocked by another goroutine. A goroutine that waits holds no thread. To be fast, one that asks while no other does may
// stay on its thread for the answer, for 0.2 ms at most; the option busy_poll_us says half of that, and 0 not at all.
//
// # The library
//
//	go get github.com/libdlock/libdlock/bindings/go
//
// libdlock is found by pkg-config when a program is built, and by the system's loader, as libdlock.so.1, when it starts:
// a program does not start without it, and says so. PKG_CONFIG_PATH and LD_LIBRARY_PATH, or an rpath by CGO_LDFLAGS, say
// where it is if not where the system looks. Open refuses one that is too old.
package dlock
