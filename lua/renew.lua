-- Renews a lease as one atomic step: its slots come back later. It is `renew` of src/renew.rs in Lua.
--
-- KEYS[1]  The lease's record. The keys of the states it holds slots of stand in it.
-- ARGV[1]  How long the lease is to last from now on, in microseconds; 0 for as long as a new one, which is
--          the most.
--
-- The reply is three whole numbers: 0, what was found, and microseconds until the lease's deadline, 0 where
-- it is not held. Found: 1 live, 2 expired, 3 already gone, 4 lost. Or 1 alone: the key held what is no
-- record, and has been deleted.

local now = now_us()
local leases = record()
local entries, text = leases.open(KEYS[1], now)
if not entries then
  return { 1 }
end
local entry, place = leases.held(entries, now)
if not entry then
  return { 0, place, 0 }
end

local term_us = tonumber(ARGV[1])
term_us = term_us > 0 and math.min(term_us, entry.term_us) or entry.term_us
local deadline = math.max(deadline_of(term_us, now), entry.deadline)
local states = slotted(now)
local found, left_us, free = leases.LIVE, deadline - now, {}
for _, hold in ipairs(entry.holds) do
  if not states.move(hold, entry.deadline, deadline) then
    found, left_us = leases.LOST, 0
  end
end
if found == leases.LIVE then
  entry.deadline = deadline
  states.write()
else
  states.forget()
  for _, hold in ipairs(entry.holds) do
    states.give_back(hold, entry.deadline)
  end
  table.remove(entries, place)
  free = states.write()
end
leases.keep(KEYS[1], entries, text, now)
states.announce(free)
return { 0, found, left_us }
