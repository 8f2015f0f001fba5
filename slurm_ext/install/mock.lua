-- Hands made-up submissions to a job_submit.lua as slurmctld would, and prints what became of each:
--     NAME asked=N answer=VALUE said=N writes=FIELD=VALUE,...
-- `asked` counts looks at the kill file (the second argument), by which dlqueue begins. A third
-- argument makes every such look an error. Nothing that the script does reaches the machine.
-- Lua 5.1 to 5.4.

local script, kill_file, broken = arg[1], arg[2], arg[3] == "broken"
local asked, said, open = 0, 0, io.open
local time, hours = os.time, 0

-- Each submission comes an hour after the one before: dlqueue rests from no failure any more.
function os.time(...) return ... and time(...) or time() + 3600 * hours end

function io.open(path, how)
  if path == kill_file then
    asked = asked + 1
    if broken then error("a fault of dlqueue's") end
  end
  if (how or "r"):find("[wa]") then return nil, "a mock submission writes nothing", 13 end
  return open(path, how)
end
for _, part in ipairs({ { os, "execute" }, { os, "remove" }, { os, "rename" }, { io, "popen" } }) do
  part[1][part[2]] = function() return nil, "a mock submission does nothing" end
end
io.output = function() return nil end
os.exit = function() error("os.exit") end

local function nothing() end
local function tells() said = said + 1 end
slurm = setmetatable({
  SUCCESS = 0, ERROR = -1, FAILURE = -1, NO_VAL = 4294967294, NO_VAL16 = 65534, NO_VAL8 = 254,
  NO_VAL64 = 2 ^ 64, INFINITE = 4294967295, INFINITE16 = 65535, INFINITE64 = 2 ^ 64,
  NICE_OFFSET = 2147483648, jobs = {}, reservations = {},
  log_user = tells, user_msg = tells,
  log_info = nothing, log_debug = nothing, log_debug2 = nothing, log_debug3 = nothing,
  log_debug4 = nothing, log_verbose = nothing, log_error = nothing, error = nothing, log = nothing,
  get_qos_priority = function() return 0 end,
  time_str2mins = function() return 60 end,
}, {
  __index = function(_, name)
    return type(name) == "string" and name:find("^ESLURM") and 2000 or nil
  end,
})

local function job(fields)
  local values = {
    name = "train.sh", user_name = "nobody", user_id = 65534, group_id = 65534, argc = 0, argv = {},
    partition = "batch", account = "none", time_limit = 60, work_dir = "/", comment = nil,
    script = "#!/bin/sh\ntrue\n", environment = {}, num_tasks = 1, cpus_per_task = 65534,
    min_cpus = 1, pn_min_cpus = 65534, min_nodes = 1, max_nodes = 1, ntasks_per_node = 65534,
    pn_min_memory = 2 ^ 64, min_mem_per_node = nil, min_mem_per_cpu = nil, shared = 65534,
    het_job_offset = 4294967294, nice = 4294967294, priority = 4294967294, features = nil,
    gres = nil, tres_per_node = nil, tres_per_job = nil, qos = nil, bitflags = 0,
  }
  for name, value in pairs(fields) do values[name] = value or nil end
  local writes = {}
  return setmetatable({}, {
    __index = values,
    __newindex = function(_, name, value)
      values[name], writes[#writes + 1] = value, tostring(name) .. "=" .. tostring(value)
    end,
  }), writes
end

local JOBS = {
  { "batch", {} },
  { "wide", { num_tasks = 4, cpus_per_task = 4, min_cpus = 16, pn_min_cpus = 4 } },
  { "gpu", { tres_per_node = "gres:gpu:1", cpus_per_task = 8, min_cpus = 8, pn_min_cpus = 8 } },
  { "srun", { script = false, environment = false } },
}

local function plain(value) return (tostring(value):gsub("[^%w_.,=:/-]+", "_"):sub(1, 200)) end

local chunk, why = loadfile(script)
if not chunk then print("broken", why) return end
local ran, what = pcall(chunk)
if not ran then print("broken", what) return end
if what ~= nil and what ~= 0 then print("broken", "the file returns " .. tostring(what)) return end
for _, name in ipairs({ "slurm_job_submit", "slurm_job_modify" }) do
  if type(_G[name]) ~= "function" then print("broken", "no function " .. name) return end
end

local PARTITIONS = { batch = { name = "batch", flag_default = 1 } }
for _, each in ipairs(JOBS) do
  asked, said, hours = 0, 0, hours + 1
  local given, writes = job(each[2])
  local done, answer = pcall(slurm_job_submit, given, PARTITIONS, 65534)
  local told = done and plain(answer) or "error:" .. plain(answer)
  table.sort(writes)
  print(("%s asked=%d answer=%s said=%d writes=%s"):format(
    each[1], asked, told, said, plain(table.concat(writes, ","))))
end
