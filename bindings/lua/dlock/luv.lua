--- A yield hook for luv: dlock.open(url, {yield = require "dlock.luv"}).
--
-- Coroutines wait while the loop runs; in the main one, waiting runs the loop. As long as the loop runs, on_event hears
-- what else there is, the loss of a lock say; this alone does not keep it running. Ends with client:close().

local uv = require "luv"

local handles = setmetatable({}, {__mode = "k"})

local function watch(client)
  local handle = uv.new_poll(assert(client:fd()))
  handles[client] = handle
  handle:start("r", function()
    if not client:dispatch() then -- closed, and nothing is left
      handles[client] = nil
      handle:close()
    elseif not client:waiting() then
      handle:unref()
    end
  end)
  return handle
end

return function(client, wait)
  local handle = handles[client] or watch(client)
  handle:ref()
  local co, main = coroutine.running()
  if not co or main then return uv.run("once") end
  wait.wake = function()
    local good, why = coroutine.resume(co)
    if not good then error(debug.traceback(co, tostring(why)), 0) end
  end
  coroutine.yield()
end
