! Rank 0 sends a second late; rank 1 blocks in MPI_RECV meanwhile. By way of mpif.h.
      program late_sender_mpif
      implicit none
      include 'mpif.h'
      double precision data(1000), until
      integer rank, i, ierr

      call MPI_INIT(ierr)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
      if (rank .eq. 0) then
        do i = 1, 1000
          data(i) = i / 7d0
        end do
        until = MPI_WTIME() + 1
        do while (MPI_WTIME() .lt. until)
        end do
        call MPI_SEND(data, 1000, MPI_DOUBLE_PRECISION, 1, 7,
     &                MPI_COMM_WORLD, ierr)
      else if (rank .eq. 1) then
        call MPI_RECV(data, 1000, MPI_DOUBLE_PRECISION, 0, 7,
     &                MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
        print '(a,z16)', 'checksum ', sum(data)
      end if
      call MPI_FINALIZE(ierr)
      end program
