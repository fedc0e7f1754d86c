-- Token bucket: so many requests per second, and so many at once.
--
-- src/limiter/token_bucket/mod.rs in Lua, name by name; what is counted, and why so, is told there. All
-- numbers are whole and at most 2^53, so that a double holds them exactly; where a product is larger, it
-- is only compared with something that is not, or cut to it.
--
-- Under its key, a string of 24 bytes, three little-endian doubles:
--   used              grains gone
--   updated           up to when the refill has been counted, in microseconds since 1970
--   grains_per_token  the size of those grains
-- or of 40, where chunks are taken ahead of need: then its ledger (src/limiter/token_bucket/ledger.rs) follows:
--   since             which ledger it is: a number above 0, drawn when it began
--   charged           the sum of all charges since, in grains
--
-- In ARGV, doubles too:
--   burst             how many tokens it holds
--   overdraw          1 if it may be overdrawn, else 0
--   per_token, per_step, step_us   its grains

local function token_bucket()
  local ceil, floor, max, min = math.ceil, math.floor, math.max, math.min
  local pack, unpack = struct.pack, struct.unpack

  local TAKE, PEEK = 0, 1
  local NEVER = -1
  local MOST = 2 ^ 53
  local MOST_AHEAD_US = 60000000
  local LONGEST_US = 2 ^ 52

  -- Reads the parameters that begin at a place of the arguments. Returns where they end, too.
  local function limit(arguments, at)
    local burst, overdraw, per_token, per_step, step_us
    burst, overdraw, per_token, per_step, step_us, at = unpack('<ddddd', arguments, at)
    local capacity = burst * per_token
    return {
      burst = burst,
      overdraw = overdraw == 1,
      capacity = capacity,
      most_used = capacity * (1 + overdraw),
      per_token = per_token,
      per_step = per_step,
      step_us = step_us,
    }, at
  end

  local PLAIN, WITH_LEDGER = 24, 40

  -- What the numbers of a state are, nil where the string is none.
  local function parse(text)
    local length = type(text) == 'string' and #text
    if length ~= PLAIN then
      if length ~= WITH_LEDGER then
        return nil
      end
      local since, charged = unpack('<dd', text, PLAIN + 1)
      if since == 0 or not (is_count(since) and is_count(charged)) then
        return nil
      end
    end
    local used, updated, grains_per_token = unpack('<ddd', text)
    -- As is_count says, without three calls of it.
    if
      used >= 0 and used <= MOST and used % 1 == 0
      and updated >= 0 and updated <= MOST and updated % 1 == 0
      and grains_per_token > 0 and grains_per_token <= MOST and grains_per_token % 1 == 0
    then
      return used, updated, grains_per_token
    end
  end

  -- The state in a string, nil where it is none. It stays a string: to take it apart where it is needed costs less
  -- than a table. One from far ahead is pulled back.
  local function read(_, text, now)
    local used, updated, grains_per_token = parse(text)
    if used and updated - now > MOST_AHEAD_US then
      return pack('<ddd', used, now, grains_per_token) .. string.sub(text, PLAIN + 1)
    end
    return used and text
  end

  local function write(state)
    return state
  end

  local function regrain(limit, used, old)
    local new = limit.per_token
    local part = used % old
    if part > 0 then
      part = min(ceil(part / old * new) + 1, new)
    end
    return floor(used / old) * new + part
  end

  -- What is used, as far as this limit counts it.
  local function used_of(limit, used, grains_per_token)
    if grains_per_token ~= limit.per_token then
      used = regrain(limit, used, grains_per_token)
    end
    local most_used = limit.most_used
    return used < most_used and used or most_used
  end

  -- What is used once the refill has been counted up to now, in the limit's own grains, and up to when it has been. Where
  -- the state is pulled back, that comes last. Returns nothing where the string is no state.
  local function settle(limit, state, now)
    if not state then
      return 0, now
    end
    local used, updated, grains_per_token = parse(state)
    if not used then
      return nil
    end
    local pulled_back
    if updated - now > MOST_AHEAD_US then
      updated = now
      pulled_back = pack('<ddd', used, now, grains_per_token) .. string.sub(state, PLAIN + 1)
    end
    used = used_of(limit, used, grains_per_token)
    local steps = now > updated and floor((now - updated) / limit.step_us) or 0
    local drained = steps * limit.per_step
    if drained >= used then
      return 0, now, pulled_back
    end
    return used - drained, updated + steps * limit.step_us, pulled_back
  end

  local function drained_in_us(limit, used, updated, now, left)
    local excess, per_step = used - left, limit.per_step
    if excess <= 0 or per_step == 0 then
      return 0
    end
    local steps_us = ceil(excess / per_step) * limit.step_us
    local left_us = updated + (steps_us < LONGEST_US and steps_us or LONGEST_US) - now
    return left_us > 0 and left_us or 0
  end

  -- 0 where they are there.
  local function lacks(limit, used, updated, now, tokens)
    if tokens > limit.burst then
      return NEVER
    end
    return drained_in_us(limit, used, updated, now, limit.capacity - tokens * limit.per_token)
  end

  -- Returns how long until it passes, 0 where it does, and what is used then.
  local function overdrawn(limit, used, updated, now, tokens)
    local over = lacks(limit, used, updated, now, 1)
    used = min(used + tokens * limit.per_token, limit.most_used)
    if over ~= 0 then
      over = lacks(limit, used, updated, now, 1)
    end
    return over, used
  end

  -- Whole tokens that are there, and microseconds until it is full.
  local function left_of(limit, used, updated, now)
    local excess = limit.capacity - used
    local remaining = excess > 0 and floor(excess / limit.per_token) or 0
    return remaining, drained_in_us(limit, used, updated, now, 0)
  end

  local function left(limit, state, now)
    local used, updated = settle(limit, state, now)
    return left_of(limit, used, updated, now)
  end

  -- Returns how long until it passes, 0 where it does; the state it leaves, nil where it leaves things as they
  -- were; and what is left then. Returns nothing where the string is no state.
  local function check(limit, state, now, cost, tokens)
    local used, updated, pulled_back = settle(limit, state, now)
    if not used then
      return nil
    end
    local over, taken
    local charge = tokens * limit.per_token
    if cost == PEEK then
      over = lacks(limit, used, updated, now, 1)
    elseif cost ~= TAKE then
      over, taken, charge = 0, max(used - charge, 0), 0
    elseif limit.overdraw then
      over, taken = overdrawn(limit, used, updated, now, tokens)
      -- Where a part of the charge is cut off, the ledger ends.
      charge = used + charge <= limit.most_used and charge or math.huge
    else
      over = lacks(limit, used, updated, now, tokens)
      taken = over == 0 and used + charge or nil
    end
    if taken then
      local becomes = pack('<ddd', taken, updated, limit.per_token)
      if state and #state > PLAIN then
        -- Its ledger ends where the state is cut, or counted in other grains. (No function of its own: to make one would
        -- cost each call.)
        local was_used, _, grains_per_token, since, charged = unpack('<ddddd', state)
        charged = charged + charge
        if grains_per_token == limit.per_token and was_used <= limit.most_used and charged <= MOST then
          becomes = becomes .. pack('<dd', since, charged)
        end
      end
      return over, becomes, left_of(limit, taken, updated, now)
    end
    return over, pulled_back, left_of(limit, used, updated, now)
  end

  local function is_applied_if_refused(limit, cost)
    return cost ~= PEEK and (cost ~= TAKE or limit.overdraw)
  end

  -- 0 where it equals one already.
  local function fresh_at(limit, state)
    local used, updated, grains_per_token = unpack('<ddd', state)
    used = used_of(limit, used, grains_per_token)
    return used > 0 and updated + drained_in_us(limit, used, updated, updated, 0) or 0
  end

  return {
    limit = limit,
    -- How long a state is kept depends on the limit.
    is_kept_by_limit = true,
    read = read,
    write = write,
    check = check,
    is_applied_if_refused = is_applied_if_refused,
    left = left,
    fresh_at = fresh_at,
  }
end
