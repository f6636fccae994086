// The files of rocprofv3 in CSV: their stems and columns.
#ifndef ROCATTACH_USERSPACE_EXPORT_CSV_CSV_COLUMNS_H_
#define ROCATTACH_USERSPACE_EXPORT_CSV_CSV_COLUMNS_H_

#include "absl/strings/string_view.h"

namespace rocattach {

// A file's name is BASE_stem.csv; columns are separated by commas.
struct CsvDefinition {
  absl::string_view stem;
  absl::string_view columns;
};

inline constexpr CsvDefinition kKernelTraceCsv = {
    "kernel_trace",
    "Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Dispatch_Id,Kernel_Id,Kernel_Name,"
    "Correlation_Id,Start_Timestamp,End_Timestamp,LDS_Block_Size,Scratch_Size,"
    "VGPR_Count,Accum_VGPR_Count,SGPR_Count,Workgroup_Size_X,Workgroup_Size_Y,"
    "Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,Grid_Size_Z"};

inline constexpr CsvDefinition kCounterCollectionCsv = {
    "counter_collection",
    "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,"
    "Kernel_Id,Kernel_Name,Workgroup_Size,LDS_Block_Size,Scratch_Size,VGPR_Count,"
    "Accum_VGPR_Count,SGPR_Count,Counter_Name,Counter_Value,Start_Timestamp,"
    "End_Timestamp"};

inline constexpr CsvDefinition kMemoryCopyTraceCsv = {
    "memory_copy_trace",
    "Kind,Direction,Stream_Id,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,"
    "Start_Timestamp,End_Timestamp"};

inline constexpr CsvDefinition kMemoryAllocationTraceCsv = {
    "memory_allocation_trace",
    "Kind,Operation,Agent_Id,Allocation_Size,Address,Correlation_Id,Start_Timestamp,"
    "End_Timestamp"};

inline constexpr CsvDefinition kScratchMemoryTraceCsv = {
    "scratch_memory_trace",
    "Kind,Operation,Agent_Id,Queue_Id,Thread_Id,Alloc_Flags,Start_Timestamp,"
    "End_Timestamp,Allocation_Size"};

inline constexpr absl::string_view kApiTraceColumns =
    "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp";
inline constexpr CsvDefinition kHsaApiTraceCsv = {"hsa_api_trace", kApiTraceColumns};
inline constexpr CsvDefinition kHipApiTraceCsv = {"hip_api_trace", kApiTraceColumns};
inline constexpr CsvDefinition kMarkerApiTraceCsv = {"marker_api_trace",
                                                     kApiTraceColumns};

inline constexpr CsvDefinition kRcclApiTraceCsv = {"rccl_api_trace", kApiTraceColumns};

inline constexpr absl::string_view kStatsColumns =
    "Name,Calls,TotalDurationNs,AverageNs,Percentage,MinNs,MaxNs,StdDev";

// Not a file of rocprofv3: the workload of the process (pod, container or job).
inline constexpr CsvDefinition kWorkloadInfoCsv = {"workload_info",
                                                   "Process_Id,Attribute,Value"};

inline constexpr CsvDefinition kAgentInfoCsv = {
    "agent_info",
    "Node_Id,Logical_Node_Id,Agent_Type,Cpu_Cores_Count,Simd_Count,Cpu_Core_Id_Base,"
    "Simd_Id_Base,Max_Waves_Per_Simd,Lds_Size_In_Kb,Gds_Size_In_Kb,Num_Gws,"
    "Wave_Front_Size,Num_Xcc,Cu_Count,Array_Count,Num_Shader_Banks,"
    "Simd_Arrays_Per_Engine,Cu_Per_Simd_Array,Simd_Per_Cu,Max_Slots_Scratch_Cu,"
    "Gfx_Target_Version,Vendor_Id,Device_Id,Location_Id,Domain,Drm_Render_Minor,"
    "Num_Sdma_Engines,Num_Sdma_Xgmi_Engines,Num_Sdma_Queues_Per_Engine,Num_Cp_Queues,"
    "Max_Engine_Clk_Ccompute,Max_Engine_Clk_Fcompute,Sdma_Fw_Version,Fw_Version,"
    "Capability,Cu_Per_Engine,Max_Waves_Per_Cu,Family_Id,Workgroup_Max_Size,"
    "Grid_Max_Size,Local_Mem_Size,Hive_Id,Gpu_Id,Workgroup_Max_Dim_X,"
    "Workgroup_Max_Dim_Y,Workgroup_Max_Dim_Z,Grid_Max_Dim_X,Grid_Max_Dim_Y,"
    "Grid_Max_Dim_Z,Name,Vendor_Name,Product_Name,Model_Name"};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_CSV_CSV_COLUMNS_H_
