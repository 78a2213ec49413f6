! late_sender in Fortran's newest binding: rank 0 sends N milliseconds late, rank 1 waits in MPI_Recv.
program late_sender_f08
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  interface
    integer(c_int) function usleep(microseconds) bind(c)
      import :: c_int
      integer(c_int), value :: microseconds
    end function
  end interface
  double precision :: values(1000)
  character(len=16) :: argument
  integer :: rank, milliseconds, i
  integer(c_int) :: status

  milliseconds = 1000
  if (command_argument_count() > 0) then
    call get_command_argument(1, argument)
    read (argument, *) milliseconds
  end if
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  if (rank == 0) then
    values = [(dble(i) / 7, i=1, 1000)]
    do i = 1, milliseconds
      status = usleep(1000_c_int)
    end do
    call MPI_Send(values, 1000, MPI_DOUBLE_PRECISION, 1, 7, MPI_COMM_WORLD)
  else if (rank == 1) then
    call MPI_Recv(values, 1000, MPI_DOUBLE_PRECISION, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    print '(a,es24.16)', 'checksum ', sum(values)
  end if
  call MPI_Finalize()
end program
