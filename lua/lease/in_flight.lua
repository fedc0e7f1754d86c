-- What is in flight under one limit: how many slots come back at which instant.
--
-- src/lease/in_flight.rs in Lua, name by name; what is counted, and why so, is told
-- there.
--
-- Under its key, a string of little-endian doubles:
--   since             when it began, in microseconds since 1970
-- and for each bucket, deadlines ascending
--   deadline          when its slots come back, in microseconds since 1970
--   critical, others  how many

local in_flight_made

local function in_flight()
  if in_flight_made then
    return in_flight_made
  end

  local max, min = math.max, math.min
  local pack, unpack = struct.pack, struct.unpack

  local MOST = 2 ^ 53
  local LONGEST_TERM_US = 86400000000
  local MOST_AHEAD_US = 60000000

  -- The state in a string, nil where it is none.
  local function read(value)
    if type(value) ~= 'string' or #value < 32 or #value % 24 ~= 8 then
      return nil
    end
    local since, at = unpack('<d', value)
    if not is_count(since) then
      return nil
    end
    local buckets, last = {}, -1
    while at <= #value do
      local deadline, critical, others
      deadline, critical, others, at = unpack('<ddd', value, at)
      if not (is_count(deadline) and is_count(critical) and is_count(others)) then
        return nil
      end
      if deadline <= last or critical + others == 0 then
        return nil
      end
      last = deadline
      buckets[#buckets + 1] = { deadline = deadline, critical = critical, others = others }
    end
    return { since = since, buckets = buckets }
  end

  local function write(state)
    local texts = { pack('<d', state.since) }
    for place, bucket in ipairs(state.buckets) do
      texts[place + 1] = pack('<ddd', bucket.deadline, bucket.critical, bucket.others)
    end
    return table.concat(texts)
  end

  -- A copy.
  local function live(state, now)
    local buckets = {}
    for _, bucket in ipairs(state and state.buckets or buckets) do
      if bucket.deadline > now then
        buckets[#buckets + 1] =
          { deadline = bucket.deadline, critical = bucket.critical, others = bucket.others }
      end
    end
    return { since = #buckets > 0 and state.since or now, buckets = buckets }
  end

  local function slots(state)
    local critical, others = 0, 0
    for _, bucket in ipairs(state.buckets) do
      critical = min(critical + bucket.critical, MOST)
      others = min(others + bucket.others, MOST)
    end
    return critical, others
  end

  -- 0 where no slot is out.
  local function empty_at(state)
    local last = state.buckets[#state.buckets]
    return last and last.deadline or 0
  end

  -- nil where it never fits.
  local function fits_at(state, fits)
    local critical, others = slots(state)
    for _, bucket in ipairs(state.buckets) do
      critical = max(critical - bucket.critical, 0)
      others = max(others - bucket.others, 0)
      if fits(critical, others) then
        return bucket.deadline
      end
    end
  end

  local function add(state, deadline, critical, others)
    local buckets = state.buckets
    local place = #buckets
    while place > 0 and buckets[place].deadline > deadline do
      place = place - 1
    end
    local bucket = buckets[place]
    if bucket and bucket.deadline == deadline then
      bucket.critical = min(bucket.critical + critical, MOST)
      bucket.others = min(bucket.others + others, MOST)
    else
      table.insert(buckets, place + 1, { deadline = deadline, critical = critical, others = others })
    end
  end

  -- The bucket of a deadline, and its place; nil where there is none.
  local function find(state, deadline)
    deadline = min(deadline, empty_at(state))
    for place, bucket in ipairs(state.buckets) do
      if bucket.deadline == deadline then
        return bucket, place
      end
    end
  end

  local function remove(state, deadline, critical, others)
    local bucket, place = find(state, deadline)
    if not bucket then
      return
    end
    bucket.critical = max(bucket.critical - critical, 0)
    bucket.others = max(bucket.others - others, 0)
    if bucket.critical + bucket.others == 0 then
      table.remove(state.buckets, place)
    end
  end

  local function has(state, deadline, critical, others)
    local bucket = find(state, deadline)
    return bucket and bucket.critical >= critical and bucket.others >= others
  end

  local function pulled_back(term_us, state, now)
    local last = now + LONGEST_TERM_US + LONGEST_TERM_US / TERM_STEPS + MOST_AHEAD_US
    if empty_at(state) <= last then
      return state
    end
    local pulled = { since = state.since, buckets = {} }
    for _, bucket in ipairs(state.buckets) do
      local deadline = bucket.deadline
      if deadline > last then
        deadline = deadline_of(term_us, now)
      end
      add(pulled, deadline, bucket.critical, bucket.others)
    end
    return pulled
  end

  in_flight_made = {
    read = read,
    write = write,
    live = live,
    slots = slots,
    empty_at = empty_at,
    fits_at = fits_at,
    add = add,
    remove = remove,
    has = has,
    pulled_back = pulled_back,
  }
  return in_flight_made
end
