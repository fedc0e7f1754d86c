-- What all scripts do with keys: read the string under one, keep one there for as long as it means something, and delete
-- one.

local LARGEST = 2 ^ 53
-- How much longer than its state means anything a key is kept, in milliseconds.
local MARGIN_MS = 1000
-- As many keys as are read by one call.
local MOST_AT_ONCE = 256

-- What stands under keys that were read ahead, or written since.
local known = {}

-- For how many milliseconds from now keys are kept, as far as that is known; nil until it is first asked.
local lives

-- Whether it is a whole number that a double holds exactly.
local function is_count(number)
  return number >= 0 and number <= LARGEST and number % 1 == 0
end

-- Reads what many keys hold: that costs a third of reading one after the other. What holds no string looks like nothing
-- here, and where MGET is not allowed there is nothing either: `get` looks again then.
local function read_ahead(keys)
  for first = 1, #keys, MOST_AT_ONCE do
    local last = math.min(first + MOST_AT_ONCE - 1, #keys)
    local values = redis.pcall('MGET', unpack(keys, first, last))
    for place = first, last do
      known[keys[place]] = values[place - first + 1] or nil
    end
  end
end

-- What is under a key: nil where nothing is, a string, or a table where it is no string.
local function get(key)
  local text = known[key]
  if text then
    return text
  end
  local value = redis.pcall('GET', key)
  if not value then
    return nil
  end
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    redis.call('GET', key) -- No fault of the key: fails as before, with Redis's own words.
  end
  return value
end

local function delete(key)
  redis.call('UNLINK', key)
  known[key] = nil
end

-- Keeps a string until an instant, 0 where it means nothing any more, and so many milliseconds longer. What
-- was there is `before`.
local function keep(key, text, fresh_at, before, now, longer_ms)
  if fresh_at > 0 then
    local left_ms = fresh_at > now and math.ceil((fresh_at - now) / 1000) or 0
    -- Below 2^53, so that it is written as an integer, which takes half as long.
    local lives_ms = left_ms + MARGIN_MS + longer_ms
    redis.call('SET', key, text, 'PX', string.format('%d', lives_ms))
    known[key] = text
    if lives then
      lives[key] = lives_ms
    end
  elseif before then
    delete(key)
  end
end

-- Keeps what is there until an instant, where it would be forgotten before. Where that cannot be asked or done (no
-- permission, no room), it is left as it is: that is no fault of the request.
local function keep_longer(key, text, fresh_at, now)
  lives = lives or {}
  local lives_ms = lives[key] or redis.pcall('PTTL', key)
  if type(lives_ms) ~= 'number' then
    lives_ms = -1
  end
  local left_ms = math.ceil((fresh_at - now) / 1000)
  if lives_ms >= 0 and lives_ms < left_ms then
    lives_ms = left_ms + MARGIN_MS
    redis.pcall('SET', key, text, 'PX', string.format('%d', lives_ms))
  end
  lives[key] = lives_ms
end
