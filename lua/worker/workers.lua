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
-- and for each bucket, deadlines ascending
--   deadline           until when its reports are fresh
--   workers, slots, load

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

  -- The state in a string, nil where it is none.
  local function read(value)
    if type(value) ~= 'string' or #value < 64 or #value % 32 ~= 0 then
      return nil
    end
    local since, updated, pressure, shed_all_after_us, at = unpack('<dddd', value)
    if not (is_count(since) and is_count(updated) and is_count(math.abs(pressure))) then
      return nil
    end
    if not (shed_all_after_us >= 1 and shed_all_after_us <= LONGEST_SHEDDING_US) then
      return nil
    end
    local buckets, last, all = {}, -1, 0
    while at <= #value do
      local deadline, count, slots, load
      deadline, count, slots, load, at = unpack('<dddd', value, at)
      if not (is_count(deadline) and is_count(count) and is_count(slots) and is_count(load)) then
        return nil
      end
      if deadline <= last or count == 0 or slots < count then
        return nil
      end
      if slots > count * MOST_SLOTS or load > slots * MOST_UTILIZATION then
        return nil
      end
      last, all = deadline, all + count
      buckets[#buckets + 1] = { deadline = deadline, workers = count, slots = slots, load = load }
    end
    if all > MOST_WORKERS then
      return nil
    end
    return {
      since = since,
      updated = updated,
      pressure = pressure,
      shed_all_after_us = shed_all_after_us,
      buckets = buckets,
    }
  end

  local function write(state)
    local texts = { pack('<dddd', state.since, state.updated, state.pressure, state.shed_all_after_us) }
    for place, bucket in ipairs(state.buckets) do
      texts[place + 1] = pack('<dddd', bucket.deadline, bucket.workers, bucket.slots, bucket.load)
    end
    return table.concat(texts)
  end

  local function counts(state)
    local count, slots, load = 0, 0, 0
    for _, bucket in ipairs(state.buckets) do
      count, slots, load = count + bucket.workers, slots + bucket.slots, load + bucket.load
    end
    return count, slots, load
  end

  -- nil where nobody has any slots.
  local function utilization(slots, load)
    return slots > 0 and floor(load / slots) or nil
  end

  local function press(pressure, settings, utilization, for_us)
    local slope = utilization and slope(settings, utilization) or -WHOLE_PARTS
    return max(min(pressure + min(for_us, LONGEST_US) * slope, settings.most), settings.rest)
  end

  -- A copy, where it is another.
  local function pulled_back(state, now)
    local ahead_us = state.updated - now
    if ahead_us <= MOST_AHEAD_US then
      return state
    end
    local buckets = {}
    for place, bucket in ipairs(state.buckets) do
      local deadline = max(bucket.deadline - ahead_us, 0)
      buckets[place] =
        { deadline = deadline, workers = bucket.workers, slots = bucket.slots, load = bucket.load }
    end
    return {
      since = state.since,
      updated = now,
      pressure = state.pressure,
      shed_all_after_us = state.shed_all_after_us,
      buckets = buckets,
    }
  end

  local function rescaled(state, settings)
    local old, new = state.shed_all_after_us, settings.shed_all_after_us
    if old == new or old == 0 then
      return state.pressure
    end
    return floor(state.pressure / old * new)
  end

  -- A copy, but for its buckets, which are those of `state`.
  local function at(state, settings, now)
    if not state then
      return {
        since = now,
        updated = now,
        pressure = settings.rest,
        shed_all_after_us = settings.shed_all_after_us,
        buckets = {},
      }
    end
    state = pulled_back(state, now)
    local pressure = rescaled(state, settings)
    local _, slots, load = counts(state)
    local from, live = state.updated, {}
    for _, bucket in ipairs(state.buckets) do
      if #live == 0 then
        local till = min(bucket.deadline, now)
        pressure = press(pressure, settings, utilization(slots, load), max(till - from, 0))
        slots, load = slots - bucket.slots, load - bucket.load
        from = max(from, till)
      end
      if bucket.deadline > now then
        live[#live + 1] = bucket
      end
    end
    if #live == 0 then
      pressure = press(pressure, settings, nil, max(now - from, 0))
    end
    return {
      since = #live > 0 and state.since or now,
      updated = max(state.updated, now),
      pressure = pressure,
      shed_all_after_us = settings.shed_all_after_us,
      buckets = live,
    }
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
    state = pulled_back(state, now)
    local last = state.buckets[#state.buckets].deadline
    if now >= last + report_ttl_us then
      return nil
    end
    local _, slots = counts(state)
    return slots
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
    utilization = utilization,
    at = at,
    amount = amount,
    capacity = capacity,
    fresh_at = fresh_at,
    add = add,
    remove = remove,
  }
  return workers_made
end
