-- Giving back the unspent part of a chunk. It is src/limiter/token_bucket/ledger.rs in Lua, name by name; why it is so is
-- told there. Apart from the bucket, for most calls have no need of it.

-- Where the ledger begins in a state that has one.
local LEDGER = 25

-- Gives back tokens by a claim: which ledger it is, and what that had charged directly after they were. Returns the
-- state that it leaves, nil where the claim is void.
local function give_back(state, tokens, since, charged)
  if #state < LEDGER then
    return nil
  end
  local used, _, grains_per_token, its_since, its_charged = struct.unpack('<ddddd', state)
  if its_since ~= since or its_charged < charged then
    return nil
  end
  local credit = math.min(tokens * grains_per_token, math.max(used - (its_charged - charged), 0))
  return struct.pack('<d', used - credit) .. string.sub(state, 9)
end

-- The state with a ledger, which begins with what was charged last where it has none yet. Returns that ledger, too.
local function with_ledger(limit, state, tokens, drawn)
  if #state < LEDGER then
    state = state .. struct.pack('<dd', drawn, tokens * limit.per_token)
  end
  return state, struct.unpack('<dd', state, LEDGER)
end

-- Whether a state equals one that was never used, whatever the limit.
local function is_fresh(state)
  return struct.unpack('<d', state) == 0
end
