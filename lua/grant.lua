-- Hands out tokens ahead of need as one atomic step, and takes back those that were not. It is `grant` of
-- src/grant/mod.rs in Lua, name by name; what it is good for is told there.
--
-- KEYS[n]  The buckets, none twice.
-- ARGV[1]  A row of little-endian doubles for each of them:
--            what the bucket's `limit` reads
--            returned  so many tokens come back that were handed out and not spent
--            since     when the oldest of them were, as this script has said it
--            wanted    so many more are asked for
--
-- The reply is whole numbers: 0, then
--            now         microseconds since 1970
-- then for each bucket
--            tokens      handed out
--            remaining   whole tokens that are left there
--            next_in_us  microseconds until there is one more; 0 where it is full
-- or, where a key held what is no state, the place of that key alone: then the key has been deleted, and
-- nothing else written.

local TAKE, REFUND = 0, 2

local now = now_us()
local buckets = token_bucket()
local asks = {}

-- Reads all buckets. Returns the place of a key that holds none, if there is one.
local function read(arguments)
  local at = 1
  for place, key in ipairs(KEYS) do
    local limit, returned, since, wanted
    limit, at = buckets.limit(arguments, at)
    returned, since, wanted, at = struct.unpack('<ddd', arguments, at)
    local text = get(key)
    local state = text and buckets.read(limit, text, now)
    if text and not state then
      return place
    end
    asks[place] = {
      limit = limit, returned = returned, since = since, wanted = wanted, text = text, state = state,
    }
  end
end

-- The state that it leaves to give back tokens that were taken so many microseconds ago. What has been refilled
-- since has come back by itself.
local function give_back(limit, state, tokens, micros)
  local refilled = math.ceil(micros / limit.step_us) * limit.per_step
  local credit = math.max(tokens * limit.per_token - refilled, 0)
  if credit == 0 then
    return state
  end
  local _, settled = buckets.check(limit, state, now, REFUND, 0)
  local used, updated, grains = struct.unpack('<ddd', settled)
  return struct.pack('<ddd', math.max(used - credit, 0), updated, grains)
end

-- Returns what is handed out, what is left, when there is one more, and the state that it leaves.
local function grant(ask)
  local limit = ask.limit
  local state = give_back(limit, ask.state, ask.returned, math.max(now - ask.since, 0))
  local tokens = math.min(ask.wanted, (buckets.left(limit, state, now)))
  if tokens > 0 then
    local _, taken = buckets.check(limit, state, now, TAKE, tokens)
    state = taken
  end
  local remaining = buckets.left(limit, state, now)
  local next_in_us = buckets.check(limit, state, now, TAKE, remaining + 1)
  return tokens, remaining, math.max(next_in_us, 0), state
end

local unreadable = read(ARGV[1])
if unreadable then
  delete(KEYS[unreadable])
  return { unreadable }
end
local reply = { 0, now }
for _, ask in ipairs(asks) do
  local at = #reply
  reply[at + 1], reply[at + 2], reply[at + 3], ask.state = grant(ask)
end
for place, ask in ipairs(asks) do
  if ask.state ~= ask.text then
    keep(KEYS[place], ask.state, buckets.fresh_at(ask.limit, ask.state), ask.text, now, 0)
  end
end
return reply
