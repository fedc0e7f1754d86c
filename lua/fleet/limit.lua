-- Fleet usage: a share of a pool's capacity is kept for critical requests.
--
-- src/limiter/fleet/mod.rs in Lua, name by name. Under its key, what lua/lease/in_flight.lua says.
--
-- In ARGV, doubles:
--   capacity          how many slots the pool has
--   reserved_parts    the share of them that is kept for critical requests, in millionths
--   critical          1 if the requests that meet this limit are, else 0
--   term_us           how long a lease lasts
--   report_ttl_us     how long a report is fresh, where the pool has as many slots as its workers report; 0
--                     where it does not

local function fleet()
  local WHOLE_PARTS = 1000000
  local ASK_AGAIN = 1000000
  local UNKNOWN = 2 ^ 32 - 1

  local function has(limit, capacity)
    limit.capacity = capacity
    limit.reserved = math.floor((capacity or 0) * limit.reserved_parts / WHOLE_PARTS)
  end

  local function limit(arguments, at)
    local capacity, reserved_parts, critical, term_us, report_ttl_us
    capacity, reserved_parts, critical, term_us, report_ttl_us, at = struct.unpack('<ddddd', arguments, at)
    local limit = {
      reserved_parts = reserved_parts,
      critical = critical == 1,
      term_us = term_us,
      report_ttl_us = report_ttl_us,
      wait_for_more = report_ttl_us > 0 and ASK_AGAIN or nil,
    }
    has(limit, capacity)
    return limit, at
  end

  -- The limit knows what the workers of its pool report: as many slots, or nobody knows.
  local function told(limit, state, now)
    has(limit, workers().capacity(state, limit.report_ttl_us, now))
  end

  local function free(limit, critical, others)
    if not limit.capacity then
      return UNKNOWN
    end
    local kept = limit.critical and critical or math.max(limit.reserved, critical)
    return math.max(limit.capacity - kept - others, 0)
  end

  local function only_counts(limit)
    return limit.critical or not limit.capacity
  end

  local limiter = slot_limiter(limit, free, only_counts)
  limiter.told = told
  return limiter
end
