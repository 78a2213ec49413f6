! The cells of late.F90, by the binding that BINDING_MPIF, BINDING_MPI or BINDING_F08 names.
#if defined BINDING_F08
#define COMM_TYPE type(MPI_Comm)
#define REQUEST_TYPE type(MPI_Request)
#define WIN_TYPE type(MPI_Win)
#define FILE_TYPE type(MPI_File)
#define GROUP_TYPE type(MPI_Group)
#define MESSAGE_TYPE type(MPI_Message)
#define STATUS_TYPE(name, many) type(MPI_Status) :: name many
#else
#define COMM_TYPE integer
#define REQUEST_TYPE integer
#define WIN_TYPE integer
#define FILE_TYPE integer
#define GROUP_TYPE integer
#define MESSAGE_TYPE integer
#define STATUS_TYPE(name, many) integer :: name(MPI_STATUS_SIZE, 2)
#endif

module late_clock
  use, intrinsic :: iso_c_binding
  implicit none
  type, bind(c) :: timespec
    integer(c_long) :: seconds, nanoseconds
  end type
  interface
    integer(c_int) function clock_gettime(clock, now) bind(c)
      import :: c_int, timespec
      integer(c_int), value :: clock
      type(timespec), intent(out) :: now
    end function
    ! The functions of absence.h.
    subroutine absence_stay(milliseconds, name) bind(c)
      import :: c_int, c_char
      integer(c_int), value :: milliseconds
      character(kind=c_char), intent(in) :: name(*)
    end subroutine
    subroutine absence_enter(name) bind(c)
      import :: c_char
      character(kind=c_char), intent(in) :: name(*)
    end subroutine
    character(kind=c_char) function absence_leave(sleeps) bind(c)
      import :: c_char, c_long
      integer(c_long), intent(out) :: sleeps
    end function
  end interface
  integer(c_int), parameter :: MONOTONIC = 1, THREAD_CPU = 3
contains
  double precision function seconds(clock)
    integer(c_int), intent(in) :: clock
    type(timespec) :: now
    integer(c_int) :: status

    status = clock_gettime(clock, now)
    seconds = dble(now%seconds) + 1d-9 * dble(now%nanoseconds)
  end function
end module

module late_cells
#if defined BINDING_F08
  use mpi_f08
#elif defined BINDING_MPI
  use mpi
#endif
  use late_clock
  implicit none
#if defined BINDING_MPIF
  include 'mpif.h'
#endif
  integer, parameter :: COUNT = 1000, TAG = 7
  double precision :: mine(2 * COUNT), theirs(2 * COUNT), early(COUNT), shown(COUNT)
  integer :: rank, ierr
  COMM_TYPE :: ring, alone, between, made
  REQUEST_TYPE :: requests(2)
  MESSAGE_TYPE :: message
  WIN_TYPE :: window
  FILE_TYPE :: handle
  STATUS_TYPE(statuses, (2))
  character(len=256) :: path
contains
  subroutine send_mine(number)
    integer, intent(in) :: number

    call MPI_Send(mine, COUNT, MPI_DOUBLE_PRECISION, 1, number, MPI_COMM_WORLD, ierr)
  end subroutine

  subroutine take()
    call MPI_Recv(theirs, COUNT, MPI_DOUBLE_PRECISION, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  end subroutine

  ! Rank 1 gets two messages: the first in time, the second late.
  subroutine two_prepare()
    if (rank == 0) then
      call send_mine(TAG)
    else
      call MPI_Irecv(early, COUNT, MPI_DOUBLE_PRECISION, 0, TAG, MPI_COMM_WORLD, requests(1), ierr)
      call MPI_Irecv(theirs, COUNT, MPI_DOUBLE_PRECISION, 0, TAG + 1, MPI_COMM_WORLD, requests(2), ierr)
    end if
  end subroutine

  subroutine group_prepare(name)
    character(len=*), intent(in) :: name
    GROUP_TYPE :: world, other

    call MPI_Comm_group(MPI_COMM_WORLD, world, ierr)
    call MPI_Group_incl(world, 1, [1 - rank], other, ierr)
    if (rank == 0) then
      call MPI_Win_start(other, 0, window, ierr)
    else if (name == 'Win_wait') then
      call MPI_Win_post(other, 0, window, ierr)
    end if
    call MPI_Group_free(other, ierr)
    call MPI_Group_free(world, ierr)
  end subroutine

  subroutine file_prepare(opened)
    logical, intent(in) :: opened

    if (rank == 0) then
      call get_environment_variable('LATE_FOLDER', path)
      path = trim(path)//'/late-fortran'
    end if
    call MPI_Bcast(path, 256, MPI_CHARACTER, 0, MPI_COMM_WORLD, ierr)
    if (.not. opened) return
    call file_open()
    call MPI_File_set_view(handle, 0_MPI_OFFSET_KIND, MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, 'native', &
                           MPI_INFO_NULL, ierr)
  end subroutine

  subroutine file_open()
    call MPI_File_open(MPI_COMM_WORLD, path, ior(MPI_MODE_CREATE, MPI_MODE_RDWR), MPI_INFO_NULL, handle, ierr)
  end subroutine

  subroutine file_release(read)
    logical, intent(in) :: read

    if (read) then
      call MPI_File_sync(handle, ierr)
      call MPI_Barrier(MPI_COMM_WORLD, ierr)
      call MPI_File_sync(handle, ierr)
      call MPI_File_read_at_all(handle, 0_MPI_OFFSET_KIND, theirs, 2 * COUNT, MPI_DOUBLE_PRECISION, &
                                MPI_STATUS_IGNORE, ierr)
    end if
    call MPI_File_close(handle, ierr)
    if (rank == 0) call MPI_File_delete(path, MPI_INFO_NULL, ierr)
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
  end subroutine

  subroutine prepare(name)
    character(len=*), intent(in) :: name

    select case (name)
    case ('Waitall')
      call two_prepare()
    case ('Waitany', 'Waitsome')
      call two_prepare()
      if (rank == 1) call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierr)
    case ('Start+Wait')
      if (rank == 0) then
        call MPI_Send_init(mine, COUNT, MPI_DOUBLE_PRECISION, 1, TAG, MPI_COMM_WORLD, requests(1), ierr)
      else
        call MPI_Recv_init(theirs, COUNT, MPI_DOUBLE_PRECISION, 0, TAG, MPI_COMM_WORLD, requests(1), ierr)
      end if
    case ('Win_fence')
      call MPI_Win_fence(0, window, ierr)
    case ('Win_lock')
      if (rank == 0) call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window, ierr)
    case ('Win_wait')
      call group_prepare(name)
    case ('File_open')
      call file_prepare(.false.)
    case ('File_sync', 'File_write_ordered', 'File_write_at_all')
      call file_prepare(.true.)
    end select
  end subroutine

  subroutine play(name)
    character(len=*), intent(in) :: name

    call play_p2p(name)
    call play_several(name)
    call play_collective(name)
    call play_comm(name)
    call play_other(name)
  end subroutine

  subroutine play_p2p(name)
    character(len=*), intent(in) :: name

    select case (name)
    case ('Recv', 'Wait', 'Probe', 'Mprobe')
      if (rank == 0) call send_mine(TAG)
    case ('Waitall', 'Waitany', 'Waitsome')
      if (rank == 0) call send_mine(TAG + 1)
    end select
    select case (name)
    case ('Ssend')
      if (rank == 0) call MPI_Recv(theirs, COUNT, MPI_DOUBLE_PRECISION, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
      if (rank == 1) call MPI_Ssend(mine, COUNT, MPI_DOUBLE_PRECISION, 0, TAG, MPI_COMM_WORLD, ierr)
    case ('Sendrecv')
      call MPI_Sendrecv(mine, COUNT, MPI_DOUBLE_PRECISION, 1 - rank, TAG, theirs, COUNT, MPI_DOUBLE_PRECISION, &
                        1 - rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    case ('Start+Wait')
      call MPI_Start(requests(1), ierr)
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierr)
    end select
  end subroutine

  subroutine play_several(name)
    character(len=*), intent(in) :: name
    integer :: index, done, indices(2)

    if (rank == 0) return
    select case (name)
    case ('Recv')
      call take()
    case ('Wait')
      call MPI_Irecv(theirs, COUNT, MPI_DOUBLE_PRECISION, 0, TAG, MPI_COMM_WORLD, requests(1), ierr)
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierr)
    case ('Waitall')
      call MPI_Waitall(2, requests, statuses, ierr)
    case ('Waitany')
      call MPI_Waitany(2, requests, index, MPI_STATUS_IGNORE, ierr)
    case ('Waitsome')
      call MPI_Waitsome(2, requests, done, indices, statuses, ierr)
    case ('Probe')
      call MPI_Probe(0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    case ('Mprobe')
      call MPI_Mprobe(0, TAG, MPI_COMM_WORLD, message, MPI_STATUS_IGNORE, ierr)
    end select
  end subroutine

  subroutine play_collective(name)
    character(len=*), intent(in) :: name

    select case (name)
    case ('Barrier')
      call MPI_Barrier(MPI_COMM_WORLD, ierr)
    case ('Bcast')
      if (rank == 0) call MPI_Bcast(mine, COUNT, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, ierr)
      if (rank == 1) call MPI_Bcast(theirs, COUNT, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, ierr)
    case ('Allreduce')
      call MPI_Allreduce(mine, theirs, COUNT, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
    case ('Allgather')
      call MPI_Allgather(mine, COUNT, MPI_DOUBLE_PRECISION, theirs, COUNT, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, ierr)
    case ('Alltoall')
      call MPI_Alltoall(mine, COUNT, MPI_DOUBLE_PRECISION, theirs, COUNT, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, ierr)
    case ('Scan')
      call MPI_Scan(mine, theirs, COUNT, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
    case ('Neighbor_allgather')
      call MPI_Neighbor_allgather(mine, COUNT, MPI_DOUBLE_PRECISION, theirs, COUNT, MPI_DOUBLE_PRECISION, ring, ierr)
    case ('Neighbor_alltoall')
      call MPI_Neighbor_alltoall(mine, COUNT, MPI_DOUBLE_PRECISION, theirs, COUNT, MPI_DOUBLE_PRECISION, ring, ierr)
    end select
  end subroutine

  subroutine play_comm(name)
    character(len=*), intent(in) :: name

    select case (name)
    case ('Barrier(inter)')
      call MPI_Barrier(between, ierr)
    case ('Bcast(inter)')
      if (rank == 0) call MPI_Bcast(mine, COUNT, MPI_DOUBLE_PRECISION, MPI_ROOT, between, ierr)
      if (rank == 1) call MPI_Bcast(theirs, COUNT, MPI_DOUBLE_PRECISION, 0, between, ierr)
    case ('Allreduce(inter)')
      call MPI_Allreduce(mine, theirs, COUNT, MPI_DOUBLE_PRECISION, MPI_SUM, between, ierr)
    case ('Comm_dup')
      call MPI_Comm_dup(MPI_COMM_WORLD, made, ierr)
    case ('Comm_split')
      call MPI_Comm_split(MPI_COMM_WORLD, 0, rank, made, ierr)
    case ('Intercomm_create')
      call MPI_Intercomm_create(alone, 0, MPI_COMM_WORLD, 1 - rank, TAG, made, ierr)
    end select
  end subroutine

  subroutine play_other(name)
    character(len=*), intent(in) :: name
    integer(kind=MPI_ADDRESS_KIND), parameter :: start = 0

    select case (name)
    case ('Win_fence')
      if (rank == 0) call MPI_Put(mine, COUNT, MPI_DOUBLE_PRECISION, 1, start, COUNT, MPI_DOUBLE_PRECISION, window, ierr)
      call MPI_Win_fence(0, window, ierr)
    case ('Win_wait')
      if (rank == 0) call MPI_Put(mine, COUNT, MPI_DOUBLE_PRECISION, 1, start, COUNT, MPI_DOUBLE_PRECISION, window, ierr)
      if (rank == 0) call MPI_Win_complete(window, ierr)
      if (rank == 1) call MPI_Win_wait(window, ierr)
    case ('Win_lock')
      if (rank == 0) then
        call MPI_Put(mine, COUNT, MPI_DOUBLE_PRECISION, 0, start, COUNT, MPI_DOUBLE_PRECISION, window, ierr)
      else
        call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window, ierr)
        call MPI_Get(theirs, COUNT, MPI_DOUBLE_PRECISION, 0, start, COUNT, MPI_DOUBLE_PRECISION, window, ierr)
      end if
      call MPI_Win_unlock(0, window, ierr)
    case ('File_open')
      call file_open()
    case ('File_sync')
      call MPI_File_sync(handle, ierr)
    case ('File_write_ordered')
      call MPI_File_write_ordered(handle, mine, COUNT, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE, ierr)
    case ('File_write_at_all')
      call MPI_File_write_at_all(handle, int(rank * COUNT, MPI_OFFSET_KIND), mine, COUNT, MPI_DOUBLE_PRECISION, &
                                 MPI_STATUS_IGNORE, ierr)
    end select
  end subroutine

  subroutine release(name)
    character(len=*), intent(in) :: name

    select case (name)
    case ('Probe')
      if (rank == 1) call take()
    case ('Mprobe')
      if (rank == 1) call MPI_Mrecv(theirs, COUNT, MPI_DOUBLE_PRECISION, message, MPI_STATUS_IGNORE, ierr)
    case ('Start+Wait')
      call MPI_Request_free(requests(1), ierr)
    case ('Comm_dup', 'Comm_split', 'Intercomm_create')
      call MPI_Comm_free(made, ierr)
    case ('Win_lock') ! rank 0 would otherwise take it again before rank 1 had seen it free
      call MPI_Barrier(MPI_COMM_WORLD, ierr)
    case ('Win_fence', 'Win_wait')
      theirs(1:COUNT) = shown
    case ('File_open', 'File_sync')
      call file_release(.false.)
    case ('File_write_ordered', 'File_write_at_all')
      call file_release(.true.)
    end select
  end subroutine

  subroutine make()
    call MPI_Cart_create(MPI_COMM_WORLD, 1, [2], [.true.], .false., ring, ierr)
    call MPI_Comm_split(MPI_COMM_WORLD, rank, 0, alone, ierr)
    call MPI_Intercomm_create(alone, 0, MPI_COMM_WORLD, 1 - rank, TAG, between, ierr)
    call MPI_Win_create(shown, int(8 * COUNT, MPI_ADDRESS_KIND), 8, MPI_INFO_NULL, MPI_COMM_WORLD, window, ierr)
  end subroutine

  subroutine clean()
    call MPI_Win_free(window, ierr)
    call MPI_Comm_free(between, ierr)
    call MPI_Comm_free(alone, ierr)
    call MPI_Comm_free(ring, ierr)
  end subroutine
end module
