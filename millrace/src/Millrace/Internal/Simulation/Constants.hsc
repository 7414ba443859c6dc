-- | The layouts of @millrace_machine.h@, as the C compiler sees them.
module Millrace.Internal.Simulation.Constants where

#include <stddef.h>
#include "millrace_machine.h"

-- | @mr_machine_plan@.
planSize, planSeedOffset, planRates, planPlanned, planPlannedCount, planDelayMax, planStallTime, planLatencyTime :: Int
planSize = #{size mr_machine_plan}
planSeedOffset = #{offset mr_machine_plan, seed}
planRates = #{offset mr_machine_plan, per_million}
planPlanned = #{offset mr_machine_plan, planned}
planPlannedCount = #{offset mr_machine_plan, planned_count}
planDelayMax = #{offset mr_machine_plan, delay_max_ns}
planStallTime = #{offset mr_machine_plan, stall_ns}
planLatencyTime = #{offset mr_machine_plan, latency_ns}

planRate, planBuffer, planDisk, planDescriptorsOffset, planReordersFlag, planTracesFlag :: Int
planRate = #{offset mr_machine_plan, bytes_per_second}
planBuffer = #{offset mr_machine_plan, buffer_bytes}
planDisk = #{offset mr_machine_plan, disk_bytes}
planDescriptorsOffset = #{offset mr_machine_plan, descriptors_max}
planReordersFlag = #{offset mr_machine_plan, reorders}
planTracesFlag = #{offset mr_machine_plan, traces}

-- | @mr_planned_fault@.
plannedSize, plannedOperation, plannedFault :: Int
plannedSize = #{size mr_planned_fault}
plannedOperation = #{offset mr_planned_fault, operation}
plannedFault = #{offset mr_planned_fault, fault}

-- | @mr_machine_state@ is a sequence of 64-bit numbers in the order of its declaration.
stateSize :: Int
stateSize = #{size mr_machine_state}

-- | @mr_pending@.
pendingSize, pendingToken, pendingKind, pendingDescriptor, pendingDeadline, pendingUserData :: Int
pendingSize = #{size mr_pending}
pendingToken = #{offset mr_pending, token}
pendingKind = #{offset mr_pending, kind}
pendingDescriptor = #{offset mr_pending, descriptor}
pendingDeadline = #{offset mr_pending, deadline_ns}
pendingUserData = #{offset mr_pending, user_data}
