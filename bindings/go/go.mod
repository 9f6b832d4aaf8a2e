module github.com/libdlock/libdlock/bindings/go

go 1.19
