-- Releases a lease as one atomic step: its slots come back, its record goes. It is `release` of
-- src/release.rs in Lua. Whoever waits for a slot of a state is told on the channel of the state's name.
--
-- KEYS[1]  The lease's record. The keys of the states it holds slots of stand in it.
-- ARGV[1]  1 where an acquire may be to come, which is to take nothing then; else 0.
--
-- The reply is two whole numbers: 0, and what it was: 1 held until now, 2 expired, 3 already gone. Or 1
-- alone: the key held what is no record, and has been deleted.

local now = now_us()
local leases = record()
local entries, text = leases.open(KEYS[1], now)
if not entries then
  return { 1 }
end
local was, entry = leases.release(entries, ARGV[1] == '1', now)
local states = slotted(now)
if entry then
  for _, hold in ipairs(entry.holds) do
    states.give_back(hold, entry.deadline)
  end
end
local free = states.write()
leases.keep(KEYS[1], entries, text, now)
states.announce(free)
return { 0, was }
