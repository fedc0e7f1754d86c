-- Fleet usage: a share of a pool's capacity is kept for critical requests.
--
-- src/limiter/fleet/mod.rs in Lua, name by name. Under its key, what lua/lease/in_flight.lua says.
--
-- In ARGV, doubles:
--   capacity          how many slots the pool has
--   reserved          how many of them are kept for critical requests
--   critical          1 if the requests that meet this limit are, else 0
--   term_us           how long a lease lasts

local function fleet()
  local function limit(arguments, at)
    local capacity, reserved, critical, term_us
    capacity, reserved, critical, term_us, at = struct.unpack('<dddd', arguments, at)
    return { capacity = capacity, reserved = reserved, critical = critical == 1, term_us = term_us }, at
  end

  local function free(limit, critical, others)
    local kept = limit.critical and critical or math.max(limit.reserved, critical)
    return math.max(limit.capacity - kept - others, 0)
  end

  local function only_counts(limit)
    return limit.critical
  end

  return slot_limiter(limit, free, only_counts)
end
