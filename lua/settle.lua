-- Decides a request of any kind: reads everything, decides everything, settles its verdict, and writes everything. It is
-- `settle` of src/verdict.rs in Lua, name by name; why it is so is told there. What is told of a request, and what it is
-- answered, lua/request.lua says.
--
-- This is the end of the function that makes what only some requests need. Before it, LIMITERS lists the limiters by
-- their numbers.

local CHECK_BYTES = 48

-- What decides, made for the limits of a call, and whose they are.
local function settlement(limits, limiters, now)
  local pack, unpack = struct.pack, struct.unpack
  local REFUND = 2
  local NEVER = -1
  local CONFLICT = -1
  local AGAIN = -2

  -- The request that is being decided: its checks, of which there are so many, and what is stored under its keys, which
  -- begin behind so many others. Their tables are used again for the next request: to make new ones would cost more
  -- than to decide it.
  local checks, stored, count, first_key, request = {}, {}, 0, 0, 0
  -- Its lease, with its record, and what that was; nil where it takes none.
  local leases, taking, entries, entries_text

  -- What is stored under a key of the request: the string, the state that it is, and what that has become. Returns
  -- nothing where it is no state.
  local function read_stored(slot, limiter, limit)
    local its = stored[slot]
    if its and its.request == request then
      return its
    end
    local key = KEYS[first_key + slot]
    local text = get(key)
    local before = text and limiter.read(limit, text, now)
    if text and not before then
      return nil
    end
    if its then
      its.request, its.key, its.text, its.before = request, key, text, before
      its.state, its.becomes, its.full_in_us = nil, nil, 0
    else
      its = { request = request, key = key, text = text, before = before, state = nil, becomes = nil, fresh_at = 0, full_in_us = 0 }
      stored[slot] = its
    end
    return its
  end

  -- Reads the request's checks and their states. Returns the slot of a key that holds no state, if there is one.
  local function read(arguments, at)
    for place = 1, count do
      local slot, number, cost, amount, mode, told_by
      slot, number, cost, amount, mode, told_by, at = unpack('<dddddd', arguments, at)
      local limit, limiter = limits[number], limiters[number]
      if told_by > 0 then
        local text = get(KEYS[first_key + told_by])
        local reports = workers().read(text)
        if text and not reports then
          return told_by
        end
        limiter.told(limit, reports, now)
      end
      local its = read_stored(slot, limiter, limit)
      if not its then
        return slot
      end
      local check = checks[place]
      if check then
        check.stored, check.limiter, check.limit = its, limiter, limit
        check.cost, check.amount, check.mode = cost, amount, mode
      else
        checks[place] = {
          stored = its,
          limiter = limiter,
          limit = limit,
          cost = cost,
          amount = amount,
          mode = mode,
          over = 0,
          passes = true,
          remaining = 0,
          full_in_us = 0,
        }
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
    return not entries and taking.slot or nil
  end

  local function left(check)
    local its = check.stored
    check.remaining, check.full_in_us = check.limiter.left(check.limit, its.state or its.before, now)
  end

  -- Runs a check, and notes whether it passes, and when it would or is to go on, as is told; and what is left then.
  local function check_one(check)
    local its = check.stored
    local over, state, remaining, full_in_us =
      check.limiter.check(check.limit, its.state or its.before, now, check.cost, check.amount)
    local passes = over == 0 or over < NEVER
    its.state = state or its.state
    check.over, check.passes, check.remaining, check.full_in_us = over, passes, passes and remaining or 0, full_in_us
  end

  -- Whether anybody refuses: the one rule for verdicts.
  local function is_refused()
    local quota_over, quota_passes = false, false
    for place = 1, count do
      local check = checks[place]
      local is_over = not check.passes and check.mode % 2 == 0
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
  local function refuse()
    for place = 1, count do
      checks[place].stored.state = nil
    end
    for place = 1, count do
      local check = checks[place]
      if check.limiter.is_applied_if_refused(check.limit, check.cost) then
        local its = check.stored
        local _, state = check.limiter.check(check.limit, its.state or its.before, now, check.cost, check.amount)
        its.state = state or its.state
      end
    end
    for place = 1, count do
      if checks[place].passes then
        checks[place].over = 0
        left(checks[place])
      end
    end
  end

  -- What the checks that passed have taken.
  local function holds()
    local holds = {}
    for place = 1, count do
      local check = checks[place]
      if check.limiter.slots and check.passes then
        local critical, others = check.limiter.slots(check.limit, check.cost, check.amount)
        if critical then
          local its = check.stored
          holds[#holds + 1] =
            { since = its.state.since, critical = critical, others = others, key = its.key }
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
        if checks[place].limiter.slots then
          checks[place].stored.state = nil
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
      local check = checks[place]
      local its, limiter = check.stored, check.limiter
      local state = its.state or its.before
      if state and limiter.write then
        local becomes = its.becomes or limiter.write(state)
        if becomes ~= its.text then
          local fresh_at = limiter.fresh_at(check.limit, state)
          if not its.becomes or fresh_at > its.fresh_at then
            its.becomes, its.fresh_at = becomes, fresh_at
          end
        elseif limiter.is_kept_by_limit then
          local _, full_in_us = limiter.left(check.limit, state, now)
          its.full_in_us = math.max(its.full_in_us, full_in_us)
        end
      end
    end
    for place = 1, count do
      local its = checks[place].stored
      local becomes, full_in_us = its.becomes, its.full_in_us
      its.becomes, its.full_in_us = nil, 0
      if becomes then
        keep(its.key, becomes, its.fresh_at, its.text, now, 0)
      elseif full_in_us > 0 then
        keep_longer(its.key, its.text, now + full_in_us, now)
      end
    end
  end

  -- Decides the request, once it is read. Returns what became of its lease.
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
        checks[place].over = 0
        left(checks[place])
      end
      return deadline and AGAIN - (deadline - now) or CONFLICT
    end
    for place = 1, count do
      check_one(checks[place])
    end
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

  -- Decides the request whose checks begin at a place of the arguments, and whose keys behind so many others. Returns
  -- the slot of a key that holds no state, if there is one. Else what became of the request is told.
  local function decide(arguments, at, first, checks_count, lease_length, told)
    request, first_key, count = request + 1, first, checks_count
    local unreadable = read(arguments, at) or read_lease(arguments, at + count * CHECK_BYTES, lease_length)
    if unreadable then
      delete(KEYS[first_key + unreadable])
      return unreadable
    end
    local leased = settle()
    if leased then
      told[#told + 1] = pack('<d', leased)
    end
    for place = 1, count do
      local check = checks[place]
      told[#told + 1] = pack('<ddd', check.over, check.remaining, check.full_in_us)
    end
  end

  return decide
end

return settlement, LIMITERS
