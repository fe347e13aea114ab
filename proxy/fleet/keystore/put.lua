-- KEYS[1] the keys; ARGV: id, the entry that is expected there ('' for none), the new entry. Answers with 1 if it was put,
-- 0 if another one is there. The change number only rises, also over a store that was emptied. Where the user may not
-- publish, edges find it by themselves.
local field = 'k:' .. ARGV[1]
if (redis.call('HMGET', KEYS[1], field)[1] or '') ~= ARGV[2] then return 0 end
local clock = redis.call('TIME')
local last = tonumber(redis.call('HMGET', KEYS[1], 'n')[1] or '') or 0
if not (last >= 0 and last < 9007199254740992) then last = 0 end -- another has written it: adding 1 would not change it
local number = string.format('%.0f', math.max(last + 1, clock[1] * 1000000 + clock[2]))
redis.call('HSET', KEYS[1], field, ARGV[3], 'n', number)
redis.pcall('PUBLISH', KEYS[1], number)
return 1
