-- The way to the advisor: one kept connection, one deadline for everything, and a rest after a
-- failure. Every function raises a one-line reason on failure; slurmctld holds locks meanwhile.

local advisor = {}
advisor.__index = advisor

local MAX_LINE = 64 * 1024

-- settings: socket (path), deadline_ms, breaker_s.
function advisor.new(settings)
  return setmetatable({ settings = settings, connection = nil, failed_at = nil, rests = 0 }, advisor)
end

-- Whether the advisor is left alone because it failed a moment ago. A clock that steps, either
-- way, ends the rest early, which costs one deadline at most; it can never prolong it.
function advisor:resting()
  local since = self.failed_at and os.time() - self.failed_at
  return since ~= nil and since >= 0 and since < self.settings.breaker_s
end

function advisor:rest()
  self:hang_up()
  self.failed_at, self.rests = os.time(), self.rests + 1
end

function advisor:hang_up()
  if self.connection then self.connection:close() end
  self.connection = nil
end

-- Sets what is left of the deadline for the next operation, for each wait and in total.
local function hurry(connection, clock)
  local left = math.min(clock.ends - clock.now(), clock.budget) -- min: the clock may step back
  if left <= 0 then error("did not answer in time", 0) end
  connection:settimeout(left, "b")
  connection:settimeout(left, "t")
end

local function check(value, why)
  if not value then error(why == "timeout" and "did not answer in time" or tostring(why), 0) end
  return value
end

-- A connection on which nobody speaks: anything else is closed, or out of step with our requests.
local function quiet(connection)
  connection:settimeout(0, "b")
  local _, why = connection:receive(1)
  return why == "timeout"
end

function advisor:connect(clock)
  local unix = require("socket.unix") -- a table, or in old releases the constructor itself
  self.connection = check((type(unix) == "table" and unix.stream or unix)())
  hurry(self.connection, clock)
  check(self.connection:connect(self.settings.socket))
end

-- What has arrived, waiting for its first byte only: "*l" would read a line without end.
local function arrived(connection, clock)
  hurry(connection, clock)
  local first = check(connection:receive(1))
  connection:settimeout(0, "b")
  local whole, _, part = connection:receive(MAX_LINE)
  return first .. (whole or part)
end

local function read_line(connection, clock)
  local parts, size, stop = {}, 0, nil
  repeat
    local part = arrived(connection, clock)
    size = size + #part
    if size > MAX_LINE then error("answered too much", 0) end
    parts[#parts + 1], stop = part, part:find("\n", 1, true)
    if stop and stop < #part then error("answered more than one line", 0) end
  until stop
  return table.concat(parts)
end

-- The advisor's answer to one request line, within the deadline from now.
function advisor:ask(line)
  local now = require("socket.core").gettime -- loading it also makes SIGPIPE harmless
  local budget = self.settings.deadline_ms / 1000
  local clock = { now = now, budget = budget, ends = now() + budget }
  if self.connection and not quiet(self.connection) then self:hang_up() end
  if not self.connection then self:connect(clock) end
  hurry(self.connection, clock)
  check(self.connection:send(line))
  return read_line(self.connection, clock)
end

return advisor
