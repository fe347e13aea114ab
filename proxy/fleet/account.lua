-- One message of an edge to an account, and its answer. See doc.go for what the numbers mean.
--
-- KEYS[1]  the account
-- ARGV     edge, number of the message, lease in ms, the birth that the edge knows ('' at first), then of each cell:
--          kind (0: slots; 1: time pays the debt, at limit a minute; 2: a budget, which nothing pays; 3: slots, for which calls of
--          this edge wait), limit (0: none), charged, base, own, min, want
-- answer   birth, then of each cell: granted, debt, free; then the store's clock in ms; or, for a message that a later one has
--          overtaken, 'old' and that one's number
local account, me, number, lease, born = KEYS[1], 'e:' .. ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local cells, kept_for = (#ARGV - 4) / 7, 600000

local broken = false -- the account holds what no script has written
local function numbers(text)
  local out = {}
  for word in string.gmatch(text or '', '%S+') do
    local n = tonumber(word)
    if not (n and math.abs(n) < 1e19) then n, broken = 0, true end -- neither nan nor inf: every comparison with nan is false
    out[#out + 1] = n
  end
  return out
end
local function text(list)
  for i = 1, #list do list[i] = string.format('%.17g', list[i]) end
  return table.concat(list, ' ')
end
local function arg(cell, n) return tonumber(ARGV[4 + 7 * (cell - 1) + n]) end

-- all: time, end of the first lease, then of each cell: debt, held by all edges, limit.
-- mine: end of the lease, number of the last message, then of each cell: held, charged.
-- known, of a budget's cells: what edges knew to be used in an earlier birth, and what was used since.
-- ahead: by how many ms the account's time is ahead of the store's clock, which was set back, or is a new primary's.
local fields = redis.call('HMGET', account, 'b', 'all', me, 'known', 'turns', 'ahead')
local clock = redis.call('TIME')
local all, mine, known, ahead = numbers(fields[2]), numbers(fields[3]), numbers(fields[4]), numbers(fields[6])[1] or 0
if broken then -- it begins again, as after a loss: each edge tells what it remembers
  redis.call('DEL', account)
  fields, all, mine, known, ahead = {}, {}, {}, {}, 0
end
local birth = fields[1] or (clock[1] .. '-' .. clock[2])
local told = clock[1] * 1000 + math.floor(clock[2] / 1000)
local now = math.max(told + ahead, all[1] or 0) -- it goes on from where it was, or nothing would be paid until the clock is there again
if mine[2] and number <= mine[2] then return {'old', string.format('%.17g', mine[2])} end

for cell = 1, cells do
  if ARGV[7 * cell - 2] == '2' then kept_for = 3456000000 end -- a budget is kept for 40 days
end

local passed = (now - (all[1] or now)) / 60000
for cell = 1, cells do
  local at, limit = 3 * cell, arg(cell, 2)
  local debt, held, before = all[at] or 0, all[at + 1] or 0, all[at + 2] or 0
  if arg(cell, 1) == 1 then
    debt = math.max(0, debt - passed * before)
    if before > 0 and limit > 0 then debt = debt * limit / before end -- a part that is used stays that part
  end
  all[at], all[at + 1], all[at + 2] = debt, held, limit > 0 and limit or before
end

if all[2] and all[2] < now then -- a lease has run out: what it held counts as used, and its slots are free
  local list, first = redis.call('HGETALL', account), now + lease
  for i = 1, #list, 2 do
    if string.sub(list[i], 1, 2) == 'e:' and list[i] ~= me then
      local other = numbers(list[i + 1])
      if other[1] >= now then
        first = math.min(first, other[1])
      else
        for cell = 1, cells do
          local held = other[2 * cell + 1] or 0
          all[3 * cell + 1] = all[3 * cell + 1] - held
          if arg(cell, 1) == 1 then all[3 * cell] = all[3 * cell] + held end
        end
        if kept_for == 600000 then
          redis.call('HDEL', account, list[i])
        else -- it may come back, with what it has charged since the period began
          for cell = 1, cells do other[2 * cell + 1] = 0 end
          other[1] = 9e15
          redis.call('HSET', account, list[i], text(other))
        end
      end
    end
  end
  all[2] = first
end

-- Edges whose calls wait for a slot take turns, first come first: each has one set aside until it asks, for a tenth of a
-- lease since it asked last. One that has got a slot and waits for more is the last then.
local turns, before = {}, nil
for edge, till in string.gmatch(fields[5] or '', '(%S+) (%S+)') do
  if edge == ARGV[1] then
    before = #turns
  elseif tonumber(till) >= now then
    turns[#turns + 1] = edge .. ' ' .. till
  end
end

local answer, kept = {birth}, {now + lease, number}
for cell = 1, cells do
  local at, limit, charged = 3 * cell, arg(cell, 2), arg(cell, 3)
  local held, last = mine[2 * cell + 1] or 0, math.max(mine[2 * cell + 2] or 0, arg(cell, 4))
  known[2 * cell - 1], known[2 * cell] = known[2 * cell - 1] or 0, known[2 * cell] or 0
  if arg(cell, 1) == 2 then
    last = mine[2 * cell + 2] or 0
    local more = math.max(0, charged - last)
    all[at] = all[at] + more
    charged = math.max(charged, last)
    if born ~= '' and born ~= birth then -- the store has forgotten: what this edge heard of all counts until they tell
      known[2 * cell - 1] = math.max(known[2 * cell - 1], arg(cell, 5))
      if #mine == 0 then more = math.max(0, charged - arg(cell, 4)) end
    elseif #mine == 0 then
      more = 0 -- it may be told already, in the birth before
    end
    known[2 * cell] = known[2 * cell] + more
  end
  if arg(cell, 1) == 1 then
    if born ~= '' and born ~= birth and #mine == 0 then
      all[at] = all[at] + arg(cell, 5) -- the store has forgotten: each edge remembers its own part, and tells it once
    else
      all[at] = all[at] + math.max(0, charged - last)
    end
  end
  local used, granted, kind, least, want = all[at], 0, arg(cell, 1), arg(cell, 6), arg(cell, 7)
  if kind % 3 == 0 and #turns > 0 then
    local free = limit - (all[at + 1] - held) - least
    want = math.min(want, least + math.max(0, free - #turns, kind == 3 and math.min(1, free - (before or #turns)) or 0))
  end
  if arg(cell, 1) == 2 then used = math.max(used, known[2 * cell - 1] + known[2 * cell]) end
  if limit > 0 then
    granted = math.max(least, math.floor(math.min(want, limit - used - (all[at + 1] - held))))
  end
  all[at + 1] = all[at + 1] - held + granted
  if kind == 3 and (granted < arg(cell, 7) or granted <= least) then
    table.insert(turns, before and granted <= least and before + 1 or #turns + 1, string.format('%s %.0f', ARGV[1], now + lease / 10))
  end
  for n = 1, kind % 3 == 0 and math.min(#turns, limit - all[at + 1]) or 0 do
    local edge = string.match(turns[n], '%S+')
    if edge ~= ARGV[1] then
      redis.call('PUBLISH', string.match(account, '^(.*):{') .. ':turns', string.match(account, '{(.*)}') .. ' ' .. edge)
    end
  end
  kept[2 * cell + 1], kept[2 * cell + 2] = granted, charged
  answer[3 * cell - 1] = granted
  answer[3 * cell] = string.format('%.17g', used)
  answer[3 * cell + 1] = string.format('%.17g', limit - used - all[at + 1])
end
all[1], all[2] = now, math.min(all[2] or (now + lease), now + lease)
redis.call('HSET', account, 'b', birth, 'all', text(all), me, text(kept))
if now - told ~= ahead then redis.call('HSET', account, 'ahead', string.format('%.0f', now - told)) end
if kept_for > 600000 then redis.call('HSET', account, 'known', text(known)) end
if #turns > 0 then
  redis.call('HSET', account, 'turns', table.concat(turns, ' '))
elseif fields[5] then
  redis.call('HDEL', account, 'turns')
end
redis.call('PEXPIRE', account, kept_for)
answer[3 * cells + 2] = string.format('%.0f', told)
return answer
