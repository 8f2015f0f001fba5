-- JSON in linear time and bounded depth, for lines that one side of a socket hands the other.
-- Patterns here are single classes or anchored runs that cannot backtrack: a hostile text costs
-- its length and no more. Invalid UTF-8 passes through as bytes. Lua 5.1 to 5.4.

local json = { null = {} } -- null stands apart from nil, so that arrays keep their length

local MAX_DEPTH = 8
local byte, char, concat, find = string.byte, string.char, table.concat, string.find
local floor, format, match, sub = math.floor, string.format, string.match, string.sub

local function fail(why, at)
  error("not JSON: " .. why .. " at byte " .. at, 0)
end

-- Encoding ---------------------------------------------------------------------------------

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\" }
for code = 0, 31 do
  ESCAPES[char(code)] = format("\\u%04x", code)
end

local function quoted(text)
  return '"' .. text:gsub('["\\%z\1-\31]', ESCAPES) .. '"'
end

local function integer(value)
  if value % 1 ~= 0 then -- also infinity and NaN
    error("cannot encode the number " .. tostring(value), 0)
  end
  return format("%.0f", value) -- Lua 5.3 would print 4.0
end

local encode

local function array(items)
  local parts = {}
  for i, item in ipairs(items) do
    parts[i] = encode(item)
  end
  return "[" .. concat(parts, ",") .. "]"
end

local function object(members)
  local parts = {}
  for name, value in pairs(members) do
    parts[#parts + 1] = quoted(name) .. ":" .. encode(value)
  end
  return "{" .. concat(parts, ",") .. "}"
end

local ENCODERS = {
  string = quoted,
  number = integer,
  boolean = tostring,
  table = function(value)
    if value == json.null then return "null" end
    return value[1] ~= nil and array(value) or object(value)
  end,
}

-- The text of a string, integer, boolean, json.null, array or object (empty tables are objects).
function encode(value)
  return ENCODERS[type(value)](value)
end

json.encode = encode

-- Decoding: each reader takes the text and a position, and returns a value and the next position.

local SIMPLE = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }
local REPLACEMENT = 0xFFFD -- for half a surrogate pair, which no UTF-8 can hold

local function utf8_bytes(code)
  if code < 0x80 then return char(code) end
  local tail = char(0x80 + code % 64)
  code = floor(code / 64)
  if code < 0x20 then return char(0xC0 + code) .. tail end
  tail = char(0x80 + code % 64) .. tail
  code = floor(code / 64)
  if code < 0x10 then return char(0xE0 + code) .. tail end
  return char(0xF0 + floor(code / 64), 0x80 + code % 64) .. tail
end

local function unit(text, at)
  return tonumber(match(text, "^\\u(%x%x%x%x)", at) or "", 16)
end

local function code_point(text, at)
  local high = unit(text, at) or fail("a bad escape", at)
  if high < 0xD800 or high > 0xDFFF then return utf8_bytes(high), at + 6 end
  local low = high < 0xDC00 and unit(text, at + 6)
  if not low or low < 0xDC00 or low > 0xDFFF then return utf8_bytes(REPLACEMENT), at + 6 end
  return utf8_bytes(0x10000 + (high - 0xD800) * 0x400 + low - 0xDC00), at + 12
end

local function escape(text, at)
  local simple = SIMPLE[sub(text, at + 1, at + 1)]
  if simple then return simple, at + 2 end
  return code_point(text, at)
end

local function read_string(text, at)
  local parts, from = {}, at + 1
  while true do
    local stop = find(text, '["\\%z\1-\31]', from) or fail("an open string", at)
    parts[#parts + 1] = sub(text, from, stop - 1)
    local what = byte(text, stop)
    if what == 34 then return concat(parts), stop + 1 end
    if what ~= 92 then fail("a control byte", stop) end
    parts[#parts + 1], from = escape(text, stop)
  end
end

local function read_number(text, at)
  local stop = match(text, "^-?0()", at) or match(text, "^-?[1-9]%d*()", at) or fail("a bad value", at)
  stop = match(text, "^%.%d+()", stop) or stop
  stop = match(text, "^[eE][+-]?%d+()", stop) or stop
  return tonumber(sub(text, at, stop - 1)), stop
end

local function skip(text, at)
  return match(text, "^[ \t\r\n]*()", at)
end

-- The position after the comma that follows an item, or nil and the position after `close`.
local function more(text, at, close)
  at = skip(text, at)
  local what = sub(text, at, at)
  if what == "," then return skip(text, at + 1) end
  if what ~= close then fail("neither , nor " .. close, at) end
  return nil, at + 1
end

local read

local function read_array(text, at, depth)
  local items, next_at = {}, skip(text, at + 1)
  if sub(text, next_at, next_at) == "]" then return items, next_at + 1 end
  while next_at do
    items[#items + 1], at = read(text, next_at, depth)
    next_at, at = more(text, at, "]")
  end
  return items, at
end

local function read_object(text, at, depth)
  local members, next_at = {}, skip(text, at + 1)
  if sub(text, next_at, next_at) == "}" then return members, next_at + 1 end
  while next_at do
    if byte(text, next_at) ~= 34 then fail("no member name", next_at) end
    local name
    name, at = read_string(text, next_at)
    at = skip(text, at)
    if sub(text, at, at) ~= ":" then fail("no colon", at) end
    members[name], at = read(text, skip(text, at + 1), depth)
    next_at, at = more(text, at, "}")
  end
  return members, at
end

local WORDS = { t = { "true", true }, f = { "false", false }, n = { "null", json.null } }

local function read_word(text, at, word)
  if sub(text, at, at + #word[1] - 1) ~= word[1] then fail("a bad word", at) end
  return word[2], at + #word[1]
end

local NESTED = { ["{"] = read_object, ["["] = read_array }

function read(text, at, depth)
  local first = sub(text, at, at)
  if first == '"' then return read_string(text, at) end
  if WORDS[first] then return read_word(text, at, WORDS[first]) end
  local nested = NESTED[first]
  if not nested then return read_number(text, at) end
  if depth >= MAX_DEPTH then fail("nested too deep", at) end
  return nested(text, at, depth + 1)
end

-- The value of a whole JSON text. Raises a one-line reason that quotes nothing of the text.
function json.decode(text)
  local value, at = read(text, skip(text, 1), 0)
  at = skip(text, at)
  if at <= #text then fail("more after the end", at) end
  return value
end

return json
