-- KEYS[1] the entries. ARGV: domain, edge, the ms until an operator may have it tried again, the ms until it is tried again
-- by itself (0: it has not failed), how often it has failed in a row. Answers with 'released', or with 'lost' if the claim is
-- another edge's.
local K, clock = KEYS[1], redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if string.match(redis.call('HMGET', K, 'l:' .. ARGV[1])[1] or '', '^(%S+) ') ~= ARGV[2] then return {'lost'} end
redis.call('HDEL', K, 'l:' .. ARGV[1])
if ARGV[4] == '0' then redis.call('HDEL', K, 'w:' .. ARGV[1]) else
  local times = string.format('%.0f %.0f ', now + ARGV[3], now + ARGV[4]) .. ARGV[5]
  redis.call('HSET', K, 'w:' .. ARGV[1], times)
end
return {'released'}
