-- What a reply may change, checked before anything is touched, then applied as a whole or not at
-- all. The white list stands here and not with the advisor: writing some other fields crashes
-- slurmctld 22.05 (`extra`) or gets the job rejected.

local json = ...

local edits = {}

local VERSION = 1
local MAX_MESSAGE, MAX_VALUE = 1000, 256
local CPUS = { "cpus_per_task", "min_cpus", "pn_min_cpus" } -- move together, or jobs pend for ever
local MEMORY = { "min_mem_per_cpu", "min_mem_per_node" } -- one storage in Slurm: either, not both
local LARGEST = {
  cpus_per_task = 65533, pn_min_cpus = 65533, min_cpus = 2 ^ 31 - 1,
  min_mem_per_cpu = 2 ^ 40, min_mem_per_node = 2 ^ 40, -- MiB; 0 would mean the whole node's
}
local COUNTS = {
  SLURM_CPUS_PER_TASK = true, SRUN_CPUS_PER_TASK = true,
  SLURM_MEM_PER_CPU = true, SLURM_MEM_PER_NODE = true,
}
-- A part of a GPU instead of the whole one. What asked for the whole one is emptied with it: these
-- fields, and the variables that would have a step of the job ask for it again.
local EMPTIED = { "tres_per_job", "tres_per_task", "tres_bind" }
local TEXTS = {
  gres = { "^mps:[1-9]%d*$", "^shard:[1-9]%d*$" }, prefer = { "^[%w_.-]+$" },
  tres_per_job = { "^$" }, tres_per_task = { "^$" }, tres_bind = { "^$" },
}
local STALE = { SLURM_GPUS = true, SLURM_GPUS_PER_NODE = true, SLURM_GPUS_PER_TASK = true }
local MAX_TEXT = 64

local function refuse(why)
  error("answered what is not allowed: " .. why, 0)
end

local function check_text(name, value)
  local fits = false
  for _, pattern in ipairs(TEXTS[name]) do
    fits = fits or (type(value) == "string" and #value <= MAX_TEXT and value:find(pattern) ~= nil)
  end
  if not fits then refuse(name .. " of another form") end
end

local function check_field(name, value)
  if TEXTS[name] then return check_text(name, value) end
  local largest = LARGEST[name] or refuse("a field off the white list")
  if type(value) ~= "number" or value % 1 ~= 0 or value < 1 or value > largest then
    refuse(name .. " out of range")
  end
end

local function check_variable(name, value)
  if type(value) ~= "string" or #value > MAX_VALUE or value:find("[^ -~]") then
    refuse("a variable that is not short plain text")
  elseif STALE[name] then
    if value ~= "" then refuse(name .. " may only be emptied") end
  elseif COUNTS[name] then
    if not value:find("^[1-9]%d*$") or #value > 12 then refuse(name .. " is not a count") end
  elseif #name > 64 or not name:find("^DLQUEUE_[A-Z_]+$") then
    refuse("a variable off the white list")
  end
end

local function check_together(fields)
  for _, name in ipairs(CPUS) do
    if (fields[name] == nil) ~= (fields[CPUS[1]] == nil) then refuse("only some of the CPU fields") end
  end
  if fields[MEMORY[1]] and fields[MEMORY[2]] then refuse("two kinds of memory") end
  for _, name in ipairs(EMPTIED) do
    if fields[name] and not fields.gres then refuse("a GPU taken away") end
  end
end

-- Each is of one task, and the job has one at least.
local function check_counts(fields)
  local least = math.max(fields.cpus_per_task or 1, fields.pn_min_cpus or 1)
  if fields.min_cpus and fields.min_cpus < least then refuse("fewer CPUs than a task has") end
end

local function check_stale(fields, variables)
  for name in pairs(STALE) do
    if variables[name] and not fields.gres then refuse("a GPU forgotten") end
  end
end

local function check_edits(fields)
  for name, value in pairs(fields) do
    if name ~= "env" then check_field(name, value) end
  end
  check_together(fields)
  check_counts(fields)
  local variables = fields.env == nil and {} or fields.env
  if type(variables) ~= "table" or variables == json.null then refuse("env is not an object") end
  for name, value in pairs(variables) do
    check_variable(tostring(name), value)
  end
  check_stale(fields, variables)
  return variables
end

-- The order decides what an undo can meet. Neither memory nor Slurm's own variables can be unset
-- again (writing "unset" back asks for a whole node's memory; an empty count stops srun), so they
-- are written last, when all else is known to have taken.
local function in_order(fields, variables)
  local writes = {}
  local function add(name, value, env)
    if value ~= nil then writes[#writes + 1] = { name = name, value = value, env = env } end
  end
  local function add_variables(counts)
    for name, value in pairs(variables) do
      if (COUNTS[name] or false) == counts then add(name, value, true) end
    end
  end
  for _, name in ipairs(CPUS) do add(name, fields[name]) end
  for _, name in ipairs(EMPTIED) do add(name, fields[name]) end
  add("gres", fields.gres)
  add("prefer", fields.prefer)
  add_variables(false)
  for _, name in ipairs(MEMORY) do add(name, fields[name]) end
  add_variables(true)
  return writes
end

-- One printable ASCII line: no terminal escape, no second line that looks like Slurm's.
local function one_line(message)
  if message == nil or message == json.null then return nil end
  if type(message) ~= "string" then refuse("a message that is not text") end
  local clean = message:gsub("[^ -~]+", "?"):sub(1, MAX_MESSAGE)
  return clean ~= "" and clean or nil
end

-- A reply line as the list of writes and the message for the user (nil: none). Top-level members
-- that the wire does not name are for people's commands and are ignored.
function edits.from_reply(line)
  local reply = json.decode(line)
  if type(reply) ~= "table" or reply.v ~= VERSION then refuse("another version") end
  local decision, fields = reply.decision, reply.edits
  if type(decision) ~= "string" and decision ~= json.null then refuse("decision is not a token") end
  if type(fields) ~= "table" or fields == json.null then refuse("edits is not an object") end
  return in_order(fields, check_edits(fields)), one_line(reply.message)
end

-- What restores the job to what it was before `write`; nil where nothing can.
local function before(job, write)
  if write.env then
    local value = job.environment[write.name]
    local unset = COUNTS[write.name] and "1" or "" -- an empty count would stop srun
    return { name = write.name, value = value or unset, env = true }
  end
  if write.name == "gres" then -- its setter adds a prefix; the field behind it takes all as it is
    return { name = "tres_per_node", value = job.tres_per_node or "" }
  elseif TEXTS[write.name] then
    return { name = write.name, value = job[write.name] or "" }
  end
  local memory = write.name == MEMORY[1] or write.name == MEMORY[2]
  for _, name in ipairs(memory and MEMORY or { write.name }) do
    if job[name] ~= nil then return { name = name, value = job[name] } end
  end
end

-- Slurm shows gres with a prefix (gres: up to 22.05, gres/ later) and what is empty as unset.
local function took(shown, write)
  if TEXTS[write.name] and write.value == "" then return shown == nil or shown == "" end
  if write.name ~= "gres" then return shown == write.value end
  return shown == write.value or shown == "gres:" .. write.value or shown == "gres/" .. write.value
end

local function put(job, write)
  local target = write.env and job.environment or job
  target[write.name] = write.value
  return took(target[write.name], write)
end

-- Applies every write and reads it back; undoes all and raises where one did not take.
function edits.apply(job, writes)
  local undo = {}
  for _, write in ipairs(writes) do
    local known, restore = pcall(before, job, write)
    local ran, done = pcall(put, job, write)
    undo[#undo + 1] = known and restore or nil
    if not (known and ran and done) then
      for i = #undo, 1, -1 do pcall(put, job, undo[i]) end
      error("could not set " .. write.name, 0)
    end
  end
end

return edits
