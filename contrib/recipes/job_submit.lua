-- A default wait policy for each partition, for job_submit/lua (JobSubmitPlugins=lua in slurm.conf; this file, or its
-- functions, as job_submit.lua beside it).
--
-- sbatch and salloc hand MPI_WAIT_POLICY to their job, where srun reads it: what is set here is weaker than
-- --mpi-wait-policy and than what the user has set, and stronger than the default= of plugstack.conf. Of an srun
-- without an allocation nothing is seen here but the job: for those, and for all partitions alike, use default=.

-- Partition to policy; a partition that is not named gets none. Names and keys are those of --mpi-wait-policy.
local DEFAULTS = {
   long = "nap",
   express = "off",
   ["*"] = nil, -- every other partition
}

local VARIABLE = "MPI_WAIT_POLICY"

-- The first of the job's partitions ("long,short"), or Slurm's default one.
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

-- Whether the user has asked already: an option of sbatch is in the environment of SPANK, a variable in the job's.
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
   -- Only a batch job's environment can be changed here; it is nil for the others.
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
