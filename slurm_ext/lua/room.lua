-- Whether a job still fits where it goes, and keeps its own memory: an advisor that is wrong would
-- have it rejected, or wait for ever. Only what Slurm tells a plugin can be checked.

local room = {}

local UNSET_CPUS, UNSET_MEMORY = 65534, 2 ^ 62

local function refuse(why)
  error("answered what is not allowed: " .. why, 0)
end

-- Fields that are written, by name.
local function fields_of(writes)
  local fields = {}
  for _, write in ipairs(writes) do
    if not write.env then fields[write.name] = write.value end
  end
  return fields
end

-- CPUs of a partition's average node, which right answers never exceed: they keep to its smallest.
local function cpus_of_node(partition)
  local cpus, nodes = partition.total_cpus, partition.total_nodes
  if type(cpus) ~= "number" or type(nodes) ~= "number" or nodes < 1 then return nil end
  return cpus / nodes
end

local function check_cpus(job, fields, partition)
  local most = partition and cpus_of_node(partition)
  if not (most and fields.min_cpus) then return end
  if fields.min_cpus > math.max(most, job.min_cpus or 1) then refuse("more CPUs than a node has") end
end

-- A task that wrote its memory keeps it, rounded up to a whole MiB for each CPU. Beside
-- --mem-per-gpu no step of a job with memory by the CPU would start.
local function check_memory(job, fields)
  local before, after = job.min_mem_per_cpu, fields.min_mem_per_cpu
  if not after then return end
  if (job.mem_per_tres or "") ~= "" then refuse("memory by the CPU beside memory by the GPU") end
  if type(before) ~= "number" or before >= UNSET_MEMORY then return end
  local written = job.cpus_per_task or UNSET_CPUS
  if written >= UNSET_CPUS then written = 1 end
  local cpus = fields.cpus_per_task or written
  if after * cpus >= before * written + cpus then refuse("more memory than the job had") end
end

-- Raises a one-line reason; `partition` is Slurm's record of the job's only partition, or nil.
function room.check(job, writes, partition, settings)
  local fields = fields_of(writes)
  check_cpus(job, fields, partition)
  check_memory(job, fields)
  if fields.prefer and fields.prefer ~= settings.prefer then refuse("a feature of another name") end
end

return room
