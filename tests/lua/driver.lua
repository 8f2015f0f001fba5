-- Runs one chunk a line (hex words: the code, then its arguments) and prints {ran, value} as a
-- Python literal, strings as bytes. A mock `slurm` and mock jobs stand in for slurmctld.

local function plain(hex)
  if hex == "-" then return "" end
  return (hex:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

local literal

local function members(value)
  local parts = {}
  for name, item in pairs(value) do parts[#parts + 1] = literal(name) .. ":" .. literal(item) end
  return "{" .. table.concat(parts, ",") .. "}"
end

local function items(value)
  local parts = {}
  for i, item in ipairs(value) do parts[i] = literal(item) end
  return "[" .. table.concat(parts, ",") .. "]"
end

function literal(value)
  if value == nil or (json and value == json.null) then return "None" end
  if type(value) == "boolean" then return value and "True" or "False" end
  if type(value) == "number" then
    if value == 1 / 0 then return "1e999" end
    return value ~= value and "None" or string.format("%.17g", value)
  end
  if type(value) == "table" then return value[1] ~= nil and items(value) or members(value) end
  return "b'" .. tostring(value):gsub(".", function(c) return string.format("\\x%02x", c:byte()) end)
    :gsub("\n", "\\x0a") .. "'"
end

-- slurmctld's side -------------------------------------------------------------------------

slurm = { SUCCESS = 0, NO_VAL = 4294967294, NO_VAL16 = 65534, NO_VAL64 = 2 ^ 64 }
said, logged = {}, {}
function slurm.log_user(form, ...) said[#said + 1] = string.format(form, ...) end
function slurm.log_info(form, ...) logged[#logged + 1] = string.format(form, ...) end

-- A job of `fields` over what a plain sbatch shows. Fields named in `stuck` ignore writing; every
-- write is counted, and one that the real Slurm does not survive or ignores is an error.
local SETTABLE = {
  cpus_per_task = true, min_cpus = true, pn_min_cpus = true,
  min_mem_per_cpu = true, min_mem_per_node = true,
}
local TEXTS = {
  gres = true, tres_per_node = true, tres_per_job = true, tres_per_task = true, tres_bind = true,
  prefer = true,
}

function mock_job(fields, environment, stuck)
  local job = {
    cpus_per_task = 65534, min_cpus = 1, pn_min_cpus = 65534, num_tasks = 4294967294, argc = 0,
    ntasks_per_node = 65534, min_nodes = 4294967294, max_nodes = 4294967294, shared = 65534,
    time_limit = 4294967294, het_job_offset = 4294967294, user_id = 1000, user_name = "ada",
    name = "train.sh", script = "#!/bin/bash\ntrue\n", work_dir = "/home/ada",
    environment = environment and setmetatable({}, {
      __index = environment,
      __newindex = function(_, name, value)
        assert(type(value) == "string", "only strings can be set")
        if not stuck[name] then environment[name] = value end
      end,
    }),
  }
  for name, value in pairs(fields) do job[name] = value or nil end
  return setmetatable({}, {
    __index = function(_, name) return job[name == "gres" and "tres_per_node" or name] end,
    __newindex = function(_, name, value)
      if TEXTS[name] then
        assert(type(value) == "string", "not a text")
        if stuck[name] then return end
        if name == "gres" and value ~= "" then value = "gres:" .. value end -- as 22.05 does
        job[name == "gres" and "tres_per_node" or name] = value ~= "" and value or nil
        return
      end
      assert(SETTABLE[name], "slurmctld 22.05 does not survive this")
      assert(type(value) == "number", "not a number")
      if stuck[name] then return end
      if name == "min_mem_per_cpu" then job.min_mem_per_node = nil end
      if name == "min_mem_per_node" then job.min_mem_per_cpu = nil end
      job[name] = value
    end,
  }), job
end

-- One reply applied to a job by the global `edits`, and what it left behind.
function apply(reply, fields, environment, stuck)
  local job, raw = mock_job(fields, environment, stuck)
  local writes, message = edits.from_reply(reply)
  local ran, why = pcall(edits.apply, job, writes)
  raw.environment = nil
  return { why = ran and "" or why, job = raw, env = environment or false, message = message or "" }
end

-- One submission to the global `dlqueue`, and what it left behind.
function submit(fields, environment, stuck, partitions)
  said, logged = {}, {}
  local job, raw = mock_job(fields, environment, stuck)
  local answer, numbers = dlqueue.submit(job, partitions, 1000), {}
  for name, value in pairs(raw) do numbers[name] = type(value) == "number" and value or nil end
  return { answer = answer, job = numbers, env = environment, said = said, logged = logged }
end

local load = loadstring or load

for line in io.lines() do
  local words = {}
  for hex in line:gmatch("%S+") do words[#words + 1] = plain(hex) end
  local chunk, broken = load(words[1], "chunk")
  local function call() return assert(chunk, broken)((unpack or table.unpack)(words, 2)) end
  local ran, value = pcall(call)
  io.write("(", tostring(ran):gsub("^%l", string.upper), ",", literal(value), ")\n")
  io.flush()
end
