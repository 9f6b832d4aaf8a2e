-- Release a read-write lock by force. Returns 1; 0 when it was free; -1 for another kind of key. Keys of read holds are
-- left to expire: without the lock they mean nothing. ARGV: channel
--@include rw.lua
local mode = look()
if mode == 'free' or mode == 'other' then
  return mode == 'free' and 0 or -1
end
call('UNLINK', lock) -- it may have many fields, which another thread of the server frees
tell_all(ARGV[1])
in_line('call_next', 1)
return 1
