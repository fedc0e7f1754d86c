-- The states of slots that a lease holds, as they change: `Slotted` of src/release.rs in Lua. Their keys
-- stand in the lease's record.

local function slotted(now)
  local slots = in_flight()
  local texts, states, changed = {}, {}, {}

  local function stored(key)
    if texts[key] == nil then
      texts[key] = get(key) or false
      states[key] = slots.read(texts[key])
    end
    return changed[key] or states[key]
  end

  -- What is in flight under a hold's key, and is still what the slots were taken of; nil where it is not.
  local function find(hold)
    local live = stored(hold.key) and slots.live(stored(hold.key), now)
    return live and live.since == hold.since and live or nil
  end

  local function give_back(hold, deadline)
    local state = find(hold)
    if state then
      slots.remove(state, deadline, hold.critical, hold.others)
      changed[hold.key] = state
    end
  end

  -- Whether the slots were there to be moved.
  local function move(hold, deadline, to)
    local state = find(hold)
    if not state or not slots.has(state, deadline, hold.critical, hold.others) then
      return false
    end
    slots.remove(state, deadline, hold.critical, hold.others)
    slots.add(state, to, hold.critical, hold.others)
    changed[hold.key] = state
    return true
  end

  local function forget()
    changed = {}
  end

  -- Stores what has changed. Returns which keys those are.
  local function write()
    local written = {}
    for key, state in pairs(changed) do
      keep(key, slots.write(state), slots.empty_at(state), texts[key], now, 0)
      written[#written + 1] = key
    end
    return written
  end

  local function announce(keys)
    for _, key in ipairs(keys) do
      redis.call('PUBLISH', key, '')
    end
  end

  return { give_back = give_back, move = move, forget = forget, write = write, announce = announce }
end
