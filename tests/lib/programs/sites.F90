! Two callsites at which Fortran waits for rank 0, through MPI's layer for Fortran.
program sites
  use mpi
  implicit none
  integer :: ierror, rank, i

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  do i = 1, 3
    if (rank == 0) call sleep_ms(20)
    call first_place()
  end do
  do i = 1, 3
    if (rank == 0) call sleep_ms(20)
    call second_place()
  end do
  call MPI_Finalize(ierror)

contains

  subroutine sleep_ms(milliseconds)
    integer, intent(in) :: milliseconds
    integer(8) :: start, now, rate

    call system_clock(start, rate)
    do
      call system_clock(now)
      if (real(now - start) / real(rate) > milliseconds / 1e3) exit
    end do
  end subroutine

  subroutine first_place()
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
  end subroutine

  subroutine second_place()
    integer :: value

    value = rank
    call MPI_Bcast(value, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierror)
  end subroutine
end program
