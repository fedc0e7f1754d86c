-- Decides one request as one atomic step: reads everything, decides everything, settles the verdict,
-- writes everything. It is `settle` of src/verdict.rs in Lua, name by name; why it is so is told there.
--
-- KEYS[n]  The states that the request is about, no key twice. A check names its state by the place of
--          its key, its slot.
-- ARGV[1]  The checks, each a row of little-endian doubles:
--            slot
--            limiter  which of `limiters`
--            cost     0 takes, 1 peeks, 2 gives back
--            amount   so much, at most 2^53
--            mode     0, plus 1 in shadow mode, plus 2 in quota mode
--          and what the limiter's `limit` reads.
--
-- The reply is whole numbers: 0, then for each check
--            over        microseconds until it would pass; 0 where it does, -1 where it never will
--            remaining
--            full_in_us
-- or, where a key held what is no state of its limiter, the slot of that key alone: then the key has
-- been deleted, so that it is in nobody's way any more, and nothing else written.

local limiters = { token_bucket }
local REFUND = 2
-- How much longer than its state means anything a key is kept, in milliseconds.
local MARGIN_MS = 1000

local now = now_us()
-- By place: the checks. By slot: its checks; its state as it is stored, and the string; what it has become.
local checks, sharers, before, texts, states = {}, {}, {}, {}, {}

-- Reads all checks and all states. Returns the slot of a key that holds no state, if there is one.
local function read(arguments)
  local at = 1
  while at <= #arguments do
    local slot, limiter, cost, amount, mode, limit
    slot, limiter, cost, amount, mode, at = struct.unpack('<ddddd', arguments, at)
    limiter = limiters[limiter]
    limit, at = limiter.limit(arguments, at)
    local check =
      { slot = slot, limiter = limiter, limit = limit, cost = cost, amount = amount, mode = mode }
    checks[#checks + 1] = check
    if sharers[slot] then
      sharers[slot][#sharers[slot] + 1] = check
    else
      sharers[slot] = { check }
      local state, text = limiter.read(KEYS[slot])
      if text and not state then
        return slot
      end
      before[slot] = state and limiter.pulled_back(state, now)
      texts[slot] = text
    end
  end
end

local function check_one(check)
  local slot = check.slot
  local over, state =
    check.limiter.check(check.limit, states[slot] or before[slot], now, check.cost, check.amount)
  if state then
    states[slot] = state
  end
  return over
end

local function left(check)
  return check.limiter.left(check.limit, states[check.slot] or before[check.slot], now)
end

-- Runs every check in order, on states that change as they go. Returns the reply so far.
local function run()
  local reply = { 0 }
  for place, check in ipairs(checks) do
    local over = check_one(check)
    local remaining, full_in_us = left(check)
    if over ~= 0 then
      remaining = 0
    end
    reply[3 * place - 1], reply[3 * place], reply[3 * place + 1] = over, remaining, full_in_us
  end
  return reply
end

-- Whether anybody refuses: the one rule for verdicts.
local function is_refused(reply)
  local quota_over, quota_passes = false, false
  for place, check in ipairs(checks) do
    local is_over = reply[3 * place - 1] ~= 0 and check.mode % 2 == 0
    if check.cost == REFUND then
      -- Giving back says nothing about what is left.
    elseif check.mode < 2 then
      if is_over then
        return true
      end
    elseif is_over then
      quota_over = true
    else
      quota_passes = true
    end
  end
  return quota_over and not quota_passes
end

-- What is stored all the same, and shown.
local function refuse(reply)
  states = {}
  for _, check in ipairs(checks) do
    if check.limiter.is_settled_regardless(check.limit, check.cost) then
      check_one(check)
    end
  end
  for place, check in ipairs(checks) do
    if reply[3 * place - 1] == 0 then
      reply[3 * place], reply[3 * place + 1] = left(check)
    end
  end
end

-- Stores what has changed, for as long as any limit of the request tells it from a state never used.
local function write(slot, key)
  local state = states[slot] or before[slot]
  if not state then
    return
  end
  local text, fresh_at = nil, 0
  for _, check in ipairs(sharers[slot]) do
    text = text or check.limiter.write(state)
    fresh_at = math.max(fresh_at, check.limiter.fresh_at(check.limit, state))
  end
  if text == texts[slot] then
    return
  end
  if fresh_at > 0 then
    local ttl_ms = math.max(math.ceil((fresh_at - now) / 1000), 0) + MARGIN_MS
    redis.call('SET', key, text, 'PX', string.format('%.0f', ttl_ms))
  elseif texts[slot] then
    redis.call('UNLINK', key)
  end
end

local unreadable = read(ARGV[1])
if unreadable then
  redis.call('UNLINK', KEYS[unreadable])
  return { unreadable }
end
local reply = run()
if is_refused(reply) then
  refuse(reply)
end
for slot, key in ipairs(KEYS) do
  write(slot, key)
end
return reply
