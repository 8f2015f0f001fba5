-- For a site without a job_submit.lua of its own. A site that has one adds the first line, and the
-- pcall of the second before its own `return slurm.SUCCESS`. A missing or broken dlqueue.lua costs no job.
local _, dlqueue = pcall(dofile, "/etc/dlqueue/lua/dlqueue.lua")
function slurm_job_submit(...) pcall(function(...) dlqueue.submit(...) end, ...) return slurm.SUCCESS end
function slurm_job_modify() return slurm.SUCCESS end -- Slurm demands it; dlqueue has no part in it
