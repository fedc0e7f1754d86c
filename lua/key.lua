-- What all scripts do with keys: read the string under one, and keep one for as long as it means something.

local LARGEST = 2 ^ 53
-- How much longer than its state means anything a key is kept, in milliseconds.
local MARGIN_MS = 1000

-- Whether it is a whole number that a double holds exactly.
local function is_count(number)
  return number >= 0 and number <= LARGEST and number % 1 == 0
end

-- What is under a key: nil where nothing is, a string, or a table where it is no string.
local function get(key)
  local value = redis.pcall('GET', key)
  if not value then
    return nil
  end
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    redis.call('GET', key) -- No fault of the key: fails as before, with Redis's own words.
  end
  return value
end

-- Keeps a string until an instant, 0 where it means nothing any more, and so many milliseconds longer. What
-- was there is `before`.
local function keep(key, text, fresh_at, before, now, longer_ms)
  if fresh_at > 0 then
    local left_ms = fresh_at > now and math.ceil((fresh_at - now) / 1000) or 0
    -- Below 2^53, so that it is written as an integer, which takes half as long.
    redis.call('SET', key, text, 'PX', string.format('%d', left_ms + MARGIN_MS + longer_ms))
  elseif before then
    redis.call('UNLINK', key)
  end
end
