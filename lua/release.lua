-- Releases a lease as one atomic step: its slots come back, its record goes. It is `release` of
-- src/release.rs in Lua. Whoever waits for a slot of a state is told on the channel of the state's name.
--
-- KEYS[1]  The lease's record. The keys of the states it holds slots of stand in it.
-- ARGV[1]  What: 0 what was taken last; 1 the same, and where nothing was its acquire may be to come; 2 what an
--          attempt took or will take whose caller was not told; 3 what an attempt holds whose stream has ended.
-- ARGV[2]  The attempt, 0 where it is none's.
--
-- The reply is two whole numbers: 0, and what it was: 1 held until now, 2 expired, 3 already gone. Or 1
-- alone: the key held what is no record, and has been deleted.

local now = now_us()
local leases = record()
local entries, text = leases.open(KEYS[1], now)
if not entries then
  return { 1 }
end
local was, entry = leases.release(entries, tonumber(ARGV[1]), tonumber(ARGV[2]), now)
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
