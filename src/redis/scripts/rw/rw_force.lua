-- Release a read-write lock by force. Returns 1; 0 when it was free; -1 for another kind of key. Keys of read holds are
-- left to expire: without the lock they mean nothing. ARGV: channel
--@include rw.lua
local mode = look()
if mode == 'other' then
  return -1
elseif mode == 'free' and others(holds, '', millis()) == 0 then
  return 0
end
call('UNLINK', lock, holds) -- they may have many fields, which another thread of the server frees
tell_all(ARGV[1])
in_line('call_next', 1)
return 1
