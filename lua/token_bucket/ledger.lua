-- Giving back what was charged and not used. It is src/limiter/token_bucket/ledger.rs in Lua, name by name; why it is so is
-- told there. Apart from the bucket, for most calls have no need of it.

-- Where the ledger begins in a state that has one.
local LEDGER = 25

-- The grains to credit for tokens that were charged when the ledger stood so; nil where the claim is void.
local function credit_by_charges(state, tokens, since, charged)
  if #state < LEDGER then
    return nil
  end
  local used, _, grains_per_token, its_since, its_charged = struct.unpack('<ddddd', state)
  if its_since ~= since or its_charged < charged then
    return nil
  end
  return math.min(tokens * grains_per_token, math.max(used - (its_charged - charged), 0))
end

-- The same for tokens that were charged at that instant.
local function credit_by_time(limit, state, now, tokens, at)
  local used, updated, grains_per_token = struct.unpack('<ddd', state)
  if limit.overdraw or grains_per_token ~= limit.per_token or now < at or now < updated then
    return nil
  end
  local own = math.min(tokens, limit.burst) * limit.per_token
  local credit = math.max(own - math.ceil((now - at) / limit.step_us) * limit.per_step, 0)
  if credit > used then
    return nil
  end
  if #state > LEDGER then
    local _, charged = struct.unpack('<dd', state, LEDGER)
    if charged < own then
      return nil
    end
  end
  return credit
end

-- Gives back tokens by a claim: `since` and `charged` of the ledger, or 0 and the instant of the charge. Returns the state
-- that it leaves, and whether the claim holds.
local function give_back(limit, state, now, tokens, since, at)
  local credit
  if since == 0 then
    credit = credit_by_time(limit, state, now, tokens, at)
  else
    credit = credit_by_charges(state, tokens, since, at)
  end
  if not credit then
    return state, false
  end
  local used = struct.unpack('<d', state)
  return struct.pack('<d', used - credit) .. string.sub(state, 9), true
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
