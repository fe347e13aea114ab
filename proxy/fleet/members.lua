-- KEYS[1] the members of the fleet; ARGV: edge, lease in ms, what the edge says of itself. Answers with whether the store
-- had heard of it (known, new), the store's time in millionths of a second, the birth of the list (it is another one if the
-- store has lost its data since), and what all say that are alive.
local members, me, lease, said = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function lasts(text) return string.format('%.0f ', now + lease) .. text end

local birth = string.match(redis.call('HMGET', members, 'birth')[1] or '', '^%d+ (%S+)$') or clock[1] .. '-' .. clock[2]
local known = redis.call('HSET', members, me, lasts(said))
redis.call('HSET', members, 'birth', lasts(birth)) -- with a lease, because an older script deletes what has none
redis.call('PEXPIRE', members, 600000)
local list = redis.call('HGETALL', members)
local answer = {known == 0 and 'known' or 'new', string.format('%.0f', clock[1] * 1000000 + clock[2]), birth}
for i = 1, #list, 2 do
  local till, text = string.match(list[i + 1], '^(%d+) (.*)$')
  if till and tonumber(till) > now + 2 * lease then -- the store's clock was set back since
    till = string.format('%.0f', now + lease)
    redis.call('HSET', members, list[i], till .. ' ' .. text)
  end
  if not till or tonumber(till) < now then
    redis.call('HDEL', members, list[i])
  elseif list[i] ~= 'birth' then
    answer[#answer + 1] = text
  end
end
return answer
