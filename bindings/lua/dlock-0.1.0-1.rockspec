package = "dlock"
version = "0.1.0-1"
source = {
  url = "file://libdlock-0.1.0.tar.gz",
  dir = "libdlock-0.1.0/bindings/lua",
}
description = {
  summary = "Distributed locks on Redis, by libdlock",
  detailed = "Needs LuaJIT 2.1 or OpenResty, and libdlock.so.1.",
  license = "MIT",
}
dependencies = {
  "lua == 5.1",
}
build = {
  type = "builtin",
  modules = {
    ["dlock"] = "dlock.lua",
    ["dlock.cdef"] = "dlock/cdef.lua",
    ["dlock.luv"] = "dlock/luv.lua",
    ["dlock.ngx"] = "dlock/ngx.lua",
  },
}
