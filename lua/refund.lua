-- Gives back charges after a timeout as one atomic step. It is `refund` of src/refund.rs in Lua, name by name; why it is so
-- is told there. Before it, RATES lists the rates by their numbers: what makes each, and what credits it.
--
-- KEYS[n]  The states, none twice.
-- ARGV[1]  A row of little-endian doubles for each of them:
--            limiter  its number
--            what the limiter's `limit` reads
--            charges  so many come back; for each of them
--              amount   how much
--              at       when it was charged, as a script has said it
--
-- The reply is whole numbers: 0, then for each state how many charges were not given back; or, where a key held what is no
-- state, the place of that key alone: then the key has been deleted, and nothing else written.

local unpack = struct.unpack
local now = now_us()
local refunds = {}

-- Reads all refunds and states. Returns the place of a key that holds no state, if there is one.
local function read(arguments)
  local at = 1
  for place, key in ipairs(KEYS) do
    local number, count
    number, at = unpack('<d', arguments, at)
    local limiter, refund = RATES[number][1](), { charges = {}, credit = RATES[number][2] }
    refund.fresh_at = limiter.fresh_at
    refund.limit, at = limiter.limit(arguments, at)
    count, at = unpack('<d', arguments, at)
    for charge = 1, count do
      local amount, charged_at
      amount, charged_at, at = unpack('<dd', arguments, at)
      refund.charges[charge] = { amount, charged_at }
    end
    refund.text = get(key)
    if refund.text and not limiter.read(refund.limit, refund.text, now) then
      return place
    end
    refunds[place] = refund
  end
end

-- Returns the state once it has back what comes back, and how many charges are not given back.
local function apply(refund)
  local state, void = refund.text, 0
  for _, charge in ipairs(refund.charges) do
    local credited = state and refund.credit(refund.limit, state, now, charge[1], charge[2])
    state = credited or state
    void = void + (credited and 0 or 1)
  end
  return state, void
end

local unreadable = read(ARGV[1])
if unreadable then
  delete(KEYS[unreadable])
  return { unreadable }
end
local reply = { 0 }
for place, refund in ipairs(refunds) do
  refund.state, reply[place + 1] = apply(refund)
end
for place, refund in ipairs(refunds) do
  if refund.state == refund.text then
    -- Nothing has come back.
  elseif refund.fresh_at(refund.limit, refund.state) > 0 then
    keep_as_long(KEYS[place], refund.state)
  else
    delete(KEYS[place])
  end
end
return reply
