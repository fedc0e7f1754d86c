-- Hands out tokens ahead of need as one atomic step, and takes back those that were not used. It is `grant` of src/grant/mod.rs in Lua, name by name; what it is good for is told
-- there.
--
-- KEYS[n]  The buckets, none twice.
-- ARGV[1]  A row of little-endian doubles for each of them:
--            what the bucket's `limit` reads
--            wanted    so many tokens are asked for
--            drawn     a random number above 0, by which what is charged from now on is known, where there is no ledger
--            returned  so many times tokens come back; for each of them
--              tokens   how many
--              since    by which ledger they are claimed
--              charged  what that ledger had charged directly after they were
--
-- The reply is whole numbers: 0, then for each bucket
--            tokens      handed out
--            remaining   whole tokens that are left there
--            next_in_us  microseconds until there is one more; 0 where it is full
--            since, charged   the ledger directly after that; 0 where nothing was handed out
--            void        tokens that came back by a claim that does not hold, and were not credited
-- or, where a key held what is no state, the place of that key alone: then the key has been deleted, and
-- nothing else written.

local TAKE = 0

local now = now_us()
local buckets = token_bucket()
local asks = {}

-- Reads all buckets. Returns the place of a key that holds none, if there is one.
local function read(arguments)
  local at = 1
  for place, key in ipairs(KEYS) do
    local ask, count = { returned = {} }, nil
    ask.limit, at = buckets.limit(arguments, at)
    ask.wanted, ask.drawn, count, at = struct.unpack('<ddd', arguments, at)
    for number = 1, count do
      local returned = {}
      returned.tokens, returned.since, returned.charged, at = struct.unpack('<ddd', arguments, at)
      ask.returned[number] = returned
    end
    ask.text = get(key)
    if ask.text and not buckets.read(ask.limit, ask.text, now) then
      return place
    end
    asks[place] = ask
  end
end

-- Gives back what comes back. Returns the state that it leaves, and how many tokens were not credited.
local function take_back(ask)
  local state, void = ask.text, 0
  for _, returned in ipairs(ask.returned) do
    local credited = state and give_back(state, returned.tokens, returned.since, returned.charged)
    state = credited or state
    void = void + (credited and 0 or returned.tokens)
  end
  return state, void
end

-- Returns what is handed out, what is left, when there is one more, the ledger, and what was not credited.
local function grant(ask)
  local limit = ask.limit
  local state, void = take_back(ask)
  local tokens, since, charged = 0, 0, 0
  if ask.wanted > 0 then
    state = state and buckets.read(limit, state, now)
    tokens = math.min(ask.wanted, (buckets.left(limit, state, now)))
  end
  if tokens > 0 then
    local _, taken = buckets.check(limit, state, now, TAKE, tokens)
    state, since, charged = with_ledger(limit, taken, tokens, ask.drawn)
  end
  ask.state, ask.tokens = state, tokens
  local remaining
  remaining, ask.full_in_us = buckets.left(limit, state, now)
  local next_in_us = buckets.check(limit, state, now, TAKE, remaining + 1)
  return tokens, remaining, math.max(next_in_us, 0), since, charged, void
end

-- Stores what a bucket has become. One that only got something back is kept for as long as before: that needs no rate.
local function write(key, ask)
  local state = ask.state
  if state == ask.text then
    if state and ask.wanted > 0 and ask.full_in_us > 0 then
      keep_longer(key, state, now + ask.full_in_us, now)
    end
    return
  end
  if ask.tokens > 0 then
    keep(key, state, buckets.fresh_at(ask.limit, state), ask.text, now, 0)
  elseif is_fresh(state) then
    delete(key)
  else
    keep_as_long(key, state)
  end
end

local unreadable = read(ARGV[1])
if unreadable then
  delete(KEYS[unreadable])
  return { unreadable }
end
local reply = { 0 }
for _, ask in ipairs(asks) do
  local at = #reply
  reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4], reply[at + 5], reply[at + 6] = grant(ask)
end
for place, ask in ipairs(asks) do
  write(KEYS[place], ask)
end
return reply
