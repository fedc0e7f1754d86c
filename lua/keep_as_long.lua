-- Keeps another string for as long as what was there would have been.
local function keep_as_long(key, text)
  redis.call('SET', key, text, 'KEEPTTL')
  known[key] = text
end
