module scenarios

go 1.19

require github.com/libdlock/libdlock/bindings/go v0.0.0

replace github.com/libdlock/libdlock/bindings/go => ../../../bindings/go
