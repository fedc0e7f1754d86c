-- How long something lasts, and on which steps of time it ends: src/lease/term.rs in Lua.

local TERM_STEPS = 32

local function step_us(term_us)
  local _, power = math.frexp(math.floor(term_us / TERM_STEPS))
  return 2 ^ math.max(power - 1, 0)
end

-- When it ends if it begins, or is renewed, now.
local function deadline_of(term_us, now)
  local step = step_us(term_us)
  return math.ceil((now + term_us) / step) * step
end
