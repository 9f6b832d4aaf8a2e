/*
 * dlock.h: in place of the header, where the library's sources are not.
 */
#error "this tree of the Go module has no sources of libdlock: see doc.go"
