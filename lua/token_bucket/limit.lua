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

  -- The state in a string, nil where it is none.
  local function read(value)
    if type(value) ~= 'string' or #value ~= 24 then
      return nil
    end
    local used, updated, grains_per_token = unpack('<ddd', value)
    if is_count(used) and is_count(updated) and is_count(grains_per_token) and grains_per_token > 0 then
      return { used = used, updated = updated, grains_per_token = grains_per_token }
    end
  end

  local function write(state)
    return pack('<ddd', state.used, state.updated, state.grains_per_token)
  end

  local function pulled_back(_, state, now)
    if state.updated - now > MOST_AHEAD_US then
      state.updated = now
    end
    return state
  end

  local function steps_us(limit, grains)
    if limit.per_step == 0 then
      return 0
    end
    return min(ceil(grains / limit.per_step) * limit.step_us, LONGEST_US)
  end

  local function regrain(limit, state)
    local old, new = state.grains_per_token, limit.per_token
    if old == new then
      return state.used
    end
    local part = state.used % old
    if part > 0 then
      part = min(ceil(part / old * new) + 1, new)
    end
    return floor(state.used / old) * new + part
  end

  local function used(limit, state)
    return min(regrain(limit, state), limit.most_used)
  end

  local function settle(limit, state, now)
    local full = { used = 0, updated = now, grains_per_token = limit.per_token }
    if not state then
      return full
    end
    local used = used(limit, state)
    local steps = floor(max(now - state.updated, 0) / limit.step_us)
    local drained = steps * limit.per_step
    if drained >= used then
      return full
    end
    full.used = used - drained
    full.updated = state.updated + steps * limit.step_us
    return full
  end

  local function drained_in_us(limit, state, now, left)
    local excess = state.used - left
    if excess <= 0 then
      return 0
    end
    return max(state.updated + steps_us(limit, excess) - now, 0)
  end

  -- 0 where they are there.
  local function lacks(limit, state, now, tokens)
    if tokens > limit.burst then
      return NEVER
    end
    return drained_in_us(limit, state, now, limit.capacity - tokens * limit.per_token)
  end

  local function take(limit, state, now, tokens)
    local over = lacks(limit, state, now, tokens)
    if over ~= 0 then
      return over, nil
    end
    state.used = state.used + tokens * limit.per_token
    return 0, state
  end

  local function overdrawn(limit, state, now, tokens)
    local over = lacks(limit, state, now, 1)
    state.used = min(state.used + tokens * limit.per_token, limit.most_used)
    if over ~= 0 then
      over = lacks(limit, state, now, 1)
    end
    return over, state
  end

  -- Returns how long until it passes, 0 where it does, and the state it leaves, nil where it leaves
  -- things as they were.
  local function check(limit, state, now, cost, tokens)
    state = settle(limit, state, now)
    if cost == PEEK then
      return lacks(limit, state, now, 1), nil
    elseif cost ~= TAKE then
      state.used = max(state.used - tokens * limit.per_token, 0)
      return 0, state
    elseif limit.overdraw then
      return overdrawn(limit, state, now, tokens)
    end
    return take(limit, state, now, tokens)
  end

  local function is_settled_regardless(limit, cost)
    return cost ~= PEEK and (cost ~= TAKE or limit.overdraw)
  end

  -- Whole tokens that are there, and microseconds until it is full.
  local function left(limit, state, now)
    state = settle(limit, state, now)
    local remaining = floor(max(limit.capacity - state.used, 0) / limit.per_token)
    return remaining, drained_in_us(limit, state, now, 0)
  end

  -- 0 where it equals one already.
  local function fresh_at(limit, state)
    local used = used(limit, state)
    if used == 0 then
      return 0
    end
    return state.updated + steps_us(limit, used)
  end

  return {
    limit = limit,
    read = read,
    write = write,
    pulled_back = pulled_back,
    check = check,
    is_settled_regardless = is_settled_regardless,
    left = left,
    fresh_at = fresh_at,
  }
end
