-- The clock of all decisions: Redis's own. Replicas and callers have clocks that differ, so no script
-- that is served takes a time from them. It is a file of its own because the tests that hold Lua and Rust
-- equal join another in its place, one that is told the time.

-- Microseconds since 1970: a whole number that Lua holds exactly, until the year 2255.
local function now_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
