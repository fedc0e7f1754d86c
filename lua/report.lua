-- Takes in what a worker says, as one atomic step. It is `report` of src/report.rs in Lua.
--
-- KEYS[1]  The workers of its pool.
-- KEYS[2]  What it said last.
-- ARGV[1]  A row of little-endian doubles: the pool's settings, as lua/worker/workers.lua says, and
--            slots        how many it has; 0 where it says nothing
--            utilization  in millionths
--            measures     1 if it says when it measured that, else 0
--            measured     when, by its own clock, in microseconds since 1970
--
-- The reply is five whole numbers: 0, and
--            outcome      1 it counts, 2 there was nothing in it, 3 it is not newer than the last, 4 there
--                         are too many workers
--            utilization  of the pool, in millionths; -1 where no report is fresh
--            amount       of shedding, in millionths
--            workers
-- or, where a key held what is no such state, the place of that key alone: then the key has been deleted.

local COUNTED, ABSENT, NOT_NEWER, TOO_MANY_WORKERS = 1, 2, 3, 4
local MOST_WORKERS = 5000

local pool = workers()
local now = now_us()
local settings, at = pool.settings(ARGV[1], 1)
local slots, utilization, measures, measured = struct.unpack('<dddd', ARGV[1], at)

local pool_text, worker_text = get(KEYS[1]), get(KEYS[2])
local state, worker = pool.read(pool_text), read_worker(worker_text)
if state and not pool.is_whole(state) then
  state = nil
end
if (pool_text and not state) or (worker_text and not worker) then
  local unreadable = (pool_text and not state) and 1 or 2
  delete(KEYS[unreadable])
  return { unreadable }
end

worker = live_worker(worker, state and pool.ahead_us(state, now) or 0, now)
state = pool.at_report(state, settings, now)

local function reply(outcome)
  local count, all_slots, load = pool.counts(state)
  return { 0, outcome, pool.utilization(all_slots, load) or -1, pool.amount(state), count }
end

if slots == 0 then
  return reply(ABSENT)
end
if worker and measures == 1 and measured <= worker.measured then
  return reply(NOT_NEWER)
end
local was_there = worker
  and worker.since == state.since
  and pool.remove(state, worker.deadline, worker.slots, worker.slots * worker.utilization)
if not was_there and pool.counts(state) >= MOST_WORKERS then
  return reply(TOO_MANY_WORKERS)
end
local deadline = deadline_of(settings.report_ttl_us, now)
pool.add(state, deadline, slots, slots * utilization)
if measures == 0 then
  measured = worker and worker.measured or 0
end
local said = {
  since = state.since,
  deadline = deadline,
  slots = slots,
  utilization = utilization,
  measured = measured,
}
keep(KEYS[1], pool.write(state), pool.fresh_at(state, settings), pool_text, now, 0)
keep(KEYS[2], write_worker(said), deadline, worker_text, now, 0)
return reply(COUNTED)
