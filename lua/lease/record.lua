-- The record of a lease: what stands under its id.
--
-- src/lease/record.rs in Lua, name by name; what entries mean is told there.
--
-- Under its key, for each entry, the oldest first, in little-endian:
--   kind              a byte: 0 held, 1 nothing, 2 early, 3 released
--   repeated          a byte: 1 where a lease was asked for again, else 0
--   deadline          a double: when it ends, in microseconds since 1970
--   term_us           a double: how long a renewal lasts
--   attempt           a double: whose it is, 0 of nobody
--   fingerprint       a byte that says how long it is, 16 or 0, and the bytes
--   holds             two bytes that say how many, and for each
--     since           a double: when the state had begun
--     critical, others  doubles: how many slots
--     key             two bytes that say how long it is, and the bytes
--
-- What a request says of the lease under which it takes what it takes, a `taking`:
--   slot              a double: the place of the record among KEYS
--   by                a double: 0 the server's id, 1 the caller's, 2 the request's
--   term_us           a double: how long the lease lasts
--   attempt           a double: which of the calls that may take under this id
--   fingerprint       16 bytes, or none

local function record()
  local pack, unpack = struct.pack, struct.unpack
  local HELD, NOTHING, EARLY, RELEASED = 0, 1, 2, 3
  local BY_CALLER, BY_REQUEST = 1, 2
  local NOBODY = 0
  -- What is to be released.
  local LAST, LAST_WITH_MARK, UNTOLD = 0, 1, 2
  local MARK_US = 10000000
  local MOST_ENTRIES = 64
  -- What a release or a renewal found.
  local LIVE, EXPIRED, ALREADY_GONE, LOST = 1, 2, 3, 4

  local function read_taking(arguments)
    local slot, by, term_us, attempt, at = unpack('<dddd', arguments)
    local fingerprint = string.sub(arguments, at)
    return { slot = slot, by = by, term_us = term_us, attempt = attempt, fingerprint = fingerprint }
  end

  local function parse(text)
    local entries, at = {}, 1
    while at <= #text do
      local kind, repeated, deadline, term_us, attempt, fingerprint, length
      kind, repeated, deadline, term_us, attempt, length, at = unpack('<BBdddB', text, at)
      fingerprint, at = string.sub(text, at, at + length - 1), at + length
      local count
      count, at = unpack('<H', text, at)
      local holds = {}
      for place = 1, count do
        local since, critical, others, key
        since, critical, others, length, at = unpack('<dddH', text, at)
        key, at = string.sub(text, at, at + length - 1), at + length
        holds[place] = { since = since, critical = critical, others = others, key = key }
        assert(is_count(since) and is_count(critical) and is_count(others) and #key == length)
      end
      assert(kind <= RELEASED and is_count(deadline) and is_count(term_us) and term_us > 0)
      assert(repeated <= 1 and is_count(attempt) and (#fingerprint == 0 or #fingerprint == 16))
      entries[#entries + 1] = {
        kind = kind,
        repeated = repeated,
        deadline = deadline,
        term_us = term_us,
        attempt = attempt,
        fingerprint = fingerprint,
        holds = holds,
      }
    end
    assert(#entries > 0)
    return entries
  end

  -- The entries in a string, nil where they are none.
  local function read(value)
    if type(value) ~= 'string' then
      return nil
    end
    local is_read, entries = pcall(parse, value)
    return is_read and entries or nil
  end

  local function kept_until(entry)
    return entry.deadline + (entry.kind == HELD and MARK_US or 0)
  end

  local function current(entries, now)
    local current = {}
    for _, entry in ipairs(entries or {}) do
      if kept_until(entry) > now then
        current[#current + 1] = entry
      end
    end
    return current
  end

  -- What of the record under a key still means something, and the string that it is; nil where the key held
  -- something else, which has been deleted.
  local function open(key, now)
    local text = get(key)
    local entries = text and read(text)
    if text and not entries then
      delete(key)
      return nil, nil
    end
    return current(entries, now), text
  end

  local function write(entries)
    local texts = {}
    for _, entry in ipairs(entries) do
      texts[#texts + 1] =
        pack('<BBddd', entry.kind, entry.repeated, entry.deadline, entry.term_us, entry.attempt)
      texts[#texts + 1] = pack('<B', #entry.fingerprint)
      texts[#texts + 1] = entry.fingerprint
      texts[#texts + 1] = pack('<H', #entry.holds)
      for _, hold in ipairs(entry.holds) do
        texts[#texts + 1] = pack('<dddH', hold.since, hold.critical, hold.others, #hold.key)
        texts[#texts + 1] = hold.key
      end
    end
    return table.concat(texts)
  end

  local function is_live(entry, now)
    return entry.kind == HELD and entry.deadline > now
  end

  -- 0 where it means nothing now.
  local function fresh_at(entries)
    local last = 0
    for _, entry in ipairs(entries) do
      last = math.max(last, kept_until(entry))
    end
    return last
  end

  -- Stores what has changed. Many leases that were taken at once are over at once, and Redis would stop to
  -- delete their records all together: so each is kept a while longer, up to ten seconds, as chance has it.
  local function keep_record(key, entries, before, now)
    local text = write(entries)
    if text ~= (before or '') then
      keep(key, text, fresh_at(entries), before, now, now % 1000 * 10)
    end
  end

  -- The place of the last entry of which something holds, nil where there is none.
  local function last(entries, holds)
    for place = #entries, 1, -1 do
      if holds(entries[place]) then
        return place
      end
    end
  end

  local function push(entries, entry)
    if #entries >= MOST_ENTRIES then
      table.remove(entries, 1)
    end
    entries[#entries + 1] = entry
  end

  local function mark(kind, attempt, now)
    return {
      kind = kind,
      repeated = 0,
      deadline = now + MARK_US,
      term_us = MARK_US,
      attempt = attempt,
      fingerprint = '',
      holds = {},
    }
  end

  local function has(entries, kind)
    return last(entries, function(entry)
      return entry.kind == kind
    end)
  end

  -- The place of a release that came before its acquire, nil where there is none.
  local function early(entries, taking)
    for place, entry in ipairs(entries) do
      local is_anybodys = entry.attempt == NOBODY and taking.by == BY_REQUEST
      if entry.kind == EARLY and (entry.attempt == taking.attempt or is_anybodys) then
        return place
      end
    end
  end

  -- What an acquire finds: 'same' with the deadline, 'other', 'early', or nil.
  local function find(entries, taking, now)
    if early(entries, taking) then
      return 'early'
    elseif taking.by ~= BY_CALLER then
      return nil
    end
    local place = last(entries, function(entry)
      return is_live(entry, now)
    end)
    if not place then
      return nil
    elseif entries[place].fingerprint == taking.fingerprint then
      return 'same', entries[place].deadline
    end
    return 'other'
  end

  local function take_nothing(entries, taking, now)
    if taking.by == BY_REQUEST then
      push(entries, mark(NOTHING, NOBODY, now))
    end
  end

  -- Returns the entries then, and microseconds until the lease's deadline, 0 where there is none.
  local function take(entries, taking, holds, now)
    if #holds == 0 and #taking.fingerprint == 0 then
      take_nothing(entries, taking, now)
      return entries, 0
    end
    if taking.by == BY_CALLER then
      local others = entries
      entries = {}
      for _, entry in ipairs(others) do
        if entry.kind == EARLY then
          entries[#entries + 1] = entry
        end
      end
    end
    local deadline = deadline_of(taking.term_us, now)
    push(entries, {
      kind = HELD,
      repeated = 0,
      deadline = deadline,
      term_us = taking.term_us,
      attempt = taking.attempt,
      fingerprint = taking.fingerprint,
      holds = holds,
    })
    return entries, deadline - now
  end

  local function take_early(entries, taking)
    table.remove(entries, early(entries, taking))
  end

  local function repeat_lease(entries, taking, now)
    local place = last(entries, function(entry)
      return is_live(entry, now)
    end)
    entries[place].attempt = taking.attempt
    entries[place].repeated = 1
  end

  -- The place of what was taken last and is still to be released, nil where there is none.
  local function last_taken(entries, now)
    return last(entries, function(entry)
      return is_live(entry, now) or entry.kind == NOTHING
    end) or has(entries, HELD)
  end

  -- Returns what it was, and the entry to be given back, nil where there is none.
  local function release(entries, what, attempt, now)
    local place
    if what == LAST or what == LAST_WITH_MARK then
      place = last_taken(entries, now)
    else
      place = last(entries, function(entry)
        return entry.kind == HELD and entry.attempt == attempt
      end)
    end
    if not place then
      if what == UNTOLD then
        push(entries, mark(EARLY, attempt, now))
      elseif what == LAST_WITH_MARK and not has(entries, RELEASED) then
        push(entries, mark(EARLY, NOBODY, now))
      end
      return ALREADY_GONE, nil
    end
    if what == UNTOLD and entries[place].repeated == 1 then
      return ALREADY_GONE, nil
    end
    local entry = table.remove(entries, place)
    if entry.kind == NOTHING then
      return ALREADY_GONE, nil
    end
    if #entry.fingerprint > 0 then
      push(entries, mark(RELEASED, NOBODY, now))
    end
    if is_live(entry, now) then
      return LIVE, entry
    end
    return EXPIRED, nil
  end

  -- Returns the lease's entry, and its place; or nil, and why there is none.
  local function held(entries, now)
    local place = last(entries, function(entry)
      return is_live(entry, now)
    end)
    if place then
      return entries[place], place
    elseif has(entries, HELD) then
      return nil, EXPIRED
    elseif has(entries, RELEASED) then
      return nil, ALREADY_GONE
    end
    return nil, LOST
  end

  return {
    LIVE = LIVE,
    LOST = LOST,
    read_taking = read_taking,
    open = open,
    keep = keep_record,
    find = find,
    take = take,
    take_nothing = take_nothing,
    take_early = take_early,
    repeat_lease = repeat_lease,
    release = release,
    held = held,
  }
end
