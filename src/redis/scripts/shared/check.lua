-- Check whether a server is fit to keep locks. The script tries what the other scripts do, on keys of a name of its
-- own. Returns {the server's clock in microseconds, name, detail, name, detail ...}, with the names of store/finding.c.
-- KEYS: those of a mutex. ARGV: channel; whether there is a quarantine, and whether replicas confirm grants ("1")
-- A server of a cluster that is a replica, or has no slot for the keys, gets them as ARGV[4] to ARGV[7] instead: it
-- checks the command and the permission before it refuses the key.
local keyless = #KEYS == 0
local lock, fence, line, about = unpack(keyless and { ARGV[4], ARGV[5], ARGV[6], ARGV[7] } or KEYS)
local found, noted = {}, {}
-- One finding is said once, however often a command shows it.
local function note(name, detail)
  detail = tostring(detail):sub(1, 120)
  if not noted[name .. detail] then
    found[#found + 1], found[#found + 2], noted[name .. detail] = name, detail, true
  end
end

local refused
-- The command's reply. nil when it fails: the reason becomes a finding, unless a keyless server refuses only the key.
local function try(command, ...)
  local said = redis.pcall(command, ...)
  if type(said) ~= 'table' or not said.err then
    return said
  end
  if keyless and (said.err:find('READONLY', 1, true) or said.err:find("can't write against", 1, true) or said.err:find('non local', 1, true)) then
    return nil
  end
  if said.err:find('Unknown', 1, true) or said.err:find('unknown command', 1, true) then
    note('COMMAND_MISSING', command)
  elseif said.err:find('NOPERM', 1, true) or said.err:find('ACL', 1, true) or said.err:find("can't", 1, true) then
    note('COMMAND_DENIED', command)
  elseif not refused then
    refused = true
    note('WRITE_REFUSED', said.err)
  end
end

local function look(section)
  local said = try('INFO', section) or ''
  return function(name)
    return said:match('[\r\n]' .. name .. ':([^\r\n]*)')
  end
end

local memory, disk, server, family = look('memory'), look('persistence'), look('server'), look('replication')
local policy = memory('maxmemory_policy') or 'noeviction'
if policy ~= 'noeviction' then
  note('EVICTION', policy)
end
if disk('aof_enabled') == '0' and ARGV[2] ~= '1' then
  note('PERSISTENCE', '')
end
if disk('rdb_last_bgsave_status') == 'err' or disk('aof_last_write_status') == 'err' then
  note('PERSISTENCE_FAILS', '')
end
local version = server('redis_version')
if version and (tonumber(version:match('^%d+')) or 0) < 6 then
  note('VERSION', version)
end
if family('role') == 'slave' and not keyless then
  note('READ_ONLY', '')
elseif family('role') ~= 'slave' and (tonumber(family('connected_slaves') or '0') or 0) > 0 and ARGV[3] ~= '1' and not family('min_slaves_good_slaves') then
  note('REPLICAS', family('connected_slaves'))
end

if keyless or family('role') ~= 'slave' then
  try('SET', fence, '1', 'PX', '1000')
  try('GET', fence)
  try('INCRBY', fence, 1)
  try('HSET', lock, 'a', '1', 'b', '1')
  try('PEXPIRE', lock, '1000')
  try('PTTL', lock)
  try('HGET', lock, 'a')
  try('HMGET', about, 'a')
  try('HKEYS', lock)
  try('HEXISTS', lock, 'a')
  try('HDEL', lock, 'b')
  try('EXISTS', lock)
  try('ZADD', line, 1, 'a')
  try('PEXPIRE', line, '1000')
  try('ZCOUNT', line, 0, 1)
  try('ZRANGE', line, 0, 0)
  try('ZREM', line, 'a')
  try('HINCRBY', about, 'a', 1)
  try('PEXPIRE', about, '1000')
  try('HLEN', about)
  try('HSCAN', about, '0')
  try('PUBSUB', 'NUMSUB', ARGV[1])
  try('PUBLISH', ARGV[1], '0')
  try('DEL', lock, fence, line, about)
end
local time = try('TIME') or { 0, 0 }
table.insert(found, 1, time[1] * 1000000 + time[2])
return found
