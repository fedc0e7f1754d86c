-- Giving back a charge whose caller had been answered without it. It is `credit` of src/limiter/leaky_bucket/mod.rs in Lua:
-- nothing is given back.

local function leaky_bucket_credit()
  return nil
end
