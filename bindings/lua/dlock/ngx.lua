--- A yield hook for OpenResty, or nginx with ngx_lua: dlock.open(url, {yield = require "dlock.ngx"}), once per worker.
--
-- nginx cannot wait for foreign descriptors. So while requests wait, one timer polls for events each millisecond, and
-- each request sleeps on a semaphore. Works only where ngx.sleep may be called: not in the init, header filter, body
-- filter and log phases.

local semaphore = require "ngx.semaphore"

local watched = setmetatable({}, {__mode = "k"}) -- clients that have a timer

local function look(premature, client)
  local good, err = pcall(function()
    while not premature and client:waiting() and client:dispatch() do
      ngx.sleep(0.001)
    end
  end)
  watched[client] = nil
  if not good then ngx.log(ngx.ERR, "dlock: ", tostring(err)) end
end

return function(client, wait)
  if not watched[client] then
    watched[client] = not ngx.worker.exiting() and ngx.timer.at(0, look, client)
  end
  if not watched[client] then return ngx.sleep(0.001) end
  local answer = semaphore.new()
  wait.wake = function() answer:post() end
  local good, err = answer:wait(1)
  if not good and err ~= "timeout" then error(err) end
end
