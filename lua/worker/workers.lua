-- The workers of a pool, all together: how busy they are, how many slots they have, how hard they have been
-- pressed of late.
--
-- src/worker/workers.rs and src/worker/settings.rs in Lua, name by name; what is counted, and why so, is told
-- there. All numbers are whole and at most 2^53, so that a double holds them exactly.
--
-- Under its key, a string of little-endian doubles:
--   since              when it began, in microseconds since 1970
--   updated            when the last report came
--   pressure           in millionths of microseconds at the greatest slope; may be negative
--   shed_all_after_us  by which that was counted
--   workers, slots, load   of all buckets together
--   deadline           the first one
--   held, held_until   how many slots there are held to be, 2^53 where nobody knows, and until when
-- and for each bucket, deadlines ascending
--   deadline           until when its reports are fresh
--   workers, slots, load
--
-- The sums and the first deadline are all that a decision takes while no report has ceased to be fresh since the
-- last came, so buckets are read only where somebody asks for them.

local LONGEST_FRESH_US = 1200000000

local workers_made

local function workers()
  if workers_made then
    return workers_made
  end

  local floor, max, min = math.floor, math.max, math.min
  local pack, unpack = struct.pack, struct.unpack

  local WHOLE_PARTS = 1000000
  local MOST_WORKERS, MOST_SLOTS, MOST_UTILIZATION = 5000, 100000, 10000000
  local LONGEST_SHEDDING_US = 1800000000
  local NOBODY_KNOWS = 2 ^ 53
  local MOST_AHEAD_US = 60000000
  local LONGEST_US = 2 ^ 32

  -- Reads a pool's settings that begin at a place of the arguments. Returns where they end, too.
  local function settings(arguments, at)
    local good_below, bad_above, hold_off_us, shed_all_after_us, report_ttl_us
    good_below, bad_above, hold_off_us, shed_all_after_us, report_ttl_us, at = unpack('<ddddd', arguments, at)
    return {
      good_below = good_below,
      bad_above = bad_above,
      hold_off_us = hold_off_us,
      shed_all_after_us = shed_all_after_us,
      report_ttl_us = report_ttl_us,
      rest = -hold_off_us * WHOLE_PARTS,
      most = shed_all_after_us * WHOLE_PARTS,
    },
      at
  end

  local function slope(settings, utilization)
    if utilization < settings.good_below then
      return floor(utilization * WHOLE_PARTS / settings.good_below) - WHOLE_PARTS
    elseif utilization > settings.bad_above then
      local above = utilization - settings.bad_above
      return min(floor(above * WHOLE_PARTS / (WHOLE_PARTS - settings.bad_above)), WHOLE_PARTS)
    end
    return 0
  end

  local HEAD = 80

  -- The state in a string, nil where it is none.
  local function read(value)
    if type(value) ~= 'string' or #value <= HEAD or (#value - HEAD) % 32 ~= 0 then
      return nil
    end
    local since, updated, pressure, shed_all_after_us, count, slots, load, first, held, held_until =
      unpack('<dddddddddd', value)
    if not (is_count(since) and is_count(updated) and is_count(math.abs(pressure))) then
      return nil
    end
    if not (is_count(shed_all_after_us) and shed_all_after_us >= 1) then
      return nil
    end
    if shed_all_after_us > LONGEST_SHEDDING_US then
      return nil
    end
    if not (is_count(count) and is_count(slots) and is_count(load) and is_count(first)) then
      return nil
    end
    if not (is_count(held) and is_count(held_until)) then
      return nil
    end
    local last = unpack('<d', value, #value - 31)
    if not (is_count(last) and last - updated <= LONGEST_FRESH_US) then
      return nil
    end
    if count > MOST_WORKERS or slots > count * MOST_SLOTS or load > slots * MOST_UTILIZATION then
      return nil
    end
    return {
      since = since,
      updated = updated,
      pressure = pressure,
      shed_all_after_us = shed_all_after_us,
      workers = count,
      slots = slots,
      load = load,
      first = first,
      held = held,
      held_until = held_until,
      text = value,
    }
  end

  -- The buckets in a string, nil where they are none.
  local function read_buckets(state)
    local buckets, last, at = {}, -1, HEAD + 1
    local count, slots, load = 0, 0, 0
    while at <= #state.text do
      local bucket = {}
      bucket.deadline, bucket.workers, bucket.slots, bucket.load, at = unpack('<dddd', state.text, at)
      if not (is_count(bucket.deadline) and is_count(bucket.workers)) then
        return nil
      end
      if not (is_count(bucket.slots) and is_count(bucket.load)) then
        return nil
      end
      if bucket.deadline <= last or bucket.workers == 0 or bucket.slots < bucket.workers then
        return nil
      end
      last = bucket.deadline
      count, slots, load = count + bucket.workers, slots + bucket.slots, load + bucket.load
      buckets[#buckets + 1] = bucket
    end
    if count ~= state.workers or slots ~= state.slots or load ~= state.load then
      return nil
    end
    return buckets[1].deadline == state.first and buckets or nil
  end

  -- Where they are none, a decision takes them for reports of which nobody knows; a report has the key deleted.
  local function buckets(state)
    state.buckets = state.buckets or read_buckets(state) or {}
    return state.buckets
  end

  -- Whether all of it is one.
  local function is_whole(state)
    state.buckets = state.buckets or read_buckets(state)
    return state.buckets
  end

  local function counts(state)
    local count, slots, load = 0, 0, 0
    for _, bucket in ipairs(state.buckets) do
      count, slots, load = count + bucket.workers, slots + bucket.slots, load + bucket.load
    end
    return count, slots, load
  end

  local function write(state)
    local count, slots, load = counts(state)
    local texts = {
      pack('<dddd', state.since, state.updated, state.pressure, state.shed_all_after_us),
      pack('<dddddd', count, slots, load, state.buckets[1].deadline, state.held, state.held_until),
    }
    for place, bucket in ipairs(state.buckets) do
      texts[place + 2] = pack('<dddd', bucket.deadline, bucket.workers, bucket.slots, bucket.load)
    end
    return table.concat(texts)
  end

  -- nil where nobody has any slots.
  local function utilization(slots, load)
    return slots > 0 and floor(load / slots) or nil
  end

  local function press(pressure, settings, utilization, for_us)
    local slope = utilization and slope(settings, utilization) or -WHOLE_PARTS
    return max(min(pressure + min(for_us, LONGEST_US) * slope, settings.most), settings.rest)
  end

  -- How much later by the clock that wrote it everything is than by this one; 0 where that may be true.
  local function ahead_us(state, now)
    local ahead_us = state.updated - now
    return ahead_us > MOST_AHEAD_US and ahead_us or 0
  end

  local function rescaled(state, settings)
    local old, new = state.shed_all_after_us, settings.shed_all_after_us
    if old == new or old == 0 or state.pressure <= 0 then
      return state.pressure
    end
    return floor(state.pressure / old * new)
  end

  -- The pressure now; where some reports are not fresh any more, the buckets of those that are.
  local function pressed(state, settings, now)
    local ahead = ahead_us(state, now)
    local pressure = rescaled(state, settings)
    local slots, load = state.slots, state.load
    local from = state.updated - ahead
    if state.first - ahead > now then
      return press(pressure, settings, utilization(slots, load), max(now - from, 0)), nil
    end
    local live = {}
    for _, bucket in ipairs(buckets(state)) do
      local deadline = max(bucket.deadline - ahead, 0)
      if #live == 0 then
        local till = min(deadline, now)
        pressure = press(pressure, settings, utilization(slots, load), max(till - from, 0))
        slots, load = slots - bucket.slots, load - bucket.load
        from = max(from, till)
      end
      if deadline > now then
        live[#live + 1] = bucket
      end
    end
    if #live == 0 then
      pressure = press(pressure, settings, nil, max(now - from, 0))
    end
    return pressure, live
  end

  -- The pressure on workers of whom nothing is known where `state` is nil.
  local function pressure_at(state, settings, now)
    return state and (pressed(state, settings, now)) or settings.rest
  end

  -- A copy, with the buckets that are live.
  local function at(state, settings, now)
    local shed_all_after_us = settings.shed_all_after_us
    if not state then
      return {
        since = now,
        updated = now,
        pressure = settings.rest,
        shed_all_after_us = shed_all_after_us,
        held = 0,
        held_until = 0,
        buckets = {},
      }
    end
    local ahead = ahead_us(state, now)
    local pressure, fresh = pressed(state, settings, now)
    local live = {}
    for place, bucket in ipairs(fresh or buckets(state)) do
      live[place] = {
        deadline = max(bucket.deadline - ahead, 0),
        workers = bucket.workers,
        slots = bucket.slots,
        load = bucket.load,
      }
    end
    return {
      since = #live > 0 and state.since or now,
      updated = max(state.updated - ahead, now),
      pressure = pressure,
      shed_all_after_us = shed_all_after_us,
      held = state.held,
      held_until = ahead > 0 and max(state.held_until - ahead, 0) or state.held_until,
      buckets = live,
    }
  end

  -- How many slots there are, or are held to be, at a time by the clock of the state.
  local function slots_at(state, at)
    return at < state.held_until and max(state.slots, state.held) or state.slots
  end

  -- The same of a state that a report is about to change.
  local function at_report(state, settings, now)
    local made = at(state, settings, now)
    local half_us = floor(settings.report_ttl_us / 2)
    if not state then
      made.held, made.held_until = NOBODY_KNOWS, now + half_us
    elseif now - (state.updated - ahead_us(state, now)) > half_us then
      made.held, made.held_until = slots_at(state, state.updated), now + half_us
    end
    return made
  end

  -- In millionths.
  local function amount(state)
    return floor(state.pressure / max(state.shed_all_after_us, 1))
  end

  -- nil where it is not known.
  local function capacity(state, report_ttl_us, now)
    if not state then
      return nil
    end
    local last = unpack('<d', state.text, #state.text - 31)
    local ahead = ahead_us(state, now)
    last = max(last - ahead, 0)
    local slots = slots_at(state, now + ahead)
    return slots ~= NOBODY_KNOWS and now < last + report_ttl_us and slots or nil
  end

  -- 0 where it is worth nothing.
  local function fresh_at(state, settings)
    local last = state.buckets[#state.buckets]
    if not last then
      return 0
    end
    return last.deadline + max(settings.hold_off_us + settings.shed_all_after_us, settings.report_ttl_us)
  end

  local function add(state, deadline, slots, load)
    local buckets = state.buckets
    local place = #buckets
    while place > 0 and buckets[place].deadline > deadline do
      place = place - 1
    end
    local bucket = buckets[place]
    if bucket and bucket.deadline == deadline then
      bucket.workers = bucket.workers + 1
      bucket.slots = bucket.slots + slots
      bucket.load = bucket.load + load
    else
      table.insert(buckets, place + 1, { deadline = deadline, workers = 1, slots = slots, load = load })
    end
  end

  -- Whether it was there.
  local function remove(state, deadline, slots, load)
    for place, bucket in ipairs(state.buckets) do
      if bucket.deadline == deadline then
        if bucket.slots < slots or bucket.load < load then
          return false
        end
        bucket.workers = bucket.workers - 1
        bucket.slots = bucket.slots - slots
        bucket.load = bucket.load - load
        if bucket.workers == 0 then
          table.remove(state.buckets, place)
        end
        return true
      end
    end
    return false
  end

  workers_made = {
    settings = settings,
    read = read,
    write = write,
    counts = counts,
    is_whole = is_whole,
    utilization = utilization,
    pressure_at = pressure_at,
    ahead_us = ahead_us,
    at_report = at_report,
    amount = amount,
    capacity = capacity,
    fresh_at = fresh_at,
    add = add,
    remove = remove,
  }
  return workers_made
end
