-- Decides requests, one after the other, and all of them as one atomic step. Each reads everything, decides
-- everything, settles its verdict, and writes everything, before the next begins, which finds what it has left.
--
-- KEYS[n]  The states that the requests are about: those of the first, then those of the second, and so on. In one
--          request no key stands twice. Where it takes a lease, its last key is that of the lease's record.
-- ARGV[1]  The limits that are checked, each once or oftener, in little-endian doubles:
--            limiter  its number: its place among the limiters, the rates being first
--          and what the limiter's `limit` reads.
-- ARGV[2]  The requests, in little-endian doubles. One that is a single check of a rate:
--            alone    -1
--            limit    the place of its limit in ARGV[1]
--            cost     0 takes, 1 peeks, 2 gives back
--            amount   so much, at most 2^53
--          It has one key. Any other:
--            keys     how many of them are its own
--            checks   how many
--            lease    how many bytes say of its lease what lua/lease/record.lua tells; 0 where it takes none
--            apart    1 where each check is one of a rate, none is settled whatever else the request meets, and each has
--                     a key of its own, in order; else 0
--          for each check
--            slot     the place of its state among the request's own keys
--            limit, cost, amount
--            mode     0, plus 1 in shadow mode, plus 2 in quota mode
--            told_by  the place of the key that tells the limit what workers report; 0 where it takes none
--          and the lease's bytes.
--
-- The reply is an array. First in it is a string of little-endian doubles:
--            now         microseconds since 1970
-- then for each request that was decided: where it takes a lease,
--            leased      microseconds until the lease's deadline; 0 where there is none, -1 where its id is
--                        held for another request, and -2 less that time where it was held for this one
--                        already
--          and for each check
--            over        microseconds until it would pass; 0 where it does, -1 where it never will; below that it does, and
--                        the request is to go on after -1 less that many microseconds
--            remaining
--            full_in_us
-- Second is a string of doubles for each request that was not:
--            request     its place
--            slot        which of its own keys held what is no state of its limiter: it has been deleted, so that it
--                        is in nobody's way any more, and nothing else written. 0 where it met an error, and may
--                        have written half of what it had to; that is the next in the reply then.
-- What befalls one request befalls no other.
--
-- Before it, `make_rate` makes a rate by its number, and is nil for any other limiter. What tells a rate from those: its
-- state is the string that is stored, so that `check` takes what stands under a key, and returns nothing where that is
-- no state; a state is as good as new once `full_in_us` have passed; and a peek takes nothing, and says what is left.

local pack, unpack = struct.pack, struct.unpack
local ALONE = -1
local NEVER = -1
local PEEK = 1
local ENFORCED = 0
local CHECK_BYTES = 48

local now = now_us()
-- By place in ARGV[1]: the limits, and whose they are.
local limits, limiters = {}, {}
-- What is made when it is first needed: to make it costs more than to decide a request.
local settlement, settle, makers
-- The place of the request that is being decided; where in ARGV[2] the next one begins, and behind how many keys its own.
local request, at, first_key = 0, 1, 0
-- Of checks apart from each other: what checks what, what was stored, and what comes of it.
local checked, checking, texts, overs, states, lefts, fulls = {}, {}, {}, {}, {}, {}, {}
-- What is told of those that were decided, and of those that were not; and the reply that it will be in.
local told, not_decided, reply = { pack('<d', now) }, {}, { '', '' }

local function need_others()
  if not settlement then
    settlement, makers = others()
  end
end

local function read_limits(arguments)
  local made, at = {}, 1
  while at <= #arguments do
    local number, limit
    number, at = unpack('<d', arguments, at)
    local limiter = made[number] or make_rate(number)
    if not limiter then
      need_others()
      limiter = makers[number]()
    end
    made[number] = limiter
    limit, at = limiter.limit(arguments, at)
    limits[#limits + 1], limiters[#limiters + 1] = limit, limiter
  end
end

-- Stores what a rate's state has become. As soon as the limit is full the state is as good as new. One that has not
-- changed is kept for as long as this limit tells it from a new one: another may have stored it, and have needed less.
local function store(key, state, full_in_us, text)
  if state and state ~= text then
    keep(key, state, full_in_us > 0 and now + full_in_us or 0, text, now, 0)
  elseif text and full_in_us > 0 then
    keep_longer(key, text, now + full_in_us, now)
  end
end

-- A single check of a rate. There is nothing to settle: what it says is what becomes of the request. Returns
-- the slot of its key where that holds no state.
local function check_alone(key, number, cost, amount)
  local text = get(key)
  local over, state, remaining, full_in_us = limiters[number].check(limits[number], text, now, cost, amount)
  if not over then
    delete(key)
    return 1
  end
  store(key, state, full_in_us, text)
  if over ~= 0 and over >= NEVER then
    remaining = 0
  end
  told[#told + 1] = pack('<ddd', over, remaining, full_in_us)
end

-- Checks of rates apart from each other, of which none is settled whatever else the request meets. Where all pass there is
-- nothing to settle either, and where one that is enforced does not, nothing is taken. Returns whether it is one of these:
-- else nothing was done.
local function check_apart(requests, at, before, count)
  local is_over, is_refused = false, false
  for place = 1, count do
    local _, number, cost, amount, mode = unpack('<ddddd', requests, at)
    local limit, check, text = limits[number], limiters[number].check, get(KEYS[before + place])
    local over, state, remaining, full_in_us = check(limit, text, now, cost, amount)
    if not over then
      return false
    end
    if over ~= 0 and over >= NEVER then
      is_over, is_refused, remaining = true, is_refused or mode == ENFORCED, 0
    end
    checked[place], checking[place], texts[place] = check, limit, text
    overs[place], states[place], lefts[place], fulls[place] = over, state, remaining, full_in_us
    at = at + CHECK_BYTES
  end
  if is_over and not is_refused then
    return false
  end
  for place = 1, count do
    if is_refused and (overs[place] == 0 or overs[place] < NEVER) then
      -- It is as if nobody had asked.
      local _
      overs[place] = 0
      _, states[place], lefts[place], fulls[place] =
        checked[place](checking[place], texts[place], now, PEEK, 0)
    end
    store(KEYS[before + place], states[place], fulls[place], texts[place])
  end
  for place = 1, count do
    told[#told + 1] = pack('<ddd', overs[place], lefts[place], fulls[place])
  end
  return true
end

-- Any other request.
local function check_all(requests, keys, checks, lease_length, apart)
  local checks_at, before = at, first_key
  at, first_key = at + checks * CHECK_BYTES + lease_length, first_key + keys
  if apart == 1 and check_apart(requests, checks_at, before, checks) then
    return nil
  end
  if not settle then
    need_others()
    settle = settlement(limits, limiters, now)
  end
  return settle(requests, checks_at, before, checks, lease_length, told)
end

-- Decides one after the other, as far as none meets an error.
local function decide(requests)
  while at <= #requests do
    local keys, limit_or_checks, cost_or_length, amount_or_apart
    keys, limit_or_checks, cost_or_length, amount_or_apart, at = unpack('<dddd', requests, at)
    request = request + 1
    local unreadable
    if keys == ALONE then
      first_key = first_key + 1
      unreadable = check_alone(KEYS[first_key], limit_or_checks, cost_or_length, amount_or_apart)
    else
      unreadable = check_all(requests, keys, limit_or_checks, cost_or_length, amount_or_apart)
    end
    if unreadable then
      not_decided[#not_decided + 1] = pack('<dd', request, unreadable)
    end
  end
end

-- What an error says. Redis before 7 gives it as a string, which begins with where it was met.
local function words(error)
  local text = type(error) == 'table' and error.err or tostring(error)
  text = string.gsub(text, '^@?user_script: ?%d+: ', '')
  text = string.gsub(text, '^%-', '')
  return string.find(text, '^%u+ ') and text or 'ERR ' .. text
end

if #KEYS > 1 then
  read_ahead(KEYS)
end
read_limits(ARGV[1])
while at <= #ARGV[2] do
  local begun = request
  local is_done, met = pcall(decide, ARGV[2])
  if not is_done then
    -- What cannot be read is no request of ours, and would never end.
    assert(request > begun, 'the requests cannot be read')
    not_decided[#not_decided + 1] = pack('<dd', request, 0)
    reply[#reply + 1] = { err = words(met) }
  end
end
reply[1], reply[2] = table.concat(told), table.concat(not_decided)
return reply
