-- Leaky bucket: hits are spaced, up to so many of them waiting.
--
-- src/limiter/leaky_bucket/mod.rs in Lua, name by name. It is a token bucket of the queue and one more, of which a hit waits
-- until what is used has drained: lua/token_bucket/limit.lua says what is under its key. In ARGV, what that says, then:
--   most_delay_us     the longest delay that the caller accepts

local function leaky_bucket()
  local bucket = token_bucket()
  local TAKE, PEEK = 0, 1
  local PASSES_NOW = -1

  local function limit(arguments, at)
    local its
    its, at = bucket.limit(arguments, at)
    its.most_delay_us, at = struct.unpack('<d', arguments, at)
    return its, at
  end

  -- As that of the bucket; but a hit that passes after a while returns that as less than -1: see lua/request.lua.
  local function check(limit, state, now, cost, hits)
    local over, taken, remaining, full_in_us = bucket.check(limit, state, now, cost, hits)
    if over ~= 0 or cost ~= TAKE then
      return over, taken, remaining, full_in_us
    end
    -- Until what is before it has gone on.
    local _, delay_us = bucket.left(limit, state and bucket.read(limit, state, now), now)
    if delay_us > limit.most_delay_us then
      _, taken, remaining, full_in_us = bucket.check(limit, state, now, PEEK, 0)
      return delay_us - limit.most_delay_us, taken, remaining, full_in_us
    end
    return delay_us > 0 and PASSES_NOW - delay_us or 0, taken, remaining, full_in_us
  end

  return {
    limit = limit,
    is_kept_by_limit = bucket.is_kept_by_limit,
    read = bucket.read,
    write = bucket.write,
    check = check,
    is_applied_if_refused = bucket.is_applied_if_refused,
    left = bucket.left,
    fresh_at = bucket.fresh_at,
  }
end
