-- dlqueue's part of Slurm's job_submit/lua plugin: ask the advisor about a batch job, apply what it
-- answers, tell the user in one line. slurmctld holds locks while this runs, so whatever goes wrong
-- the job goes as written, nothing is waited for beyond one deadline, and nothing is forked.
--
-- slurmctld watches job_submit.lua only: touch that file after changing this one.
-- Lua 5.1 to 5.4; needs luasocket, and leaves every job alone without it.

local folder = debug.getinfo(1, "S").source:match("^@(.*/)")

-- A file beside this one, given the parts it builds on.
local function part(name, ...)
  return assert(loadfile(folder .. name))(...)
end

local settings = part("dlqueue_settings.lua")
local json = part("json.lua")
local request = part("request.lua")
local edits = part("edits.lua", json)
local room = part("room.lua")
local advisor = part("advisor.lua").new(settings)

local MAX_REASON = 200
local NO_SUCH_FILE, NO_SUCH_FOLDER = 2, 20 -- ENOENT, ENOTDIR

-- The kill file counts as there unless it is certain that it is not. "r+" changes nothing in the
-- file and, unlike "r", cannot hang on a pipe of that name.
local function killed()
  local file, _, code = io.open(settings.kill_file, "r+")
  if file then file:close() end
  return file ~= nil or (code ~= NO_SUCH_FILE and code ~= NO_SUCH_FOLDER)
end

local function right_size(job, script, partitions)
  local line = request.line(job, script, partitions, settings.deadline_ms, advisor.rests)
  local writes, message = edits.from_reply(advisor:ask(line))
  room.check(job, writes, (partitions or {})[request.partition(job, partitions)], settings)
  edits.apply(job, writes)
  advisor:served()
  if message then slurm.log_user("%s", message) end
end

-- Jobs without a script (salloc, srun, later parts of heterogeneous jobs) are never edited:
-- up to Slurm 24.11 a direct srun with changed CPUs starts its command twice.
local function consider(job, partitions)
  local user = job.user_id or -1
  if advisor:resting(user) or killed() then return end
  local script = job.script -- once: each look copies up to 4 MiB
  if script == nil then return end
  local done, why = pcall(right_size, job, script, partitions)
  if done then return end
  local whose = advisor:rest(user) and "jobs" or ("jobs of user %d"):format(user)
  local reason = tostring(why):gsub("[^ -~]+", " "):sub(1, MAX_REASON)
  slurm.log_info("dlqueue: no advice (%s); %s go as written for %d s", reason, whose, settings.breaker_s)
end

local dlqueue = {}

-- To be called with slurm_job_submit's own arguments; raises nothing and always allows the job.
function dlqueue.submit(job, partitions)
  pcall(consider, job, partitions)
  return slurm.SUCCESS
end

-- A site's own slurm_job_submit with ours behind it: what the site lets through is considered, and
-- its answers and errors stay its own. Slurm takes an answer that is no number as SUCCESS.
function dlqueue.after(theirs)
  assert(type(theirs) == "function", "no slurm_job_submit")
  return function(job, partitions, ...)
    local answer = theirs(job, partitions, ...)
    if type(answer) ~= "number" or answer == slurm.SUCCESS then pcall(consider, job, partitions) end
    return answer
  end
end

return dlqueue
