-- Fixed window: so many requests in each window of time.
--
-- src/limiter/fixed_window/ in Lua, name by name; what is counted, and why so, is told there. All numbers are whole and at
-- most 2^53, so that a double holds them exactly.
--
-- Under its key, a string of 24 bytes, three little-endian doubles:
--   used              what was charged in the window
--   start, stop       the window, in microseconds since 1970
--
-- In ARGV, doubles too:
--   most              how many in each window
--   overdraw          1 if it may be overdrawn, else 0
--   length            of a window, in microseconds; below 0, of so many months of the calendar
--   before            so long before 1970 the first window began

local function fixed_window()
  local floor, fmod, max, min = math.floor, math.fmod, math.max, math.min
  local pack, unpack = struct.pack, struct.unpack

  local TAKE, PEEK = 0, 1
  local NEVER = -1
  local MOST_AHEAD_US = 60000000
  local DAY_US = 86400000000
  local EPOCH, ERA = 719468, 146097

  local function month_of(day)
    day = day + EPOCH
    local era = floor(day / ERA)
    day = day % ERA
    local year = floor((day - floor(day / 1460) + floor(day / 36524) - floor(day / 146096)) / 365)
    day = day - (365 * year + floor(year / 4) - floor(year / 100))
    return 12 * (400 * era + year) + floor((5 * day + 2) / 153) + 2
  end

  local function day_of(month)
    local year = floor((month - 2) / 12)
    month = (month - 2) % 12
    local days = 365 * year + floor(year / 4) - floor(year / 100) + floor(year / 400)
    return days + floor((153 * month + 2) / 5) - EPOCH
  end

  -- Where the window of an instant begins and ends. (The operator `%` is not exact for large numbers.)
  local function window(limit, at)
    local length = limit.length
    if length > 0 then
      local stop = at - fmod(at + limit.before, length) + length
      return max(stop - length, 0), stop
    end
    local first = month_of((at - fmod(at, DAY_US)) / DAY_US)
    first = first - first % -length
    return day_of(first) * DAY_US, day_of(first - length) * DAY_US
  end

  -- Reads the parameters that begin at a place of the arguments. Returns where they end, too.
  local function limit(arguments, at)
    local most, overdraw, length, before
    most, overdraw, length, before, at = unpack('<dddd', arguments, at)
    return {
      most = most,
      overdraw = overdraw == 1,
      length = length,
      before = before,
      window = window,
    }, at
  end

  -- The state in a string, nil where it is none. It stays a string. One from far ahead is clamped to now.
  local function read(limit, text, now)
    if type(text) ~= 'string' or #text ~= 24 then
      return nil
    end
    local used, start, stop = unpack('<ddd', text)
    if not (is_count(used) and is_count(start) and is_count(stop) and start < stop) then
      return nil
    end
    if start - now > MOST_AHEAD_US then
      return pack('<ddd', used, window(limit, now))
    end
    return text
  end

  local function write(state)
    return state
  end

  -- What is used of a window of this limit, and that; nothing where the state equals one never used.
  local function own(limit, state)
    local used, start, stop = unpack('<ddd', state)
    local own_start, own_stop = window(limit, start)
    if used > 0 and own_start == start and own_stop == stop then
      return used, start, stop
    end
  end

  -- What is used of the current window, and that. Of a state that lies ahead, its window goes on.
  local function current(limit, state, now)
    if state then
      local used, start, stop = own(limit, state)
      if used and now < stop then
        return used, start, stop
      end
    end
    return 0, window(limit, now)
  end

  -- 0 where they fit.
  local function lacks(limit, used, stop, now, hits)
    if hits > limit.most then
      return NEVER
    end
    return used > limit.most - hits and stop - now or 0
  end

  local function left_of(limit, used, stop, now)
    return max(limit.most - used, 0), used > 0 and stop - now or 0
  end

  -- What is left, and microseconds until the window ends; 0 where nothing is used of it.
  local function left(limit, state, now)
    local used, _, stop = current(limit, state, now)
    return left_of(limit, used, stop, now)
  end

  -- Returns how long until it passes, 0 where it does; the state it leaves, nil where it leaves things as they were; and
  -- what is left then. Returns nothing where the string is no state.
  local function check(limit, state, now, cost, hits)
    local clamped
    if state then
      local seen = read(limit, state, now)
      if not seen then
        return nil
      end
      clamped = seen ~= state and seen or nil
      state = seen
    end
    local used, start, stop = current(limit, state, now)
    local over, taken
    if cost == PEEK then
      over = lacks(limit, used, stop, now, 1)
    elseif cost ~= TAKE then
      over, taken = 0, max(used - hits, 0)
    elseif limit.overdraw then
      -- A limit that was lowered forgets nothing: it may be raised again.
      over, taken = lacks(limit, used, stop, now, 1), max(min(used + hits, 2 * limit.most), used)
    else
      over = lacks(limit, used, stop, now, hits)
      taken = over == 0 and used + hits or nil
    end
    if taken then
      return over, pack('<ddd', taken, start, stop), left_of(limit, taken, stop, now)
    end
    return over, clamped, left_of(limit, used, stop, now)
  end

  local function is_applied_if_refused(limit, cost)
    return cost ~= PEEK and (cost ~= TAKE or limit.overdraw)
  end

  -- 0 where it equals a new one already.
  local function fresh_at(limit, state)
    local _, _, stop = own(limit, state)
    return stop or 0
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
