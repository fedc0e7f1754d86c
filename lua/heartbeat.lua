-- Says that a process is there, and hears how many are: the only thing that processes tell each other of
-- themselves. What is kept is `epoch`, a number drawn when nothing stood there, and so another one after
-- all states were lost; and for each process a row of its number and its deadline.
--
-- KEYS[1]  Where they are counted.
-- ARGV[1]  A row of little-endian doubles:
--            id        the process's number
--            epoch     what to call the epoch, if one begins
--            ttl_us    how long the process counts unless it is heard of again
--
-- The reply is four whole numbers: 0, and
--            epoch
--            processes that are there
--            known     the deadline that stood there of this one; 0 where none did
--            deadline  that stands there now
-- or, where the key held something else, 1 alone: then the key has been deleted.

local DAY_US = 86400000000
local MOST = 10000

-- The epoch in a string, nil where it is nothing of the kind.
local function read_epoch(text)
  if type(text) ~= 'string' or #text % 16 ~= 8 then
    return nil
  end
  local epoch = struct.unpack('<d', text)
  return is_count(epoch) and epoch or nil
end

local now = now_us()
local id, epoch, ttl_us = struct.unpack('<ddd', ARGV[1])
local text = get(KEYS[1])
if text then
  epoch = read_epoch(text)
  if not epoch then
    delete(KEYS[1])
    return { 1 }
  end
end
local deadline = now + ttl_us
local rows, known = { struct.pack('<ddd', epoch, id, deadline) }, 0
for at = 9, text and #text or 0, 16 do
  local other, until_us = struct.unpack('<dd', text, at)
  if other == id then
    known = until_us
  -- One that lies too far ahead was written under another clock.
  elseif until_us > now and until_us <= now + 2 * ttl_us and #rows < MOST then
    rows[#rows + 1] = struct.pack('<dd', other, until_us)
  end
end
keep(KEYS[1], table.concat(rows), now + DAY_US, text, now, 0)
return { 0, epoch, #rows, known, deadline }
