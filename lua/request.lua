-- Decides one request as one atomic step: reads everything, decides everything, settles the verdict,
-- writes everything. It is `settle` of src/verdict.rs in Lua, name by name; why it is so is told there.
--
-- KEYS[n]  The states that the request is about, no key twice. A check names its state by the place of
--          its key, its slot. Where it takes a lease, the last key is that of the lease's record.
-- ARGV[1]  The checks, each a row of little-endian doubles:
--            slot
--            limiter  which of `makers`
--            cost     0 takes, 1 peeks, 2 gives back
--            amount   so much, at most 2^53
--            mode     0, plus 1 in shadow mode, plus 2 in quota mode
--            told_by  the place of the key that tells the limit what workers report; 0 where it takes none
--          and what the limiter's `limit` reads.
-- ARGV[2]  The lease, as lua/lease/record.lua says; empty where it takes none.
--
-- The reply is whole numbers: 0, then
--            leased      microseconds until the lease's deadline; 0 where there is none, -1 where its id is
--                        held for another request, and -2 less that time where it was held for this one
--                        already
-- then for each check
--            over        microseconds until it would pass; 0 where it does, -1 where it never will
--            remaining
--            full_in_us
-- or, where a key held what is no state of its limiter, the slot of that key alone: then the key has
-- been deleted, so that it is in nobody's way any more, and nothing else written.

local makers = { token_bucket, concurrency, fleet, utilization }
local limiters = {}
local REFUND = 2
local CONFLICT = -1
local AGAIN = -2

local now = now_us()
-- By place: the checks. By slot: its checks; its state as it is stored, and the string; what it has become.
local checks, sharers, before, texts, states = {}, {}, {}, {}, {}
-- The lease, its record, and what that was; nil where it takes none.
local taking, entries, entries_text, leases

-- Limiters are made when they are first met: to make them all would cost every request.
local function limiter_of(number)
  local limiter = limiters[number]
  if not limiter then
    limiter = makers[number]()
    limiters[number] = limiter
  end
  return limiter
end

-- Reads all checks and all states. Returns the slot of a key that holds no state, if there is one.
local function read(arguments)
  local at = 1
  while at <= #arguments do
    local slot, limiter, cost, amount, mode, told_by, limit
    slot, limiter, cost, amount, mode, told_by, at = struct.unpack('<dddddd', arguments, at)
    limiter = limiter_of(limiter)
    limit, at = limiter.limit(arguments, at)
    if told_by > 0 then
      local text = get(KEYS[told_by])
      local told = workers().read(text)
      if text and not told then
        return told_by
      end
      limiter.told(limit, told, now)
    end
    local check =
      { slot = slot, limiter = limiter, limit = limit, cost = cost, amount = amount, mode = mode }
    checks[#checks + 1] = check
    if sharers[slot] then
      sharers[slot][#sharers[slot] + 1] = check
    else
      sharers[slot] = { check }
      local text = get(KEYS[slot])
      local state = text and limiter.read(text)
      if text and not state then
        return slot
      end
      before[slot] = state and limiter.pulled_back(limit, state, now)
      texts[slot] = text
    end
  end
end

-- The same of the lease and its record.
local function read_lease(arguments)
  if #arguments == 0 then
    return
  end
  leases = record()
  taking = leases.read_taking(arguments)
  entries, entries_text = leases.open(KEYS[taking.slot], now)
  return not entries and taking.slot or nil
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

-- Runs every check in order, on states that change as they go. Fills in the reply.
local function run(reply)
  for place, check in ipairs(checks) do
    local over = check_one(check)
    local remaining, full_in_us = left(check)
    if over ~= 0 then
      remaining = 0
    end
    reply[3 * place], reply[3 * place + 1], reply[3 * place + 2] = over, remaining, full_in_us
  end
end

-- Whether anybody refuses: the one rule for verdicts.
local function is_refused(reply)
  local quota_over, quota_passes = false, false
  for place, check in ipairs(checks) do
    local is_over = reply[3 * place] ~= 0 and check.mode % 2 == 0
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
    if reply[3 * place] == 0 then
      reply[3 * place + 1], reply[3 * place + 2] = left(check)
    end
  end
end

-- What the checks that passed have taken.
local function holds(reply)
  local holds = {}
  for place, check in ipairs(checks) do
    if check.limiter.slots and reply[3 * place] == 0 then
      local critical, others = check.limiter.slots(check.limit, check.cost, check.amount)
      if critical then
        local since = states[check.slot].since
        holds[#holds + 1] =
          { since = since, critical = critical, others = others, key = KEYS[check.slot] }
      end
    end
  end
  return holds
end

-- Takes the lease.
local function lease(reply, found, refused)
  if found == 'early' then
    for _, check in ipairs(checks) do
      if check.limiter.slots then
        states[check.slot] = nil
      end
    end
    leases.take_early(entries, taking)
  elseif refused then
    leases.take_nothing(entries, taking, now)
  else
    entries, reply[2] = leases.take(entries, taking, holds(reply), now)
  end
end

-- Stores what has changed, for as long as any limit of the request tells it from a state never used.
local function write(slot)
  local state = states[slot] or before[slot]
  if not state or not sharers[slot][1].limiter.write then
    return
  end
  local text, fresh_at = nil, 0
  for _, check in ipairs(sharers[slot]) do
    text = text or check.limiter.write(state)
    fresh_at = math.max(fresh_at, check.limiter.fresh_at(check.limit, state))
  end
  if text ~= texts[slot] then
    keep(KEYS[slot], text, fresh_at, texts[slot], now, 0)
  end
end

-- Decides, and fills in the reply.
local function settle(reply)
  local found, deadline
  if taking then
    found, deadline = leases.find(entries, taking, now)
  end
  if found == 'same' or found == 'other' then
    -- It was decided before.
    reply[2] = deadline and AGAIN - (deadline - now) or CONFLICT
    if deadline then
      leases.repeat_lease(entries, taking, now)
      leases.keep(KEYS[taking.slot], entries, entries_text, now)
    end
    for place, check in ipairs(checks) do
      reply[3 * place], reply[3 * place + 1], reply[3 * place + 2] = 0, left(check)
    end
    return
  end
  run(reply)
  local refused = is_refused(reply)
  if refused then
    refuse(reply)
  end
  if taking then
    lease(reply, found, refused)
  end
  for slot in pairs(sharers) do
    write(slot)
  end
  if taking then
    leases.keep(KEYS[taking.slot], entries, entries_text, now)
  end
end

local unreadable = read(ARGV[1]) or read_lease(ARGV[2])
if unreadable then
  redis.call('UNLINK', KEYS[unreadable])
  return { unreadable }
end
local reply = { 0, 0 }
settle(reply)
return reply
