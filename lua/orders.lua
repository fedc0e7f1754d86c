-- What operators have said at run time, kept for all replicas as one atomic step: `Orders::tell` of
-- src/store/orders.rs in Lua. What stands under the key is a hash: a field for each order, and three of its own,
-- `epoch`, `version` and `mark`, which tell which state of them that is; and `limits`, how many of them are limits. It
-- has no end: what an operator said holds until it is taken back.
--
-- KEYS[1]  The orders.
-- ARGV[1]  The epoch that was heard of, 0 for none; ARGV[2] the version, ARGV[3] the mark.
-- ARGV[4]  A number for the epoch, if one begins; ARGV[5] one for the next mark.
-- ARGV[6…] For each change: the field; what is to stand there before, as `=` and the text, or nothing where
--          nothing is to stand there; and what is to stand there after, written as the same. None is made where the
--          store has lost something.
--
-- The reply is 0, the epoch, the version and the mark that stand there, the time in microseconds, a list of what
-- became of each change (1 done, 2 something else stood there, 3 there are too many), and a list of fields and
-- texts, where these are other than those that were heard of. Or, where the key held something else, 1 alone: then
-- the key has been deleted.

local MOST_LIMITS = 10000

local now = now_us()
local key = KEYS[1]
local heard_epoch, heard_version, heard_mark =
  tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

-- A number in a field of its own; 0 where there is none, nil where it is none.
local function own(field)
  local text = redis.call('HGET', key, field)
  local number = text and tonumber(text) or not text and 0
  return number and is_count(number) and number or nil
end

local kind = redis.call('TYPE', key).ok
local epoch, version, mark, limits = 0, 0, 0, 0
if kind == 'hash' then
  epoch, version, mark, limits = own('epoch'), own('version'), own('mark'), own('limits')
end
if (kind ~= 'hash' and kind ~= 'none') or not (epoch and version and mark and limits) then
  redis.call('UNLINK', key)
  return { 1 }
end

local is_lost = heard_epoch ~= 0
  and (
    epoch ~= heard_epoch
    or version < heard_version
    or (version == heard_version and mark ~= heard_mark)
  )
local changed, is_changed = {}, false
for i = 6, is_lost and 0 or #ARGV, 3 do
  local field, was, is = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local text = redis.call('HGET', key, field)
  text = text and '=' .. text or ''
  local is_limit = string.sub(field, 1, 6) == 'limit '
  local became = 1
  if text ~= is then
    if text ~= was then
      became = 2
    elseif is_limit and text == '' and limits >= MOST_LIMITS then
      became = 3
    else
      if is == '' then
        redis.call('HDEL', key, field)
      else
        redis.call('HSET', key, field, string.sub(is, 2))
      end
      if is_limit then
        limits = limits + (text == '' and 1 or is == '' and -1 or 0)
      end
      is_changed = true
    end
  end
  changed[#changed + 1] = became
end
if is_changed then
  if epoch == 0 then
    epoch = tonumber(ARGV[4])
  end
  version, mark = version + 1, tonumber(ARGV[5])
  for field, number in pairs({ epoch = epoch, version = version, mark = mark, limits = limits }) do
    redis.call('HSET', key, field, string.format('%.0f', number))
  end
end
local fields = {}
if epoch ~= heard_epoch or version ~= heard_version or mark ~= heard_mark then
  fields = redis.call('HGETALL', key)
end
return { 0, epoch, version, mark, now, changed, fields }
