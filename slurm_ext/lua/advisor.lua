-- The way to the advisor: one kept connection, one deadline for everything, and a rest after a
-- failure. A question that goes wrong costs its own user the rest; all users rest where the advisor
-- cannot be reached, or where questions of two users in a row went wrong. Every function raises a
-- one-line reason on failure; slurmctld holds locks meanwhile.

local advisor = {}
advisor.__index = advisor

local MAX_LINE = 64 * 1024
local MOST_USERS = 64 -- that rest on their own; one more, and all do

-- settings: socket (path), deadline_ms, breaker_s. `users`: when each user's question went wrong, by
-- uid; `suspect`: whose was the last one, if nobody had an answer since; `unreached`: whether the
-- advisor did not even take it.
function advisor.new(settings)
  local fields = { settings = settings, rests = 0, users = {}, unreached = false }
  return setmetatable(fields, advisor)
end

-- Whether less than a rest has passed since. A clock that steps, either way, ends the rest early,
-- which costs one deadline at most; it can never prolong it.
local function lately(since, rest_s)
  local passed = since and os.time() - since
  return passed ~= nil and passed >= 0 and passed < rest_s
end

-- Whether this user's jobs, or everybody's, are not asked about because of a failure a moment ago.
function advisor:resting(user)
  local rest_s = self.settings.breaker_s
  return lately(self.failed_at, rest_s) or lately(self.users[user], rest_s)
end

local function count_resting(users, rest_s)
  local count = 0
  for user, since in pairs(users) do
    if lately(since, rest_s) then count = count + 1 else users[user] = nil end
  end
  return count
end

-- Begins a rest after this user's question went wrong; true if it is everybody's.
function advisor:rest(user)
  self:hang_up()
  self.rests = self.rests + 1
  local all = self.unreached or (self.suspect ~= nil and self.suspect ~= user)
  self.unreached = false
  if all or count_resting(self.users, self.settings.breaker_s) >= MOST_USERS then
    self.failed_at, self.users, self.suspect = os.time(), {}, nil
    return true
  end
  self.users[user], self.suspect = os.time(), user
  return false
end

-- To be called when an answer served its job: the advisor does well.
function advisor:served()
  self.suspect = nil
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

-- Connects to the socket that users may not use, else to the one that all may.
function advisor:connect(clock)
  local unix = require("socket.unix") -- a table, or in old releases the constructor itself
  local done, why
  for _, ending in ipairs({ ".submit", "" }) do
    self.connection = check((type(unix) == "table" and unix.stream or unix)())
    hurry(self.connection, clock)
    done, why = self.connection:connect(self.settings.socket .. ending)
    if done then return end
    self:hang_up()
  end
  check(done, why)
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

-- The advisor's answer to one request, within the deadline from now.
function advisor:ask(line)
  self.unreached = true
  local now = require("socket.core").gettime -- loading it also makes SIGPIPE harmless
  local budget = self.settings.deadline_ms / 1000
  local clock = { now = now, budget = budget, ends = now() + budget }
  if self.connection and not quiet(self.connection) then self:hang_up() end
  if not self.connection then self:connect(clock) end
  hurry(self.connection, clock)
  check(self.connection:send(line))
  self.unreached = false
  return read_line(self.connection, clock)
end

return advisor
