-- Worker utilization: when workers are too busy, the least important traffic is given up first, slowly.
--
-- src/limiter/utilization/mod.rs in Lua, name by name. Under its key, what lua/worker/workers.lua says; it is
-- reports that change it, and never a request.
--
-- In ARGV, doubles: the pool's settings, and
--   classes           how many classes may be dropped
--   class             which of them the request is of, the first being 0
--   number            what is drawn, below 2^32; for a caller, where his draws begin
--   turns_us          by how much the caller's turns are earlier than others'; -1 where it is drawn for the
--                     request

local function utilization()
  local max, min = math.max, math.min
  local pool = workers()

  local REFUND = 2
  local TURN_US = 180000000
  local DRAWS = 2 ^ 32
  local STRIDE = 2654435769
  local TURNS = 2 ^ 20
  local WHOLE_PARTS = 1000000
  local REMAINING = 2 ^ 32 - 1

  local function limit(arguments, at)
    local settings, classes, class, number, turns_us
    settings, at = pool.settings(arguments, at)
    classes, class, number, turns_us, at = struct.unpack('<dddd', arguments, at)
    return {
      settings = settings,
      classes = classes,
      class = class,
      number = number,
      turns_us = turns_us,
    },
      at
  end

  -- What is drawn, and microseconds until it is drawn anew, nil where it never is.
  local function draw(limit, now)
    if limit.turns_us < 0 then
      return limit.number
    end
    local time_us = now + limit.turns_us
    local moved = math.floor(time_us / TURN_US) % TURNS * STRIDE
    return (limit.number + moved) % DRAWS, TURN_US - time_us % TURN_US
  end

  local function chance(limit, pressure)
    local amount = pressure / limit.settings.most
    return max(min(amount * limit.classes - limit.class, 1), 0)
  end

  local function safe_in_us(limit, pressure)
    local pressed_us = max(math.ceil(pressure / WHOLE_PARTS), 0)
    local safe_us = math.floor(limit.settings.shed_all_after_us * limit.class / limit.classes)
    return max(pressed_us - safe_us, 1)
  end

  local function left()
    return REMAINING, 0
  end

  -- Returns how long until it passes, 0 where it does; no state, for it leaves things as they were; and what is left.
  local function check(limit, state, now, cost)
    if cost == REFUND then
      return 0, nil, left()
    end
    local pressure = pool.pressure_at(state, limit.settings, now)
    local drawn, turns_in_us = draw(limit, now)
    if drawn >= chance(limit, pressure) * DRAWS then
      return 0, nil, left()
    end
    local safe_in_us = safe_in_us(limit, pressure)
    return turns_in_us and min(safe_in_us, turns_in_us) or safe_in_us, nil, left()
  end

  return {
    limit = limit,
    read = function(_, value)
      return pool.read(value)
    end,
    check = check,
    is_applied_if_refused = function()
      return false
    end,
    left = left,
  }
end
