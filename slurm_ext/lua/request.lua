-- One job as the request line of the wire (version 1); unset fields are absent, never sentinels.

local json = ...

local request = {}

local MAX_SCRIPT = 256 * 1024
local MAX_TEXT = 1024
local MAX_WORDS, MAX_WORD = 64, 512 -- argv; together all caps keep any line under a mebibyte

-- Name on the wire = Slurm's field.
local TEXTS = {
  name = "name", user_name = "user_name", qos = "qos", reservation = "reservation",
  comment = "comment", work_dir = "work_dir", array = "array_inx", cpus_per_tres = "cpus_per_tres",
  tres_per_node = "tres_per_node", tres_per_job = "tres_per_job", tres_per_task = "tres_per_task",
  tres_per_socket = "tres_per_socket", tres_bind = "tres_bind", tres_freq = "tres_freq",
  mem_per_tres = "mem_per_tres", features = "features", prefer = "prefer",
}

-- Below `limit` a number is one; from there on Slurm means "not set" or "infinite".
local NUMBERS = {
  [65534] = {
    cpus_per_task = "cpus_per_task", pn_min_cpus = "pn_min_cpus",
    ntasks_per_node = "ntasks_per_node", shared = "shared", ntasks_per_tres = "ntasks_per_tres",
  },
  [4294967294] = {
    user_id = "user_id", num_tasks = "num_tasks", min_nodes = "min_nodes", max_nodes = "max_nodes",
    min_cpus = "min_cpus", time_limit_minutes = "time_limit", het_offset = "het_job_offset",
  },
  [2 ^ 62] = { mem_per_cpu_mib = "min_mem_per_cpu", mem_per_node_mib = "min_mem_per_node" },
}

local ENVIRONMENT = {
  "DLQUEUE", "SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS", "PYTHONHASHSEED", "DLQUEUE_SHARE",
  "SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK",
  "SLURM_TRES_BIND", "SLURM_TRES_PER_TASK", "DLQUEUE_SHARED", "DLQUEUE_ELASTIC",
}
local GRES = { "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task", "cpus_per_tres" }

local function text(value, limit)
  return type(value) == "string" and value ~= "" and value:sub(1, limit or MAX_TEXT) or nil
end

local function number(value, limit)
  return type(value) == "number" and value >= 0 and value < limit and value or nil
end

-- The partition that Slurm will choose for a job that names none.
local function default_partition(partitions)
  for name, partition in pairs(partitions or {}) do
    if partition.flag_default == 1 then return text(name) end
  end
end

local function words(job)
  local found = {}
  for i = 0, math.min(job.argc or 0, MAX_WORDS) - 1 do
    found[i + 1] = tostring(job.argv[i] or ""):sub(1, MAX_WORD)
  end
  return found[1] and found
end

local function environment(job)
  local shown = {}
  for _, name in ipairs(ENVIRONMENT) do
    shown[name] = text(job.environment and job.environment[name])
  end
  return next(shown) and shown
end

local function gres(job)
  local found = {}
  for _, field in ipairs(GRES) do
    found[#found + 1] = text(job[field])
  end
  return found[1] and text(table.concat(found, ","))
end

-- The script's beginning and whether it was cut. A script of control bytes, which JSON writes six
-- times as long, is cut shorter, so that no job can make a line that the advisor refuses.
local function script(job)
  local whole = job.script
  local kept = whole:sub(1, MAX_SCRIPT)
  if #json.encode(kept) > 2 * MAX_SCRIPT + 2 then kept = whole:sub(1, MAX_SCRIPT / 4) end
  return kept, #kept < #whole
end

local function described(job, partitions)
  local seen = { argv = words(job), env = environment(job), gres = gres(job) }
  seen.script, seen.script_truncated = script(job)
  seen.partition = text(job.partition) or default_partition(partitions)
  seen.account = text(job.account) or text(job.default_account)
  for name, field in pairs(TEXTS) do
    seen[name] = text(job[field])
  end
  for limit, fields in pairs(NUMBERS) do
    for name, field in pairs(fields) do
      seen[name] = number(job[field], limit)
    end
  end
  return seen
end

-- The request for a job that has a script; `partitions` is the list that Slurm hands to plugins,
-- `rests` how often the advisor was left alone so far.
function request.line(job, partitions, deadline_ms, rests)
  local job_seen = described(job, partitions)
  local told = { v = 1, kind = "submit", deadline_ms = deadline_ms, rests = rests, job = job_seen }
  return json.encode(told) .. "\n"
end

return request
