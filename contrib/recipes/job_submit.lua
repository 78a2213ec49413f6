-- Sets a default wait policy for each partition, by job_submit/lua: JobSubmitPlugins=lua in slurm.conf, and this file,
-- or its functions, as job_submit.lua beside slurm.conf.
--
-- The script sets MPI_WAIT_POLICY in the environment of batch jobs, where srun reads it. --mpi-wait-policy, and a
-- variable that the user has set, override it; it overrides the default= of plugstack.conf. The script cannot change
-- the environment of an srun without an allocation: for those, and for one policy in all partitions, use default=.

-- The policy of each partition. A partition that is not named gets none. Values are those of --mpi-wait-policy.
local DEFAULTS = {
   long = "nap",
   express = "off",
   ["*"] = nil, -- every other partition
}

local VARIABLE = "MPI_WAIT_POLICY"

-- Returns the first of the job's partitions ("long,short"), or Slurm's default one.
local function partition_of(job_desc, part_list)
   if job_desc.partition ~= nil and job_desc.partition ~= "" then
      return string.match(job_desc.partition, "^[^,]+")
   end
   for name, part in pairs(part_list or {}) do
      if part.flag_default == 1 then
         return name
      end
   end
   return nil
end

-- Returns true if the user has chosen a policy. An option of sbatch is in the environment for SPANK, a variable in the
-- job's.
local function has_asked(job_desc)
   for _, key in ipairs({ VARIABLE, "SLURM_SPANK__SLURM_SPANK_OPTION_mpi_wait_mpi_wait_policy" }) do
      local value = job_desc.environment[key]
      if value ~= nil and value ~= "" then
         return true
      end
   end
   return false
end

function slurm_job_submit(job_desc, part_list, submit_uid)
   local name = partition_of(job_desc, part_list)
   local policy = DEFAULTS[name or "*"] or DEFAULTS["*"]
   -- Only the environment of a batch job can be changed here; other jobs have none.
   if policy == nil or job_desc.script == nil or has_asked(job_desc) then
      return slurm.SUCCESS
   end
   job_desc.environment[VARIABLE] = policy
   slurm.log_info("mpi-wait: policy %s for a job in partition %s", policy, name or "?")
   return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
   return slurm.SUCCESS
end

return slurm.SUCCESS
