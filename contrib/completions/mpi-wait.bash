# Completes mpi-wait in bash: commands, options, and files for options that take one. Runs no command of Slurm's.

_mpi_wait() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words=""
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		words="report top try learn check --help --version"
	elif [[ $command == try && " ${COMP_WORDS[*]:2:COMP_CWORD-2} " == *" -- "* ]]; then # the launcher's words
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		compopt -o filenames 2>/dev/null
		return
	elif [[ $before == --record || $before == --plot || $before == --html || $before == --exe || $before == --spool || $before == --site || $before == --state ]]; then
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		compopt -o filenames 2>/dev/null
		return
	elif [[ $before == --by ]]; then
		words="job account user partition policy"
	elif [[ $before == --order ]]; then
		words="awake threads saved"
	elif [[ $before =~ ^--(calls|width|since|until|user|name|account|partition|limit|rounds|budget|figure|allow|sbatch|trust|worth)$ ]]; then
		return
	elif [[ $before == --policies ]]; then
		words="auto event mwaitx nap profile pstate umwait yield"
	elif [[ $before == --launcher ]]; then
		words="srun mpirun mpiexec"
	elif [[ $command == report && $word != -* ]]; then
		mapfile -t COMPREPLY < <(compgen -d -- "$word")
		compopt -o filenames 2>/dev/null
		return
	elif [[ $command == report ]]; then
		words="--record --spool --site --duplicates --all-ranks --calls --plot --html --exe --csv --watch --once --brief --user --since --until --json --no-color --width --help"
	elif [[ $command == top ]]; then
		words="--by --order --since --until --user --mine --name --plot --account --partition --limit --site --json --no-color --width --help"
	elif [[ $command == try ]]; then
		words="--policies --rounds --budget --figure --more-is-better --allow --launcher --sbatch --show --new --state --plot --html --json --no-color --width --help"
	elif [[ $command == learn ]]; then
		words="--since --until --name --user --trust --allow --worth --limit --json --no-color --width --help"
	elif [[ $command == check ]]; then
		words="--json --no-color --width --help"
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _mpi_wait mpi-wait
