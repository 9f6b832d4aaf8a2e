--- A yield hook for luv: dlock.open(url, {yield = require "dlock.luv"}).
--
-- Coroutines wait while the loop runs; a wait in the main coroutine runs the loop. While the loop runs, on_event gets
-- all other events, for example the loss of a lock; that alone does not keep the loop running. client:close() ends this.
-- The loop resumes coroutines itself: an error that a coroutine does not catch, or one in on_event, is an error in a
-- callback of luv.

local uv = require "luv"

local watched = setmetatable({}, {__mode = "k"}) -- by client: {handle, waiting = how many coroutines wait}
local due, idle = {}, uv.new_idle() -- coroutines with an answer; idle runs while there are any

local function watch(client)
  local handle = uv.new_poll(assert(client:fd()))
  handle:start("r", function()
    if client:dispatch() then return end
    watched[client] = nil -- closed, and no event is left
    handle:close()
  end)
  watched[client] = {handle = handle, waiting = 0}
  return watched[client]
end

--- Resume the first coroutine that is due: one in each iteration of the loop.
local function resume()
  local co = table.remove(due, 1)
  if not due[1] then idle:stop() end
  local good, err = coroutine.resume(co)
  if not good then error(debug.traceback(co, tostring(err)), 0) end
end

return function(client, wait)
  local it = watched[client] or watch(client)
  local co, main = coroutine.running()
  it.waiting = it.waiting + 1
  it.handle:ref()
  if not co or main then
    uv.run "once"
  else
    wait.wake = function()
      due[#due + 1] = co
      idle:start(resume)
    end
    coroutine.yield()
  end
  it.waiting = it.waiting - 1
  if it.waiting == 0 and watched[client] then it.handle:unref() end
end
