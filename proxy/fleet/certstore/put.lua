-- KEYS[1] the entries. ARGV: field, the change number that is expected there (0: none), the blob, how long the entries are
-- kept in ms. Answers with the new change number, or with 'changed' if another edge was faster.
local K, clock = KEYS[1], redis.call('TIME')
local there = string.match(redis.call('HMGET', K, ARGV[1])[1] or '', '^(%d+) ') or '0'
if there ~= ARGV[2] then return {'changed'} end
local last = tonumber(redis.call('HMGET', K, 'n')[1] or '') or 0
if last > 9007199254740991 then last = 0 end
local number = string.format('%.0f', math.max(last + 1, clock[1] * 1000000 + clock[2]))
redis.call('HSET', K, ARGV[1], number .. ' ' .. ARGV[3], 'n', number)
redis.call('PEXPIRE', K, ARGV[4])
return {number}
