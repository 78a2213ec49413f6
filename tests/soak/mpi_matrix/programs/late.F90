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
  double precision :: share

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
  share = share_of('Finalize')
  if (rank == 1) print '(a)', 'Finalize'//text_of(share)//' 0'
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

  ! Negative: the call was over long before rank 0 came.
  double precision function share_of(name)
    character(len=*), intent(in) :: name
    integer(c_int) :: status
    double precision :: cpu, wall

    if (rank == 0) status = usleep(int(milliseconds * 1000, c_int))
    cpu = seconds(THREAD_CPU)
    wall = seconds(MONOTONIC)
    if (name == 'Finalize') then
      call MPI_Finalize(ierr)
    else
      call play(name)
    end if
    cpu = seconds(THREAD_CPU) - cpu
    wall = seconds(MONOTONIC) - wall
    share_of = merge(cpu / wall, -1d0, wall > milliseconds * 0.8d-3)
  end function

  function text_of(share) result(text)
    double precision, intent(in) :: share
    character(len=7) :: text

    text = ' -'
    if (share >= 0) write (text, '(f7.4)') share
  end function

  subroutine measure(name)
    character(len=*), intent(in) :: name
    character(len=400) :: text
    double precision :: total, once
    integer :: j, k

    theirs = 0
    total = 0
    text = ''
    do k = 1, repetitions
      mine = [(dble(j + k - 1) / (7 + rank), j=1, 2 * COUNT)]
      call prepare(name)
      call MPI_Barrier(MPI_COMM_WORLD, ierr)
      once = share_of(name)
      call release(name)
      text = trim(text)//merge(',', ' ', k > 1)//adjustl(text_of(once))
      do j = 1, 2 * COUNT
        total = total + theirs(j) * j
      end do
    end do
    if (rank == 1) print '(a," ",a," ",z16.16)', name, trim(adjustl(text)), transfer(total, 0_c_int64_t)
    flush (6)
  end subroutine
end program
