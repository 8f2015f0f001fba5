-- One job as a request of the wire, version 2: a line of JSON with its numbers, and behind it its
-- texts as they are, since JSON would have every byte of a script looked at. Unset fields are
-- absent, never sentinels.

local request = {}

local MAX_SCRIPT = 32 * 1024
local MAX_TEXT = 1024
local MAX_WORDS, MAX_WORD = 64, 512 -- argv
local HEAD = '{"v":2,"raw":%d,"kind":"submit","deadline_ms":%d,"rests":%d,"job":{"script_truncated":%s%s}}\n'
local LONG_S = 0.0003 -- of looks into the environment: Slurm goes through all of it for each name

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
    ntasks_per_core = "ntasks_per_core", ntasks_per_socket = "ntasks_per_socket",
    sockets_per_node = "sockets_per_node", cores_per_socket = "cores_per_socket",
    threads_per_core = "threads_per_core",
  },
  [4294967294] = {
    user_id = "user_id", num_tasks = "num_tasks", min_nodes = "min_nodes", max_nodes = "max_nodes",
    min_cpus = "min_cpus", time_limit_minutes = "time_limit", het_offset = "het_job_offset",
  },
  [2 ^ 62] = { mem_per_cpu_mib = "min_mem_per_cpu", mem_per_node_mib = "min_mem_per_node" },
}

local ENFORCES_BINDING = 2 ^ 4 -- of bitflags

local ENVIRONMENT = {
  "DLQUEUE", "SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS", "PYTHONHASHSEED", "DLQUEUE_SHARE",
  "SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK",
  "SLURM_TRES_BIND", "SLURM_TRES_PER_TASK", "DLQUEUE_SHARED", "DLQUEUE_ELASTIC",
  "DLQUEUE_SEEDED", "DLQUEUE_AUTOTUNE", "DLQUEUE_NUM_WORKERS", "DLQUEUE_NUM_THREADS",
  "DLQUEUE_BUCKETS", "DLQUEUE_DECISION",
}

local find, sub = string.find, string.sub

-- Adds `name=value` to the texts, up to `limit` bytes or a NUL, which ends each text on the wire.
local function add(texts, name, value, limit)
  if value == nil then return end
  local kept = sub(value, 1, limit or MAX_TEXT)
  local stop = find(kept, "\0", 1, true)
  texts[#texts + 1] = name .. "=" .. (stop and sub(kept, 1, stop - 1) or kept)
end

local function set(value)
  return type(value) == "string" and value ~= "" and value or nil
end

local function number(value, limit)
  return type(value) == "number" and value >= 0 and value < limit and value % 1 == 0 and value or nil
end

-- The partition that Slurm will choose for a job that names none.
local function default_partition(partitions)
  for name, partition in pairs(partitions or {}) do
    if partition.flag_default == 1 then return set(name) end
  end
end

-- Names of the job's partitions as its user wrote them, else the default's; nil if there is none.
function request.partition(job, partitions)
  return set(job.partition) or default_partition(partitions)
end

local function add_words(texts, job)
  local argv = job.argv
  for i = 0, math.min(job.argc or 0, MAX_WORDS) - 1 do
    add(texts, "argv", tostring(argv[i] or ""), MAX_WORD)
  end
end

-- Whether all names were looked for: some users have 100,000 variables, and slurmctld waits.
local function add_environment(texts, job)
  local environment = job.environment -- Slurm makes a new table for each look
  if environment == nil then return true end
  local now = require("socket.core").gettime
  local ends = now() + LONG_S
  for _, name in ipairs(ENVIRONMENT) do
    if now() > ends then return false end
    add(texts, "env." .. name, set(environment[name]))
  end
  return true
end

-- The texts, and whether they are all there is.
local function texts_of(job, script, partitions)
  local texts = {}
  add(texts, "script", script, MAX_SCRIPT)
  add_words(texts, job)
  local whole = add_environment(texts, job) and #script <= MAX_SCRIPT
  for name, field in pairs(TEXTS) do
    add(texts, name, set(job[field]))
  end
  add(texts, "partition", request.partition(job, partitions))
  add(texts, "account", set(job.account) or set(job.default_account))
  return table.concat(texts, "\0") .. "\0", whole
end

-- Whether --gres-flags=enforce-binding keeps the job to its GPUs' sockets (slurm.h).
local function binds_gres(job)
  local flags = number(job.bitflags, 2 ^ 53)
  return flags and math.floor(flags / ENFORCES_BINDING) % 2 == 1
end

local function numbers_of(job)
  local seen = { binds_gres(job) and ',"binds_gres":1' or nil }
  for limit, fields in pairs(NUMBERS) do
    for name, field in pairs(fields) do
      local value = number(job[field], limit)
      if value then seen[#seen + 1] = (',"%s":%.0f'):format(name, value) end
    end
  end
  return table.concat(seen)
end

-- The request for a job with this script; `partitions` is the list that Slurm hands to plugins,
-- `rests` how often the advisor was left alone so far.
function request.line(job, script, partitions, deadline_ms, rests)
  local texts, whole = texts_of(job, script, partitions)
  local cut = whole and "false" or "true" -- the advisor leaves what it does not see whole
  return HEAD:format(#texts, deadline_ms, rests, cut, numbers_of(job)) .. texts
end

return request
