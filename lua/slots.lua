-- What the limits have in common that count requests in flight: src/limiter/slots.rs in Lua, name by name.

-- A limiter, made of what tells such limits apart:
--   limit             reads the parameters that begin at a place of the arguments, `term_us` and `critical`
--                     among them, and `wait_for_more` where there may be more slots later, and returns where
--                     they end, too
--   free              how many slots are free for the requests that meet a limit, where so many are taken
--   only_counts       whether those requests are counted and never refused
local function slot_limiter(limit, free, only_counts)
  local slots = in_flight()
  local TAKE, PEEK = 0, 1
  local NEVER = -1

  -- 0 where they are free.
  local function lacks(limit, live, now, count)
    local function fits(critical, others)
      return free(limit, critical, others) >= count
    end
    if only_counts(limit) or fits(slots.slots(live)) then
      return 0
    end
    local fits_at = slots.fits_at(live, fits)
    return fits_at and fits_at - now or limit.wait_for_more or NEVER
  end

  -- So many slots, critical ones first.
  local function of(limit, count)
    if limit.critical then
      return count, 0
    end
    return 0, count
  end

  -- Slots that are free, and microseconds until no slot is taken.
  local function left_of(limit, live, now)
    return free(limit, slots.slots(live)), math.max(slots.empty_at(live) - now, 0)
  end

  local function left(limit, state, now)
    return left_of(limit, slots.live(state, now), now)
  end

  -- Returns how long until it passes, 0 where it does; the state it leaves, nil where it leaves things as they
  -- were; and what is left then.
  local function check(limit, state, now, cost, count)
    local live = slots.live(state, now)
    local over, taken = 0, nil
    if cost == PEEK then
      over = lacks(limit, live, now, 1)
    elseif cost == TAKE then
      over = lacks(limit, live, now, count)
      if over == 0 then
        slots.add(live, deadline_of(limit.term_us, now), of(limit, count))
        taken = live
      end
    end
    return over, taken, left_of(limit, live, now)
  end

  return {
    limit = limit,
    read = function(limit, value, now)
      local state = slots.read(value)
      return state and slots.pulled_back(limit.term_us, state, now)
    end,
    write = slots.write,
    check = check,
    is_applied_if_refused = function()
      return false
    end,
    left = left,
    fresh_at = function(_, state)
      return slots.empty_at(state)
    end,
    -- The slots that a cost takes, critical ones first; nil where it takes none.
    slots = function(limit, cost, count)
      if cost == TAKE then
        return of(limit, count)
      end
    end,
  }
end
