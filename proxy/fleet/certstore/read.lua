-- KEYS[1] the entries. ARGV: the change number that was read last, how many entries are wanted at most. Answers with the
-- number that was read up to, whether there is more (1, 0), whether everything is read from its beginning (1, 0), and then
-- the fields and values of entries, the oldest change first. A number above 2^53 is none of ours.
local n = tonumber(redis.call('HMGET', KEYS[1], 'n')[1] or '') or 0
if n > 9007199254740991 then n = 0 end
local since = tonumber(ARGV[1])
if n == since and n > 0 then return {ARGV[1], '0', '0'} end
local whole = since == 0 or n < since
if whole then since = 0 end
local all, changed = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  local number = tonumber(string.match(all[i + 1], '^(%d+) ') or '')
  if string.sub(all[i], 1, 2) == 'e:' and number and number > since then changed[#changed + 1] = {number, all[i], all[i + 1]} end
end
table.sort(changed, function(a, b) return a[1] < b[1] end)
local out, most = {string.format('%.0f', n), '0', whole and '1' or '0'}, tonumber(ARGV[2])
for i = 1, math.min(#changed, most) do
  out[#out + 1] = changed[i][2]
  out[#out + 1] = changed[i][3]
end
if #changed > most then out[1], out[2] = string.format('%.0f', changed[most][1]), '1' end
return out
