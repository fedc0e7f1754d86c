-- Decides requests, one after the other, and all of them as one atomic step. Each reads everything, decides
-- everything, settles its verdict, and writes everything, before the next begins, which finds what it has left. It
-- is `settle` of src/verdict.rs in Lua, name by name; why it is so is told there.
--
-- KEYS[n]  The states that the requests are about: those of the first, then those of the second, and so on. In one
--          request no key stands twice. Where it takes a lease, its last key is that of the lease's record.
-- ARGV[1]  The limits that are checked, each once or oftener, in little-endian doubles:
--            limiter  which of `makers`
--          and what the limiter's `limit` reads.
-- ARGV[2]  The requests, in little-endian doubles:
--            keys     how many of them are its own
--            checks   how many
--            lease    how many bytes say of its lease what lua/lease/record.lua tells; 0 where it takes none
--          for each check
--            slot     the place of its state among the request's own keys
--            limit    the place of its limit in ARGV[1]
--            cost     0 takes, 1 peeks, 2 gives back
--            amount   so much, at most 2^53
--            mode     0, plus 1 in shadow mode, plus 2 in quota mode
--            told_by  the place of the key that tells the limit what workers report; 0 where it takes none
--          and the lease's bytes.
--
-- The reply is an array. First in it is a string of little-endian doubles, for each request that was decided: where
-- it takes a lease,
--            leased      microseconds until the lease's deadline; 0 where there is none, -1 where its id is
--                        held for another request, and -2 less that time where it was held for this one
--                        already
--          and for each check
--            over        microseconds until it would pass; 0 where it does, -1 where it never will
--            remaining
--            full_in_us
-- Second is a string of doubles for each request that was not:
--            request     its place
--            slot        which of its own keys held what is no state of its limiter: it has been deleted, so that it
--                        is in nobody's way any more, and nothing else written. 0 where it met an error, and may
--                        have written half of what it had to; that is the next in the reply then.
-- What befalls one request befalls no other.

local pack, unpack = struct.pack, struct.unpack
local makers = { token_bucket, concurrency, fleet, utilization }
local REFUND = 2
local CONFLICT = -1
local AGAIN = -2
local CHECK_BYTES = 48

local now = now_us()
-- What is told of those that were decided, and of those that were not; and the reply that it will be in.
local told, told_count, not_decided, reply = {}, 0, {}, { '', '' }
-- By their place in ARGV[1]: the limits, and whose they are.
local limits, limiters = {}, {}
-- Of the request that is being decided, by its checks' places: what it asks, and what comes of that. They are used
-- again for the next request, for a table for each check would cost more than to decide it.
local count, first_key = 0, 0
local slots, check_limits, check_limiters, costs, amounts, modes = {}, {}, {}, {}, {}, {}
local over, remaining, full_in_us = {}, {}, {}
-- By the place of their key: the states as they are stored, and those strings; what they have become, what that is
-- as a string, and until when that means something.
local before, texts, states, written, fresh_ats = {}, {}, {}, {}, {}
-- The request's lease, its record, and what that was; nil where it takes none.
local leases, taking, entries, entries_text

local function read_limits(arguments)
  local made, at, place = {}, 1, 0
  while at <= #arguments do
    local number
    number, at = unpack('<d', arguments, at)
    local limiter = made[number]
    if not limiter then
      -- Made when it is first met: to make them all would cost every call.
      limiter = makers[number]()
      made[number] = limiter
    end
    place = place + 1
    limiters[place] = limiter
    limits[place], at = limiter.limit(arguments, at)
  end
end

-- Reads a request's checks and their states. Returns the slot of a key that holds no state, if there is one.
local function read(arguments, at)
  for place = 1, count do
    local slot, number, cost, amount, mode, told_by
    slot, number, cost, amount, mode, told_by, at = unpack('<dddddd', arguments, at)
    slot = first_key + slot
    local limit, limiter = limits[number], limiters[number]
    if told_by > 0 then
      local text = get(KEYS[first_key + told_by])
      local reports = workers().read(text)
      if text and not reports then
        return first_key + told_by
      end
      limiter.told(limit, reports, now)
    end
    slots[place], check_limits[place], check_limiters[place] = slot, limit, limiter
    costs[place], amounts[place], modes[place] = cost, amount, mode
    if texts[slot] == nil then
      local text = get(KEYS[slot])
      if text then
        before[slot] = limiter.read(limit, text, now)
        if not before[slot] then
          return slot
        end
      end
      texts[slot] = text or false
    end
  end
end

-- The same of its lease and the record.
local function read_lease(arguments, at, length)
  taking = nil
  if length == 0 then
    return
  end
  leases = leases or record()
  taking = leases.read_taking(string.sub(arguments, at, at + length - 1))
  taking.key = KEYS[first_key + taking.slot]
  entries, entries_text = leases.open(taking.key, now)
  return not entries and first_key + taking.slot or nil
end

-- Returns how long until it passes, 0 where it does, and what is left then.
local function check_one(place)
  local slot = slots[place]
  local is_over, state, remaining, full_in_us = check_limiters[place].check(
    check_limits[place],
    states[slot] or before[slot],
    now,
    costs[place],
    amounts[place]
  )
  if state then
    states[slot] = state
  end
  return is_over, remaining, full_in_us
end

local function left(place)
  local slot = slots[place]
  return check_limiters[place].left(check_limits[place], states[slot] or before[slot], now)
end

-- Runs every check in order, on states that change as they go.
local function run()
  for place = 1, count do
    over[place], remaining[place], full_in_us[place] = check_one(place)
    if over[place] ~= 0 then
      remaining[place] = 0
    end
  end
end

-- Whether anybody refuses: the one rule for verdicts.
local function is_refused()
  local quota_over, quota_passes = false, false
  for place = 1, count do
    local mode = modes[place]
    local is_over = over[place] ~= 0 and mode % 2 == 0
    if costs[place] == REFUND then
      -- Giving back says nothing about what is left.
    elseif mode < 2 then
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
local function refuse()
  for place = 1, count do
    states[slots[place]] = nil
  end
  for place = 1, count do
    if check_limiters[place].is_settled_regardless(check_limits[place], costs[place]) then
      check_one(place)
    end
  end
  for place = 1, count do
    if over[place] == 0 then
      remaining[place], full_in_us[place] = left(place)
    end
  end
end

-- What the checks that passed have taken.
local function holds()
  local holds = {}
  for place = 1, count do
    local limiter = check_limiters[place]
    if limiter.slots and over[place] == 0 then
      local critical, others = limiter.slots(check_limits[place], costs[place], amounts[place])
      if critical then
        local slot = slots[place]
        holds[#holds + 1] =
          { since = states[slot].since, critical = critical, others = others, key = KEYS[slot] }
      end
    end
  end
  return holds
end

-- Takes the lease. Returns what became of it.
local function lease(found, refused)
  local leased = 0
  if found == 'early' then
    for place = 1, count do
      if check_limiters[place].slots then
        states[slots[place]] = nil
      end
    end
    leases.take_early(entries, taking)
  elseif refused then
    leases.take_nothing(entries, taking, now)
  else
    entries, leased = leases.take(entries, taking, holds(), now)
  end
  return leased
end

-- Stores what has changed, for as long as any limit of the request tells it from a state never used.
local function write()
  for place = 1, count do
    local slot, limiter = slots[place], check_limiters[place]
    local state = states[slot] or before[slot]
    if state and limiter.write then
      local text = written[slot] or limiter.write(state)
      if text ~= texts[slot] then
        local fresh_at = limiter.fresh_at(check_limits[place], state)
        if not written[slot] or fresh_at > fresh_ats[slot] then
          written[slot], fresh_ats[slot] = text, fresh_at
        end
      end
    end
  end
  for place = 1, count do
    local slot = slots[place]
    if written[slot] then
      keep(KEYS[slot], written[slot], fresh_ats[slot], texts[slot], now, 0)
      written[slot] = nil
    end
  end
end

-- Decides a request that was read. Returns what became of its lease.
local function settle()
  local found, deadline
  if taking then
    found, deadline = leases.find(entries, taking, now)
  end
  if found == 'same' or found == 'other' then
    -- It was decided before.
    if deadline then
      leases.repeat_lease(entries, taking, now)
      leases.keep(taking.key, entries, entries_text, now)
    end
    for place = 1, count do
      over[place], remaining[place], full_in_us[place] = 0, left(place)
    end
    return deadline and AGAIN - (deadline - now) or CONFLICT
  end
  run()
  local refused = is_refused()
  if refused then
    refuse()
  end
  local leased = taking and lease(found, refused)
  write()
  if taking then
    leases.keep(taking.key, entries, entries_text, now)
  end
  return leased
end

-- Decides the request of which this is where its checks begin. Returns the slot of a key that holds no state, if
-- there is one, else what became of its lease.
local function decide(arguments, at, lease_length)
  local unreadable = read(arguments, at) or read_lease(arguments, at + count * CHECK_BYTES, lease_length)
  if unreadable then
    redis.call('UNLINK', KEYS[unreadable])
    return unreadable
  end
  return nil, settle()
end

-- What an error says. Redis before 7 gives it as a string, which begins with where it was met.
local function words(error)
  local text = type(error) == 'table' and error.err or tostring(error)
  text = string.gsub(text, '^@?user_script: ?%d+: ', '')
  text = string.gsub(text, '^%-', '')
  return string.find(text, '^%u+ ') and text or 'ERR ' .. text
end

read_limits(ARGV[1])
local requests, request, at = ARGV[2], 0, 1
while at <= #requests do
  local keys, lease_length
  keys, count, lease_length, at = unpack('<ddd', requests, at)
  request = request + 1
  local is_done, unreadable, leased = pcall(decide, requests, at, lease_length)
  if not is_done then
    not_decided[#not_decided + 1] = pack('<dd', request, 0)
    reply[#reply + 1] = { err = words(unreadable) }
  elseif unreadable then
    not_decided[#not_decided + 1] = pack('<dd', request, unreadable - first_key)
  else
    if leased then
      told_count = told_count + 1
      told[told_count] = pack('<d', leased)
    end
    for place = 1, count do
      told[told_count + place] = pack('<ddd', over[place], remaining[place], full_in_us[place])
    end
    told_count = told_count + count
  end
  first_key, at = first_key + keys, at + count * CHECK_BYTES + lease_length
end
reply[1], reply[2] = table.concat(told), table.concat(not_decided)
return reply
