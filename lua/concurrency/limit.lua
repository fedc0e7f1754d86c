-- Concurrency: so many requests in flight.
--
-- src/limiter/concurrency/mod.rs in Lua, name by name. Under its key, what lua/lease/in_flight.lua says.
--
-- In ARGV, doubles:
--   max               how many slots there are
--   term_us           how long a lease lasts

local function concurrency()
  local function limit(arguments, at)
    local most, term_us
    most, term_us, at = struct.unpack('<dd', arguments, at)
    return { max = most, term_us = term_us, critical = false }, at
  end

  local function free(limit, critical, others)
    return math.max(limit.max - critical - others, 0)
  end

  local function only_counts()
    return false
  end

  return slot_limiter(limit, free, only_counts)
end
