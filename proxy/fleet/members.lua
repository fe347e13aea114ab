-- KEYS[1] the members of the fleet; ARGV: edge, lease in ms, what the edge says of itself. Answers with whether the
-- store had heard of it (known, new), with the store's time in millionths of a second, and with what all say that are alive.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local known = redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now + ARGV[2]) .. ' ' .. ARGV[3])
redis.call('PEXPIRE', KEYS[1], 600000)
local list, alive = redis.call('HGETALL', KEYS[1]), {known == 0 and 'known' or 'new', string.format('%.0f', clock[1] * 1000000 + clock[2])}
for i = 1, #list, 2 do
  local till, said = string.match(list[i + 1], '^(%d+) (.*)$')
  if till and tonumber(till) > now + 2 * ARGV[2] then -- the store's clock was set back since
    till = string.format('%.0f', now + ARGV[2])
    redis.call('HSET', KEYS[1], list[i], till .. ' ' .. said)
  end
  if till and tonumber(till) >= now then alive[#alive + 1] = said else redis.call('HDEL', KEYS[1], list[i]) end
end
return alive
