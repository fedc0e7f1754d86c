-- Giving back a charge whose caller had been answered without it: only in the window of the charge. It is `credit` of
-- src/limiter/fixed_window/mod.rs in Lua.

local function fixed_window_credit(limit, state, now, hits, at)
  local used, was_start, was_stop = struct.unpack('<ddd', state)
  local start, stop = limit.window(limit, now)
  local at_start, at_stop = limit.window(limit, at)
  if limit.overdraw or used < hits or was_start ~= start or was_stop ~= stop or at_start ~= start or at_stop ~= stop then
    return nil
  end
  return struct.pack('<ddd', used - hits, start, stop)
end
