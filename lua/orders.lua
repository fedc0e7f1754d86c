-- What operators have said at run time, kept for all replicas as one atomic step: `Orders::tell` of
-- src/store/orders.rs in Lua. What stands under the key is a hash: a field for each order, and `version`, a number
-- that every change raises. It has no end: what an operator said holds until it is taken back.
--
-- KEYS[1]  The orders.
-- ARGV[1]  The version that was heard of, 0 for none.
-- ARGV[2]  `changes`, or `all`: then all is written that stood there at that version, if the store has lost it.
-- ARGV[3…] Of changes, for each: the field; what is to stand there before, `*` for whatever, else `=` and the text, or
--          nothing where nothing is to stand there; and what is to stand there after, written as the same.
--          Of all: for each order the field and the text.
--
-- The reply is 0, the version that stands there, the time in microseconds, a list of what became of each
-- change (1 done, 2 something else stood there, 3 there are too many), and a list of fields and texts, where the
-- version is another than the one that was heard of. Or, where the key held something else, 1 alone: then the
-- key has been deleted.

local MOST = 10000

local now = now_us()
local key, known = KEYS[1], tonumber(ARGV[1])
local kind = redis.call('TYPE', key).ok
local version = 0
if kind == 'hash' then
  local text = redis.call('HGET', key, 'version')
  version = text and tonumber(text)
end
if not version or not is_count(version) or (kind ~= 'hash' and kind ~= 'none') then
  redis.call('UNLINK', key)
  return { 1 }
end

-- What stands in a field, written as an argument is.
local function stands(field)
  local text = redis.call('HGET', key, field)
  return text and '=' .. text or ''
end

local changed = {}
if ARGV[2] == 'all' and version < known then
  redis.call('UNLINK', key)
  version = known
  redis.call('HSET', key, 'version', string.format('%.0f', version))
  for i = 3, #ARGV, 2 do
    redis.call('HSET', key, ARGV[i], ARGV[i + 1])
  end
elseif ARGV[2] == 'changes' and version >= known then
  local is_changed = false
  for i = 3, #ARGV, 3 do
    local field, was, is = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    local text = stands(field)
    local became = 1
    if text ~= is then
      if was ~= '*' and text ~= was then
        became = 2
      elseif is == '' then
        redis.call('HDEL', key, field)
        is_changed = true
      -- One of the fields is the version, once there are any.
      elseif text == '' and redis.call('HLEN', key) - (version > 0 and 1 or 0) >= MOST then
        became = 3
      else
        redis.call('HSET', key, field, string.sub(is, 2))
        is_changed = true
      end
    end
    changed[#changed + 1] = became
  end
  if is_changed then
    version = version + 1
    redis.call('HSET', key, 'version', string.format('%.0f', version))
  end
end
local fields = {}
if version ~= known then
  fields = redis.call('HGETALL', key)
end
return { 0, version, now, changed, fields }
