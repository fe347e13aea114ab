-- One message of an edge to the board, and its answer. See doc.go for what it is for.
--
-- KEYS[1]  the board
-- ARGV     edge, number of the message, lease in ms, the edge's work ('=': as before; else of each upstream: name, calls for
--          text, vision and audio, 1 if down), the version of the facts that the edge knows, a seed for a new board, then of
--          each new fact: number, name, value ('': it is over), life in ms (0: until it is over)
-- answer   ok or unknown (the work of this edge is not here: send it), edges, work of all, version of the facts, and if the
--          edge knows another: name and value of each; or 'old' for a message that a later one has overtaken
local board, me, number, lease, work = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

local function numbers(text)
  local out = {}
  if text then for word in string.gmatch(text, '%S+') do out[#out + 1] = tonumber(word) end end
  return out
end
local function add(sums, text, sign)
  for name, a, b, c, d in string.gmatch(text or '', '(%S+) (%S+) (%S+) (%S+) (%S+)') do
    local s = sums[name]
    if not s then s = {0, 0, 0, 0}; sums[name] = s end
    s[1], s[2], s[3], s[4] = s[1] + sign * a, s[2] + sign * b, s[3] + sign * c, s[4] + sign * d
  end
end
local function text(sums)
  local out = {}
  for name, s in pairs(sums) do
    if s[1] + s[2] + s[3] + s[4] ~= 0 then out[#out + 1] = string.format('%s %d %d %d %d', name, s[1], s[2], s[3], s[4]) end
  end
  return table.concat(out, ' ')
end

-- all: the first time at which something ends, edges, number of the newest fact. mine: end of the lease, number of the last
-- message, number of the last fact.
local fields = redis.call('HMGET', board, 'all', 'seed', 'sum', 'e:' .. me, 'w:' .. me)
local all, seed, sum, mine = numbers(fields[1]), fields[2] or ARGV[6], fields[3] or '', numbers(fields[4])
if mine[2] and number <= mine[2] then return {'old'} end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local first, edges, newest = all[1] or now + lease, all[2] or 0, all[3] or 0
local state, set = 'ok', {}

if work ~= '=' then
  local sums = {}
  add(sums, sum, 1); add(sums, fields[5], -1); add(sums, work, 1)
  sum = text(sums)
  set[#set + 1] = 'w:' .. me; set[#set + 1] = work
elseif not fields[5] then
  state = 'unknown'
end
if not mine[1] then edges = edges + 1 end
local heard = mine[3] or 0

for i = 7, #ARGV, 4 do
  local n, name, value, life = tonumber(ARGV[i]), 'f:' .. ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  if n > heard then
    heard, newest = n, newest + 1
    if value == '' then
      redis.call('HDEL', board, name)
    else
      local ends = life > 0 and now + life or 0
      if ends > 0 then first = math.min(first, ends) end
      redis.call('HSET', board, name, string.format('%.0f ', ends) .. value)
    end
  end
end
first = math.min(first, now + lease)
set[#set + 1] = 'e:' .. me; set[#set + 1] = string.format('%.0f %.0f %.0f', now + lease, number, heard)
redis.call('HSET', board, 'seed', seed, unpack(set))

if first <= now then -- a lease has run out, or a fact
  local list, alive, sums = redis.call('HGETALL', board), {}, {}
  first, edges = now + lease, 0
  for i = 1, #list, 2 do
    local kind, name = string.sub(list[i], 1, 2), string.sub(list[i], 3)
    local ends = (kind == 'e:' or kind == 'f:') and tonumber(string.match(list[i + 1], '^%d+'))
    if kind == 'e:' and ends and ends > now + 2 * lease then -- the store's clock was set back since
      ends = now + lease
      redis.call('HSET', board, list[i], (string.gsub(list[i + 1], '^%d+', string.format('%.0f', ends))))
    end
    if ends and ends > 0 and ends <= now then
      redis.call('HDEL', board, list[i])
      if kind == 'f:' then newest = newest + 1 end
    elseif ends and ends > 0 then
      first = math.min(first, ends)
      if kind == 'e:' then alive[name] = true; edges = edges + 1 end
    end
  end
  for i = 1, #list, 2 do
    if string.sub(list[i], 1, 2) == 'w:' then
      if alive[string.sub(list[i], 3)] then add(sums, list[i + 1], 1) else redis.call('HDEL', board, list[i]) end
    end
  end
  sum = text(sums)
end
redis.call('HSET', board, 'all', string.format('%.0f %.0f %.0f', first, edges, newest), 'sum', sum)

local version = seed .. ':' .. string.format('%.0f', newest)
local answer = {state, edges, sum, version}
if version ~= ARGV[5] then
  local list = redis.call('HGETALL', board)
  for i = 1, #list, 2 do
    if string.sub(list[i], 1, 2) == 'f:' then
      answer[#answer + 1] = string.sub(list[i], 3)
      answer[#answer + 1] = string.match(list[i + 1], '^%d+ (.*)$')
    end
  end
end
return answer
