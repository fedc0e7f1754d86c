-- Giving back a charge whose caller had been answered without it. It is src/limiter/token_bucket/credit.rs in Lua; why it is
-- so is told there.

-- The state once it has back what is left of a charge of that instant; nil where that is not known.
local function token_bucket_credit(limit, state, now, tokens, at)
  local used, updated, grains_per_token = struct.unpack('<ddd', state)
  if limit.overdraw or grains_per_token ~= limit.per_token or now < at or now < updated then
    return nil
  end
  local own = math.min(tokens, limit.burst) * limit.per_token
  local credit = math.max(own - math.ceil((now - at) / limit.step_us) * limit.per_step, 0)
  if credit > used then
    return nil
  end
  if #state > 24 then
    local _, charged = struct.unpack('<dd', state, 25)
    if charged < own then
      return nil
    end
  end
  return struct.pack('<d', used - credit) .. string.sub(state, 9)
end
