! late.c in Fortran: the same cells, the same output. Compiled with BINDING_MPIF, BINDING_MPI or BINDING_F08.
program late
  use late_cells
  implicit none
  character(len=20), parameter :: names(31) = [character(len=20) :: 'Recv', 'Ssend', 'Sendrecv', 'Wait', 'Waitall', &
    'Waitany', 'Waitsome', 'Probe', 'Mprobe', 'Start+Wait', 'Barrier', 'Bcast', 'Allreduce', 'Allgather', 'Alltoall', &
    'Scan', 'Neighbor_allgather', 'Neighbor_alltoall', 'Barrier(inter)', 'Bcast(inter)', 'Allreduce(inter)', &
    'Comm_dup', 'Comm_split', 'Intercomm_create', 'Win_fence', 'Win_lock', 'Win_wait', 'File_open', 'File_sync', &
    'File_write_ordered', 'File_write_at_all']
  integer :: milliseconds, repetitions, i

  milliseconds = number_of(1, 50)
  repetitions = number_of(2, 2)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call make()
  do i = 1, size(names)
    if (is_wanted(trim(names(i)))) call measure(trim(names(i)))
  end do
  call clean()
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call measure('Finalize')
contains
  integer function number_of(index, otherwise)
    integer, intent(in) :: index, otherwise
    character(len=20) :: text

    number_of = otherwise
    if (command_argument_count() < index) return
    call get_command_argument(index, text)
    read (text, *) number_of
  end function

  logical function is_wanted(name)
    character(len=*), intent(in) :: name
    character(len=20) :: text
    integer :: index

    is_wanted = command_argument_count() < 3
    do index = 3, command_argument_count()
      call get_command_argument(index, text)
      is_wanted = is_wanted .or. text == name
    end do
  end function

  ! Does not print yet: rank 1's figures go behind the texts.
  subroutine measure_once(name, shares, slept, ends)
    character(len=*), intent(in) :: name
    character(len=*), intent(inout) :: shares, slept, ends
    character(len=12) :: text
    character(kind=c_char) :: ended
    integer(c_long) :: sleeps
    double precision :: cpu, wall

    if (rank == 0) then
      call absence_stay(int(milliseconds, c_int), trim(name)//c_null_char)
    else
      call absence_enter(trim(name)//c_null_char)
    end if
    cpu = seconds(THREAD_CPU)
    wall = seconds(MONOTONIC)
    if (name == 'Finalize') then
      call MPI_Finalize(ierr)
    else
      call play(name)
    end if
    cpu = seconds(THREAD_CPU) - cpu
    wall = seconds(MONOTONIC) - wall
    if (rank == 0) return
    ended = absence_leave(sleeps)
    write (text, '(f7.4)') cpu / wall
    if (ended == 'r') text = '-'
    if (len_trim(ends) > 0) then
      shares = trim(shares)//','
      slept = trim(slept)//','
    end if
    shares = trim(shares)//adjustl(text)
    write (text, '(i0)') sleeps
    slept = trim(slept)//text
    ends = trim(ends)//ended
  end subroutine

  subroutine measure(name)
    character(len=*), intent(in) :: name
    character(len=2000) :: shares, slept, ends
    double precision :: total
    integer :: j, k

    theirs = 0
    total = 0
    shares = ''
    slept = ''
    ends = ''
    do k = 1, merge(1, repetitions, name == 'Finalize')
      mine = [(dble(j + k - 1) / (7 + rank), j=1, 2 * COUNT)]
      if (name /= 'Finalize') then
        call prepare(name)
        call MPI_Barrier(MPI_COMM_WORLD, ierr)
      end if
      call measure_once(name, shares, slept, ends)
      if (name /= 'Finalize') call release(name)
      do j = 1, 2 * COUNT
        total = total + theirs(j) * j
      end do
    end do
    if (rank == 1) print '(4(a," "),z16.16)', name, trim(shares), trim(slept), trim(ends), &
      transfer(total, 0_c_int64_t)
    flush (6)
  end subroutine
end program
