-- Adds what a rule in shadow did to the slots of time in which that was: of the minute, the hour and the day.
-- src/shadow/slots.rs tells what they are, and src/shadow/top.rs how keys are counted.
--
-- KEYS[...]  The rule's slots: six of ten seconds, six of ten minutes, six of four hours.
-- ARGV[1]    What is new, in little-endian doubles:
--              allowed, would_refuse, degraded    how many requests
--            and then, for each of the keys that would have been refused most,
--              count, error                       how often, and how much of that may have been others
--            with the key's length in two bytes, and the key.
--
-- What is kept of a slot is the same, behind the slot's number. The reply is 0; or, where a key held something
-- else, its place alone: then the key has been deleted, and nothing else was done.

local SLOTS = 6
local SLOT_US = { 10000000, 600000000, 14400000000 }
local MOST_COUNTERS = 128

-- Reads what a rule did, from a place in a string on; nil where that is nothing of the kind.
local function read_seen(text, at)
  if #text < at + 23 then
    return nil
  end
  local seen = { top = {} }
  seen.allowed, seen.would_refuse, seen.degraded, at = struct.unpack('<ddd', text, at)
  if not (is_count(seen.allowed) and is_count(seen.would_refuse) and is_count(seen.degraded)) then
    return nil
  end
  while at <= #text do
    if #text < at + 17 or #seen.top == MOST_COUNTERS then
      return nil
    end
    local count, errors, length = struct.unpack('<ddH', text, at)
    at = at + 18 + length
    if not (is_count(count) and is_count(errors) and errors <= count) or #text < at - 1 then
      return nil
    end
    seen.top[#seen.top + 1] =
      { key = string.sub(text, at - length, at - 1), count = count, errors = errors }
  end
  return seen
end

-- Writes a slot.
local function write_slot(number, seen)
  local parts = { struct.pack('<dddd', number, seen.allowed, seen.would_refuse, seen.degraded) }
  for place, counter in ipairs(seen.top) do
    parts[place + 1] =
      struct.pack('<ddHc0', counter.count, counter.errors, #counter.key, counter.key)
  end
  return table.concat(parts)
end

-- The heavier of two counters: of equals, the one that stands first.
local function is_heavier(one, other)
  if one.count ~= other.count then
    return one.count > other.count
  end
  return one.place < other.place
end

-- Adds the counts of others to the heaviest keys, see `Top::merge`.
local function merge(top, others)
  local known, inherited = {}, math.huge
  for _, counter in ipairs(top) do
    known[counter.key] = counter
    inherited = math.min(inherited, counter.count)
  end
  if #top < MOST_COUNTERS then
    inherited = 0
  end
  for _, other in ipairs(others) do
    local counter = known[other.key]
    if counter then
      counter.count = counter.count + other.count
      counter.errors = counter.errors + other.errors
    else
      top[#top + 1] =
        { key = other.key, count = inherited + other.count, errors = inherited + other.errors }
    end
  end
  if #top > MOST_COUNTERS then
    for place, counter in ipairs(top) do
      counter.place = place
    end
    table.sort(top, is_heavier)
    for place = #top, MOST_COUNTERS + 1, -1 do
      top[place] = nil
    end
  end
end

local now = now_us()
local new = read_seen(ARGV[1], 1)
local writes = {}
for window, slot_us in ipairs(SLOT_US) do
  local number = math.floor(now / slot_us)
  local place = (window - 1) * SLOTS + number % SLOTS + 1
  local text, seen = get(KEYS[place]), nil
  if text then
    seen = type(text) == 'string' and #text >= 8 and read_seen(text, 9)
    if not seen then
      delete(KEYS[place])
      return { place }
    end
    -- What stands there may be long over.
    if struct.unpack('<d', text) ~= number then
      seen = nil
    end
  end
  if seen then
    seen.allowed = seen.allowed + new.allowed
    seen.would_refuse = seen.would_refuse + new.would_refuse
    seen.degraded = seen.degraded + new.degraded
    merge(seen.top, new.top)
  else
    seen = new
  end
  writes[window] = { KEYS[place], write_slot(number, seen), (number + SLOTS) * slot_us, text }
end
for _, write in ipairs(writes) do
  local key, text, over_at, before = write[1], write[2], write[3], write[4]
  keep(key, text, over_at, before, now, 0)
end
return { 0 }
