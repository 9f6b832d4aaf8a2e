//go:build tools

// Newer servers than Debian's, for the full tests: go build -o etcd go.etcd.io/etcd/server/v3
package server

import _ "go.etcd.io/etcd/server/v3"
