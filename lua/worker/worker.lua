-- What a worker said last: `Worker` of src/worker/load.rs in Lua.
--
-- Under its key, a string of little-endian doubles:
--   since             when the state began that it is a part of, in microseconds since 1970
--   deadline          until when it is fresh
--   slots, utilization
--   measured          when it was measured, by the worker's own clock; 0 where it did not say

local MOST_SLOTS = 100000
local MOST_UTILIZATION = 10000000

-- What is in a string, nil where it is nothing of a worker.
local function read_worker(value)
  if type(value) ~= 'string' or #value ~= 40 then
    return nil
  end
  local since, deadline, slots, utilization, measured = struct.unpack('<ddddd', value)
  if not (is_count(since) and is_count(deadline) and is_count(measured)) then
    return nil
  end
  if not (is_count(slots) and slots > 0 and slots <= MOST_SLOTS) then
    return nil
  end
  if not (is_count(utilization) and utilization <= MOST_UTILIZATION) then
    return nil
  end
  return {
    since = since,
    deadline = deadline,
    slots = slots,
    utilization = utilization,
    measured = measured,
  }
end

-- What is still fresh of it, where its pool's state lies so far ahead of the clock; nil where it is not, or cannot
-- be.
local function live_worker(worker, ahead_us, now)
  if not worker then
    return nil
  end
  worker.deadline = math.max(worker.deadline - ahead_us, 0)
  return worker.deadline > now and worker.deadline - now <= LONGEST_FRESH_US and worker or nil
end

local function write_worker(worker)
  return struct.pack(
    '<ddddd',
    worker.since,
    worker.deadline,
    worker.slots,
    worker.utilization,
    worker.measured
  )
end
