-- KEYS[1] the entries. ARGV: the lock's name, edge, lease in ms, how long the entries are kept in ms. Answers with 'granted' or
-- 'held' (by another edge). A lease that ends further off than one of ours can, as after the store's clock was set back, does
-- not count.
local K, clock = KEYS[1], redis.call('TIME')
local now, lease = clock[1] * 1000 + math.floor(clock[2] / 1000), tonumber(ARGV[3])
local owner, till = string.match(redis.call('HMGET', K, 'l:' .. ARGV[1])[1] or '', '^(%S+) (%d+)$')
local left = owner and owner ~= ARGV[2] and tonumber(till) - now or 0
if left > 0 and left <= lease then return {'held'} end
redis.call('HSET', K, 'l:' .. ARGV[1], ARGV[2] .. ' ' .. string.format('%.0f', now + lease))
redis.call('PEXPIRE', K, ARGV[4])
return {'granted'}
