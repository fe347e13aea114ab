-- KEYS[1] the entries. ARGV: domain, edge, lease in ms, whether an operator wants it now (1, 0), how long the entries are
-- kept in ms. Answers with 'granted', 'held' (by another edge) or 'wait' (after a failure), with the ms until that ends, and
-- with how often it has failed in a row. A time that is further off than one of ours can be, as after the store's clock was
-- set back, does not count.
local K, clock = KEYS[1], redis.call('TIME')
local now, lease = clock[1] * 1000 + math.floor(clock[2] / 1000), tonumber(ARGV[3])
local f = redis.call('HMGET', K, 'l:' .. ARGV[1], 'w:' .. ARGV[1])
local owner, till = string.match(f[1] or '', '^(%S+) (%d+)$')
local hurried, pause, failures = string.match(f[2] or '', '^(%d+) (%d+) (%d+)$')
failures = failures or '0'
if owner ~= ARGV[2] then
  local left = owner and tonumber(till) - now or 0
  if left > 0 and left <= lease then return {'held', string.format('%.0f', left), failures} end
  local at = tonumber(pause or '0')
  if ARGV[4] == '1' then at = math.min(at, tonumber(hurried or '0')) end
  if at > now and at <= now + 90000000 then return {'wait', string.format('%.0f', at - now), failures} end
end
redis.call('HSET', K, 'l:' .. ARGV[1], ARGV[2] .. ' ' .. string.format('%.0f', now + lease))
redis.call('PEXPIRE', K, ARGV[5])
return {'granted', '0', failures}
