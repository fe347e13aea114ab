-- KEYS[1] the entries. ARGV: the lock's name, edge. Answers with 'released', or with 'lost' if the lock is another edge's.
if string.match(redis.call('HMGET', KEYS[1], 'l:' .. ARGV[1])[1] or '', '^(%S+) ') ~= ARGV[2] then return {'lost'} end
redis.call('HDEL', KEYS[1], 'l:' .. ARGV[1])
return {'released'}
