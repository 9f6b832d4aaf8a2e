// Package dlock is the Go binding of libdlock: distributed locks on Redis with fencing tokens. Its locks exclude those of
// libdlock in other languages, and those of Redisson in Java.
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
// A held lock is renewed until it is unlocked. If it is lost, its Grant.Context is cancelled with the cause ErrLost before
// anybody else can hold the lock. There are two exceptions. Lock.ForceUnlock in another process is noticed at the next renewal,
// up to a third of the lease later. A program that is paused notices nothing: let the resource that the lock protects check
// Grant.Token.
//
// # Goroutines
//
// Each call of Lock is an owner of its own. Locks belong to grants and not to goroutines: they are not re-entrant, and
// another goroutine may unlock them. A waiting goroutine does not block a thread. There is one exception, for speed: when only
// one goroutine makes requests, it may stay on its thread until the answer, for at most twice the option busy_poll_us: 0.2 ms
// unless set, and not at all with 0.
//
// # The library
//
//	go get github.com/libdlock/libdlock/bindings/go
//
// At build time pkg-config finds libdlock; when the program starts, the system's loader finds libdlock.so.1. Without it the
// program does not start, and the loader says why. If libdlock is not where the system looks, set PKG_CONFIG_PATH and
// LD_LIBRARY_PATH, or an rpath in CGO_LDFLAGS. Open refuses a library that is too old.
//
// The binding needs cgo. Go switches it off for another platform, with CGO_ENABLED=0, and when there is no C compiler; then the
// build ends with "undefined: libdlock_needs_cgo".
//
//	go build -tags dlock_static
//
// compiles the library into the program. That needs a C compiler and nothing else, neither at build time nor later. A released module
// has the library's sources; in the source tree ./dev package go makes one. A URL with TLS needs OpenSSL 3 when the program runs.
package dlock
