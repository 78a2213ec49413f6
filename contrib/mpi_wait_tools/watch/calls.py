"""The MPI functions that a segment counts, in the order of its rows: a copy of preload/contract/mpi_calls.def, which is
not installed."""

from __future__ import annotations

_WORDS = """
Init Init_thread Session_init Finalize Session_finalize Abort Send Ssend Rsend Recv Sendrecv Sendrecv_replace
Mrecv Probe Mprobe Wait Waitall Waitany Waitsome Bsend Buffer_detach Buffer_flush Comm_detach_buffer
Comm_flush_buffer Session_detach_buffer Session_flush_buffer Barrier Bcast Gather Gatherv Scatter Scatterv
Allgather Allgatherv Alltoall Alltoallv Alltoallw Reduce Allreduce Reduce_scatter Reduce_scatter_block Scan
Exscan Neighbor_allgather Neighbor_allgatherv Neighbor_alltoall Neighbor_alltoallv Neighbor_alltoallw Win_fence
Win_start Win_complete Win_wait Win_unlock Win_unlock_all Win_flush Win_flush_all Win_flush_local
Win_flush_local_all Win_create Win_allocate Win_allocate_shared Win_create_dynamic Win_free Win_lock
Win_lock_all Comm_dup Comm_dup_with_info Comm_create Comm_create_group Comm_create_from_group Comm_split
Comm_split_type Intercomm_create Intercomm_create_from_groups Intercomm_merge Cart_create Cart_sub Graph_create
Dist_graph_create Dist_graph_create_adjacent Comm_free Comm_disconnect Comm_accept Comm_connect Comm_join
Comm_spawn Comm_spawn_multiple File_open File_close File_set_size File_preallocate File_set_view File_sync
File_set_info File_set_atomicity File_seek_shared File_read_all File_write_all File_read_at_all
File_write_at_all File_read_ordered File_write_ordered File_read_all_begin File_read_all_end
File_write_all_begin File_write_all_end File_read_at_all_begin File_read_at_all_end File_write_at_all_begin
File_write_at_all_end File_read_ordered_begin File_read_ordered_end File_write_ordered_begin
File_write_ordered_end File_delete File_get_position_shared File_read File_write File_read_at File_write_at
File_read_shared File_write_shared Isend Issend Irsend Ibsend Irecv Imrecv Isendrecv Isendrecv_replace Iprobe
Improbe Test Testall Testany Testsome Request_get_status Request_get_status_all Request_get_status_any
Request_get_status_some Start Startall Send_init Ssend_init Rsend_init Bsend_init Recv_init Psend_init
Precv_init Pready Pready_range Pready_list Parrived Buffer_iflush Comm_iflush_buffer Session_iflush_buffer
Ibarrier Ibcast Igather Igatherv Iscatter Iscatterv Iallgather Iallgatherv Ialltoall Ialltoallv Ialltoallw
Ireduce Iallreduce Ireduce_scatter Ireduce_scatter_block Iscan Iexscan Ineighbor_allgather Ineighbor_allgatherv
Ineighbor_alltoall Ineighbor_alltoallv Ineighbor_alltoallw Barrier_init Bcast_init Gather_init Gatherv_init
Scatter_init Scatterv_init Allgather_init Allgatherv_init Alltoall_init Alltoallv_init Alltoallw_init
Reduce_init Allreduce_init Reduce_scatter_init Reduce_scatter_block_init Scan_init Exscan_init
Neighbor_allgather_init Neighbor_allgatherv_init Neighbor_alltoall_init Neighbor_alltoallv_init
Neighbor_alltoallw_init Put Get Accumulate Get_accumulate Fetch_and_op Compare_and_swap Rput Rget Raccumulate
Rget_accumulate Win_post Win_test Win_sync Comm_idup Comm_idup_with_info File_iread File_iwrite File_iread_at
File_iwrite_at File_iread_shared File_iwrite_shared File_iread_all File_iwrite_all File_iread_at_all
File_iwrite_at_all Request_free Pcontrol
"""
NAMES = tuple(_WORDS.split())


def call_name(row: int) -> str:
    """Without MPI_. A row that this release does not know is one of a later one."""
    return NAMES[row] if row < len(NAMES) else f"call {row}"
